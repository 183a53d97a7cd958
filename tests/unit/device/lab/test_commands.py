"""Commands inside a lab, and the end of what runs there."""

import os
import signal
from collections.abc import Sequence
from itertools import count
from typing import NoReturn

import pytest

from emulator.device.lab import commands
from emulator.device.lab.commands import execute, require_root
from emulator.device.lab.design import make_design
from emulator.device.lab.model import Design
from emulator.errors import HostError, InputError
from emulator.topology.load import load_topology
from tests.support.command import ROOT
from tests.support.labs import pretended


def test_users_without_root_get_one_line() -> None:
    with pretended(user=1000), pytest.raises(HostError, match="root: run the command with sudo"):
        require_root()


class Replaced(Exception):
    """The process became another program."""


@pytest.fixture
def design() -> Design:
    """Two hosts and a switch."""
    return make_design(load_topology(ROOT / "topologies" / "two-hosts-switch.yaml", ranks=0), "l")


@pytest.mark.parametrize("name", ["h0", "sw0"])
def test_hosts_and_switches_are_entered(name: str, design: Design) -> None:
    def replace(program: str, words: Sequence[str]) -> NoReturn:
        raise Replaced(program, *words)

    with pretended(become=replace), pytest.raises(Replaced) as replaced:
        execute(design, name, ["ip", "-s", "link"])
    namespace = design.node(name).namespace
    assert replaced.value.args == ("ip", "ip", "netns", "exec", namespace, "ip", "-s", "link")


def test_other_names_are_refused(design: Design) -> None:
    with pytest.raises(InputError, match="lab l has no host or switch 'h2'; it has h0, h1, sw0"):
        execute(design, "h2", ["true"])


def test_other_users_are_refused(design: Design) -> None:
    with pretended(user=1000), pytest.raises(HostError, match="sudo"):
        execute(design, "h0", ["true"])


def test_processes_are_asked_to_end_before_they_are_killed() -> None:
    """Time passes half a second at a time."""
    me, times, sent = os.getpid(), count(), list[tuple[int, int]]()
    stubborn = [[7, 8, me], [8], [8], [8], []]
    commands.end_processes(
        lambda: stubborn.pop(0),
        kill=lambda pid, number: sent.append((pid, number)),
        clock=lambda: next(times) / 2,
        pause_s=0,
    )
    assert [pid for pid, _ in sent] == [7, 8, 8, 8, 8]
    assert [number for _, number in sent] == [signal.SIGTERM] * 3 + [signal.SIGKILL] * 2


def test_a_process_that_ended_meanwhile_is_no_error() -> None:
    listed = [[7], []]

    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    commands.end_processes(lambda: listed.pop(0), kill=gone, pause_s=0)
    assert listed == []


def test_processes_of_all_namespaces_are_listed() -> None:
    inside = {"a": "1\n2\n", "b": "", "c": "3"}
    with pretended(lambda batch: inside[batch.command[-1]]):
        assert commands.processes_in("abc") == [1, 2, 3]
