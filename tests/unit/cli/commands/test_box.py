"""`charkha box`: what it prints and refuses, without touching an interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.device.box.boxes import Boxes
from emulator.device.box.model import Box, BoxPort
from emulator.device.box.store import BoxStore
from tests.support.command import refused

PORTS = (BoxPort("eth1", "02:00:00:00:00:01", 1500), BoxPort("eth2", "02:00:00:00:00:02", 1500))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BoxStore:
    """An empty store, which the commands use instead of that of this host."""
    store = BoxStore(tmp_path / "boxes")
    monkeypatch.setattr("emulator.cli.commands.box.Boxes", lambda: Boxes(store))
    return store


@pytest.mark.parametrize("words", [("status",), ("down",), ("apply", "fw-a")])
def test_without_a_box_it_says_how_to_bring_one_up(
    store: BoxStore, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert "no box is up; `charkha box up PORT PORT` brings one up" in refused("box", *words, capsys=capsys)


def test_a_box_of_another_network_namespace_is_left_alone(
    store: BoxStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    store.claim(Box("a", PORTS, network=1, created=""))
    assert "box a was brought up in another network namespace" in refused("box", "down", "a", capsys=capsys)
    assert store.ids() == ["a"]
