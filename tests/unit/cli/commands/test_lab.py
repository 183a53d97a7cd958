"""`charkha lab`: what it prints and refuses, without making a namespace."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from emulator.cli.main import main
from emulator.device.lab.design import make_design
from emulator.device.lab.labs import Labs
from emulator.device.lab.state import UP, LabState, LabStore, Owner, Party
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from tests.support.command import ROOT, refused
from tests.support.labs import pretended

SWITCH = ROOT / "topologies" / "two-hosts-switch.yaml"


class NamelessLabs(Labs):
    """Labs that make no namespace: only the store knows of them."""

    def up(
        self, topology: Topology, *, lab_id: str, limited: str | None = None, party: Party | None = None
    ) -> LabState:
        record(self.store, lab_id)
        return self.get(lab_id)

    def down(self, lab_id: str) -> bool:
        was_there = lab_id in self.store.ids()
        self.store.forget(lab_id)
        return was_there


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabStore:
    """An empty store, which the commands use instead of that of this host."""
    store = LabStore(tmp_path / "labs")
    monkeypatch.setattr("emulator.cli.commands.lab.Labs", lambda: NamelessLabs(store))
    return store


def record(store: LabStore, lab_id: str) -> None:
    """A lab that is up, as far as the store knows."""
    design = make_design(load_topology(SWITCH, ranks=0), lab_id)
    owner = Owner(pid=1, began=0)
    store.claim(lab_id)
    created, me = "2026-01-02T03:04:05+00:00", Party.me()
    store.write(LabState(design, str(SWITCH), "00", "two-hosts-switch", created, owner, belongs_to=me, phase=UP))


def test_without_labs_status_names_the_command_that_brings_one_up(
    store: LabStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "status"]) == 0
    assert "charkha lab up" in capsys.readouterr().out
    assert main(["lab", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_of_several_labs_one_must_be_named(store: LabStore) -> None:
    assert "no lab is up" in refused("lab", "exec", "h0", "true")
    record(store, "a")
    record(store, "b")
    assert "choose one or give --all: a, b" in refused("lab", "down")
    assert "choose one with --lab: a, b" in refused("lab", "exec", "h0", "true")
    assert store.ids() == ["a", "b"]


@pytest.mark.parametrize(
    ("up", "words", "removed"),
    [
        ("a", [], "Removed: a"),
        ("ab", ["a"], "Removed: a"),
        ("ab", ["--all"], "Removed: a, b"),
        ("a", [str(SWITCH)], "Removed: a"),
        ("a", [os.path.relpath(SWITCH)], "Removed: a"),
        ("ab", [str(SWITCH), "--all"], "Removed: a, b"),
        ("", ["--all"], "There is no such lab: nothing to remove"),
        ("", ["--if-exists"], "There is no such lab: nothing to remove"),
        ("a", ["b", "--if-exists"], "There is no such lab: nothing to remove"),
    ],
)
def test_down_removes_what_was_named_or_the_only_lab(
    up: str, words: list[str], removed: str, store: LabStore, capsys: pytest.CaptureFixture[str]
) -> None:
    for lab_id in up:
        record(store, lab_id)
    assert main(["lab", "down", *words]) == 0
    assert capsys.readouterr().out == f"{removed}\n"
    assert store.ids() == [lab_id for lab_id in up if lab_id not in removed.removeprefix("Removed: ").split(", ")]


@pytest.mark.parametrize(
    ("up", "words", "problem"),
    [
        ("", [], "no lab is up (labs: none); with --if-exists"),
        ("a", ["b"], "there is no lab 'b' (labs: a); with --if-exists"),
        ("a", ["other.yaml"], "there is no lab 'other.yaml' (labs: a)"),
        ("a", ["../labs"], "there is no lab '../labs' (labs: a)"),
        ("ab", [str(SWITCH)], "there are several labs; choose one or give --all: a, b"),
    ],
)
def test_down_refuses_a_lab_that_does_not_exist(up: str, words: list[str], problem: str, store: LabStore) -> None:
    for lab_id in up:
        record(store, lab_id)
    assert problem in refused("lab", "down", *words)
    assert store.ids() == list(up)


def test_up_prints_the_size_of_the_lab_and_notes_its_limit(
    store: LabStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("emulator.cli.commands.lab.judge", lambda network: None)
    assert main(["lab", "up", str(SWITCH), "--id", "a"]) == 0
    assert capsys.readouterr() == ("Lab a is up. Hosts: 2, switches: 1, links: 2\n", "")
    monkeypatch.setattr("emulator.cli.commands.lab.judge", lambda network: "too fast")
    assert main(["lab", "up", str(SWITCH), "--id", "b", "--force"]) == 0
    assert capsys.readouterr().err == "charkha: too fast\n"
    assert store.ids() == ["a", "b"]


def test_only_hosts_and_switches_of_the_lab_are_entered(store: LabStore) -> None:
    record(store, "a")
    assert "lab a has no host or switch 'h9'; it has h0, h1, sw0" in refused("lab", "exec", "h9", "true")


def test_options_of_the_command_inside_stay_its_own(store: LabStore) -> None:
    record(store, "a")
    started: list[Sequence[str]] = []

    def become(program: str, words: Sequence[str]) -> NoReturn:
        started.append(words)
        raise SystemExit(0)

    with pretended(become=become), pytest.raises(SystemExit):
        main(["lab", "exec", "--lab", "a", "h0", "ip", "--json", "address"])
    (words,) = started
    assert words[:3] == ["ip", "netns", "exec"]
    assert words[-3:] == ["ip", "--json", "address"]


def test_entering_needs_root(store: LabStore, capsys: pytest.CaptureFixture[str]) -> None:
    record(store, "a")
    with pretended(user=1000):
        assert main(["lab", "exec", "h0", "true"]) == 3
    assert "sudo" in capsys.readouterr().err


def test_rates_above_what_the_host_carries_need_force(
    store: LabStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("emulator.cli.commands.lab.judge", lambda network: "2 cores carry 3 Gbit/s, not 9")
    assert main(["lab", "up", str(SWITCH)]) == 3
    assert "2 cores carry 3 Gbit/s, not 9; --force" in capsys.readouterr().err
    assert store.ids() == []
