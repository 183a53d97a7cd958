"""`charkha box`: the old words find labs between two real ports, and those that older versions brought up."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.device.lab.labs import Labs
from emulator.device.lab.state import LabStore
from tests.support.labs import pretended

OLD = {
    "box_id": "a",
    "ports": [
        {"name": "eth1", "mac": "02:00:00:00:00:01", "mtu": 1500, "is_up": True, "merged": True},
        {"name": "eth2", "mac": "02:00:00:00:00:02", "mtu": 1500, "is_up": False, "merged": False},
    ],
    "network": 1,
    "created": "2026-01-02T03:04:05+00:00",
    "rate_bps": 10**9,
    "profile": "p",
    "rules": [["one", "drop once"]],
    "counters": [
        {"node": "box", "rule": "one", "counter": "profile_drops", "family": "bridge", "name": "r0", "interface": ""}
    ],
    "before": {"eth1": {"rx_packets": 3}},
    "earlier": {},
}
"""What version 0.1.0 wrote for a box."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabStore:
    """An empty store, which the commands use instead of that of this host."""
    store = LabStore(tmp_path / "labs")
    monkeypatch.setattr("emulator.cli.commands.lab.Labs", lambda: Labs(store))
    return store


def old_box(store: LabStore, folder: Path, box_id: str) -> None:
    (folder / "boxes" / box_id).mkdir(parents=True)
    (folder / "boxes" / box_id / "box.json").write_text(json.dumps(OLD | {"box_id": box_id}))


def refused(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a command that ends with exit code 2; an old word names the new one in a line before it."""
    assert main(words) == 2
    *before, error = capsys.readouterr().err.splitlines()
    new = "charkha: `charkha box` is now `charkha lab up --between`; the old word works until 1.0"
    assert before == ([new] if words[0] == "box" else [])
    return error


@pytest.mark.parametrize("words", [("status",), ("down",), ("apply", "fw-a")])
def test_without_a_box_it_says_how_to_bring_one_up(
    store: LabStore, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    expected = "no box is up; `charkha lab up --between PORT PORT` brings one up"
    assert expected in refused("box", *words, capsys=capsys)


@pytest.mark.parametrize("word", ["box", "lab"])
def test_a_box_of_another_network_namespace_is_left_alone(
    word: str, store: LabStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old_box(store, tmp_path, "a")
    with pretended():
        assert "lab a was brought up in another network namespace" in refused(word, "down", "a", capsys=capsys)
    assert store.ids() == ["a"]


def test_a_box_of_an_older_version_is_a_lab_between_its_ports(store: LabStore, tmp_path: Path) -> None:
    old_box(store, tmp_path, "a")
    state = Labs(store).get("a")
    assert (state.between.names, state.between.rate_bps, state.between.profile) == (("eth1", "eth2"), 10**9, "p")
    assert [port.is_up for port in state.between.ports] == [True, False]
    store.write(state)
    again = store.read("a")
    assert again.between == state.between
    store.forget("a")
    assert not (tmp_path / "boxes").exists()


def test_one_of_several_boxes_is_named(store: LabStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for box_id in ("a", "b"):
        old_box(store, tmp_path, box_id)
    assert "there are several boxes; choose one: a, b" in refused("box", "down", capsys=capsys)
    assert "there is no box 'c' (boxes: a, b)" in refused("box", "down", "c", capsys=capsys)


def test_a_state_that_is_damaged_is_named(store: LabStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_box(store, tmp_path, "a")
    (tmp_path / "boxes" / "a" / "box.json").write_text("{")
    assert "box.json: not the state of a box" in refused("lab", "status", "a", capsys=capsys)
