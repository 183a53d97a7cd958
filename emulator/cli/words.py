"""The words of the command line: what each is for, and what became of older ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from emulator.plugins import BUILT_IN, PluginKind
from emulator.suggestions import OLD_WORDS

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "daily": {
        "run": "play a trace and measure every collective",
        "bench": "measure one collective over a range of sizes, or every pair of ports (bench pairs)",
        "bench pairs": "measure every pair of ports and name the slow ones",
        "plan": "link loads and ideal times of a trace on a topology",
        "compare": "compare groups of runs, for example of two firmware versions",
        "report": "write a run as one HTML file",
    },
    "many runs": {
        "sweep": "play a run for every value of a setting and draw the curve",
        "suite": "play a test plan: cases with rules",
    },
    "around a run": {
        "trace": "check, generate, convert, view, diff, anonymize, synth",
        "trace check": "validate and summarise a trace",
        "trace generate": "make a synthetic trace",
        "trace convert": "rewrite a trace as plain Chakra ET, or as one file",
        "trace view": "show a trace in one HTML file: time line, traffic, critical path",
        "trace diff": "compare two trace sets",
        "trace anonymize": "write a copy of a trace that you can share",
        "trace synth": "draw a new trace from the statistics of another",
        "runs": "list, show, prune, judge, export, watch, audit",
        "runs judge": "judge a run by rules: PASS, FAIL, TESTER-LIMITED or UNDECIDED",
        "runs export": "write a run in the format of another tool",
        "runs watch": "follow a run over MQTT",
        "runs audit": "check captured RoCEv2 frames",
        "lab": "a device under test in software: up, down, exec, status, probe",
        "lab probe": "send crafted frames into a device and see what comes out",
        "agent": "play ranks for a controller elsewhere: start, launch, certs, calibrate, peer",
        "agent start": "play ranks on this machine for a controller",
        "agent launch": "start agents on the nodes of a cluster for one run",
        "agent certs": "issue certificates for controllers and agents",
        "agent calibrate": "measure the limits of this tester",
        "agent peer": "exchange RDMA traffic with a host that runs stock perftest",
        "serve": "run a service: queues of runs for devices, users, a web page",
    },
    "help": {
        "demo": "a tour of three minutes on this machine: good and bad firmware, verdict, comparison",
        "help": "print a page of the documentation; help examples, help completion",
        "help examples": "list the topologies, traces, profiles and suites that come with Charkha",
        "help completion": "completion for bash, zsh or fish",
    },
}
"""Group → words of a command → its line in the help. The first page lists those of one word."""
SUMMARIES = {path: summary for group in COMMANDS.values() for path, summary in group.items()}
BOX = "box"
"""An old word with arguments and output of its own."""
_HELP = ("-h", "--help", "--help-all")


def path_of(words: Sequence[str]) -> str:
    """The command of a command line, as its words with a space between; "" without one."""
    first, *rest = words[_start(words) :][:2] or [""]
    path = " ".join([first, *rest])
    return path if path in BUILT_IN[PluginKind.COMMANDS] else first


def renamed(words: Sequence[str]) -> list[str]:
    """A command line in today's words; says so on stderr if they were others.

    `charkha agent --controller …` is `agent start`, without a line: units and scripts of test beds have it.
    """
    at = _start(words)
    before, command = list(words[:at]), list(words[at:])
    if not command:
        return before
    if command[0] == "agent" and command[1:] and command[1].startswith("-") and command[1] not in _HELP:
        return [*before, "agent", "start", *command[1:]]
    today = OLD_WORDS.get(command[0])
    if today is None and command[0] != BOX:
        return [*before, *command]
    instead = today if today is not None else "lab up --between"
    print(f"charkha: `charkha {command[0]}` is now `charkha {instead}`; the old word works until 1.0", file=sys.stderr)
    return [*before, *(today.split() if today is not None else [BOX]), *command[1:]]


def _start(words: Sequence[str]) -> int:
    """Where the command begins, behind the options of `charkha` itself."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] == "--log-level" else 1
    return at
