"""The `charkha` command: its parser, and the one place where errors become lines and exit codes."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec

from emulator import exit_codes
from emulator.cli.parser import Parser
from emulator.errors import FULL, EmulatorError, HostError
from emulator.host.resources import LIBRARIES_BYTES, exhausted, reserve
from emulator.host.stderr_log import log_to_stderr
from emulator.host.traceback_file import write_traceback
from emulator.plugins import BUILT_IN, PluginKind, is_known, load
from emulator.version import VERSION
from emulator.visible import visible

COMMANDS = {
    "test": {
        "run": "play a trace and measure every collective",
        "bench": "measure one collective over a range of sizes",
        "pairs": "measure every pair of ports and name the slow ones",
        "plan": "link loads and ideal times of a trace on a topology",
        "sweep": "play a run for every value of a setting and draw the curve",
        "suite": "play a test plan: cases with rules",
    },
    "traces": {
        "check": "validate and summarise a trace",
        "generate": "make a synthetic trace",
        "convert": "rewrite a trace as plain Chakra ET, or as one file",
        "view": "show a trace in one HTML file: time line, traffic, critical path",
        "diff": "compare two trace sets",
        "anonymize": "write a copy of a trace that you can share",
        "synth": "draw a new trace from the statistics of another",
    },
    "results": {
        "runs": "list, show and prune run folders",
        "expect": "judge a run by rules: PASS, FAIL, TESTER-LIMITED or UNDECIDED",
        "compare": "compare groups of runs, for example of two firmware versions",
        "report": "write a run as one HTML file",
        "export": "write a run in the format of another tool",
        "audit": "check captured RoCEv2 frames",
        "watch": "follow a run over MQTT",
    },
    "test bench": {
        "lab": "bring up a lab: network namespaces around a software switch",
        "box": "put this machine between two devices and apply a profile",
        "calibrate": "measure the limits of this tester",
        "probe": "send crafted frames into a device and see what comes out",
        "peer": "exchange RDMA traffic with a host that runs stock perftest",
    },
    "service": {
        "serve": "run a service: queues of runs for devices, users, a web page",
    },
    "agents": {
        "controller": "like run, but you start every agent yourself",
        "agent": "play ranks on this machine for a controller",
        "launch": "start agents on the nodes of a cluster for one run",
        "certs": "issue certificates for controllers and agents",
    },
    "help": {
        "examples": "list the topologies, traces, profiles and suites that come with Charkha",
        "help": "print a page of the documentation: glossary, topologies, rules, exit codes …",
        "completion": "completion for bash, zsh or fish",
    },
}
"""Group → command → its line in the help."""
IS_COMPLETE = find_spec("emulator.cli.commands") is not None
"""False in charkha-agent (packaging/agent), which has `agent` alone."""
_DESCRIPTORS = 8
"""Files, their folders and the kernel's: whoever has fewer learns it before anything is made that would be left."""
_LISTED = "\n".join(
    "\n".join([title, *(f"  {name:<12}{summary}" for name, summary in group.items())])
    for title, group in COMMANDS.items()
)
_DESCRIPTION = f"""\
Play MLCommons Chakra execution traces as network traffic and measure every collective.

{_LISTED}
"""
_EPILOG = """\
example: charkha run lab/examples/transformer-8r    (`charkha run --help` shows its options)
exit codes: 0 done, 1 failed, 2 bad input, 3 the host lacks something, 4 regression, 5 FAIL,
6 TESTER-LIMITED, 7 UNDECIDED (docs/expect.md), 130 interrupted
"""
_AGENT_ALONE = f"""\
Play the ranks of this machine for a Charkha controller elsewhere. This is charkha-agent; charkha has all commands.

  agent       {COMMANDS["agents"]["agent"]}
"""
_AGENT_EPILOG = "example: charkha agent --controller 192.0.2.1:4790 --identity server1.pem\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Results go to stdout, everything else to stderr."""
    # BLAS would start one spinning thread per core for numpy and for scipy, here and in every agent; nothing uses them.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # else it prints every handshake that fails
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a locale may lack a dash, a path may not be text
    try:
        code = _run(argv)
        if sys.stdout is not None:  # None: closed before the start
            sys.stdout.flush()
    except EmulatorError as error:
        print("charkha:", visible(str(error)), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)  # it came before the await
        print("charkha: interrupted", file=sys.stderr)
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # the reader has had enough: not a failure
        return exit_codes.STDOUT_CLOSED
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EACCES) and error.filename is not None:
            print(f"charkha: {visible(os.fsdecode(error.filename))}: {error.strerror}", file=sys.stderr)
            return exit_codes.BAD_INPUT
        if error.errno not in FULL or error.filename is not None:
            return _internal_error(error)
        _drop_output()
        print(f"charkha: the result cannot be written to stdout ({error.strerror})", file=sys.stderr)
        return exit_codes.HOST_LACKS
    except Exception as error:  # the root: a user sees one line, not a traceback
        return _internal_error(error)
    return code


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    reserve(descriptors=_DESCRIPTORS, memory_bytes=LIBRARIES_BYTES)
    args = _parser(words).parse_args(words)
    log_to_stderr(args.log_level)
    handler: Callable[[argparse.Namespace], int | None] = args.handler
    return handler(args) or exit_codes.DONE


def _parser(words: Sequence[str]) -> Parser:
    """The parser for a command line. It loads the module of one command only: all of them take a second."""
    commands = (word for word in words if not word.startswith("-") and is_known(PluginKind.COMMANDS, word))
    named = [word for word in [next(commands, None)] if word is not None]
    if not IS_COMPLETE and named not in ([], ["agent"]):
        raise HostError(
            f"{named[0]} is not part of charkha-agent: pip uninstall charkha-agent, and install charkha in its place"
        )
    return build_parser(named)


def build_parser(loaded: Collection[str]) -> Parser:
    """The parser of all commands; those that are not loaded have no arguments."""
    description, epilog = (_DESCRIPTION, _EPILOG) if IS_COMPLETE else (_AGENT_ALONE, _AGENT_EPILOG)
    parser = Parser(prog="charkha", usage="charkha COMMAND [options]", description=description, epilog=epilog)
    parser.add_argument("--version", advanced=True, action="version", version=f"charkha {VERSION}")
    parser.add_argument(
        "--log-level",
        advanced=True,
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="what goes to stderr; info: agents and iterations, debug: libraries too (default: warning)",
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, prog="charkha", help=argparse.SUPPRESS)
    for name in dict.fromkeys([*BUILT_IN[PluginKind.COMMANDS], *loaded]) if IS_COMPLETE else ("agent",):
        if name in loaded:
            load(PluginKind.COMMANDS, name)(subparsers)
        else:
            subparsers.add_parser(name)
    return parser


def _drop_output() -> None:
    """Discard what is left, so that the interpreter does not complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal_error(error: Exception) -> int:
    lack = exhausted(error)
    if lack is not None:
        print(f"charkha: {lack}", file=sys.stderr)
        return lack.exit_code
    what = visible(f"{type(error).__name__}: {error}")
    try:
        report = f"please report it with {write_traceback(error)}"
    except OSError:  # no space for it
        report = "please report it"
    print(f"charkha: internal error: {what} (a bug; {report})", file=sys.stderr)
    return exit_codes.FAILED
