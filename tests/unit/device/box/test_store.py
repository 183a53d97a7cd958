"""Boxes are found again by their id, or because there is only one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.device.box.model import Box, BoxPort
from emulator.device.box.store import BoxStore
from emulator.device.counters.profile_counters import ProfileCounter
from emulator.errors import InputError, PlanError

PORTS = (BoxPort("eth1", "02:00:00:00:00:01", 1500), BoxPort("eth2", "02:00:00:00:00:02", 1500, merged=False))
COUNTER = ProfileCounter("box", "one", "profile_drops", "bridge", "rule_0")
BOX = Box("a", list(PORTS), 7, "2026-01-02T03:04:05+00:00", 10**9, "p", [("one", "drop once")], [COUNTER])


def test_a_box_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = BoxStore(tmp_path / "boxes")
    store.claim(BOX)
    assert store.get(None) == store.get("a") == BOX
    store.forget("a")
    assert not (tmp_path / "boxes").exists()


def test_one_of_several_is_named(tmp_path: Path) -> None:
    store = BoxStore(tmp_path / "boxes")
    with pytest.raises(InputError, match="no box is up; `charkha box up PORT PORT` brings one up"):
        store.get(None)
    store.claim(BOX)
    store.claim(replace(BOX, box_id="b"))
    assert store.get("b").box_id == "b"
    with pytest.raises(InputError, match="there are several boxes; choose one: a, b"):
        store.get(None)
    with pytest.raises(InputError, match=r"there is no box 'c' \(boxes: a, b\)"):
        store.get("c")


def test_an_id_is_taken_once(tmp_path: Path) -> None:
    store = BoxStore(tmp_path)
    store.claim(BOX)
    with pytest.raises(PlanError, match="there is a box a already: `charkha box down a`"):
        store.claim(BOX)


def test_a_state_that_is_damaged_is_named(tmp_path: Path) -> None:
    store = BoxStore(tmp_path)
    store.claim(BOX)
    (tmp_path / "a" / "box.json").write_text("{")
    with pytest.raises(InputError, match=r"box\.json: not the state of a box"):
        store.get("a")
