"""Commands inside a lab."""

from __future__ import annotations

import os

import pytest

from emulator.device.lab.design import make_design
from emulator.device.lab.execute import execute
from emulator.device.lab.model import Design
from emulator.errors import HostError, InputError
from emulator.topology.load import load_topology
from tests.support.command import ROOT


class Replaced(Exception):
    """The process became another program."""


@pytest.fixture
def design() -> Design:
    """Two hosts and a switch."""
    return make_design(load_topology(ROOT / "topologies" / "two-hosts-switch.yaml", ranks=0), "l")


@pytest.mark.parametrize("name", ["h0", "sw0"])
def test_hosts_and_switches_are_entered(name: str, design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(program: str, words: list[str]) -> None:
        raise Replaced(program, *words)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "execvp", replace)
    with pytest.raises(Replaced) as replaced:
        execute(design, name, ["ip", "-s", "link"])
    namespace = design.node(name).namespace
    assert replaced.value.args == ("ip", "ip", "netns", "exec", namespace, "ip", "-s", "link")


def test_other_names_are_refused(design: Design) -> None:
    with pytest.raises(InputError, match="lab l has no host or switch 'h2'; it has h0, h1, sw0"):
        execute(design, "h2", ["true"])


def test_other_users_are_refused(design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HostError, match="sudo"):
        execute(design, "h0", ["true"])
