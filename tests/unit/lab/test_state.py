"""States of labs on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.errors import InputError, PlanError
from emulator.lab.labs import lab_id_of
from emulator.lab.state import LabState, LabStore, Owner
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from tests.support.labs import designed

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@pytest.fixture
def topology() -> Topology:
    return load_topology(TOPOLOGIES / "leaf-spine-2x2.yaml", ranks=8)


def stored(store: LabStore, topology: Topology, lab_id: str, **changes: object) -> LabState:
    state = replace(designed(topology, lab_id), **changes)  # type: ignore[arg-type]
    store.claim(lab_id)
    store.write(state)
    return state


def test_a_state_comes_back_as_it_was(tmp_path: Path, topology: Topology) -> None:
    store = LabStore(tmp_path / "labs")
    state = stored(store, topology, "x", limited="too fast", versions={"kernel": "6"})
    read = store.read("x")
    assert read is not None
    assert repr(read).replace("(", "[").replace(")", "]") == repr(state).replace("(", "[").replace(")", "]")


def test_a_state_of_another_release_is_named(tmp_path: Path) -> None:
    store = LabStore(tmp_path / "labs")
    (store.claim("x") / "state.json").write_text('{"format": 99}')
    with pytest.raises(InputError, match=r"state\.json: not the state of a lab \(format 99"):
        store.read("x")


def test_a_folder_without_a_state_is_a_lab_of_which_nothing_was_made(tmp_path: Path) -> None:
    store = LabStore(tmp_path / "labs")
    store.claim("x")
    assert store.read("x") is None
    assert store.ids() == ["x"]
    store.forget("x")
    assert not (tmp_path / "labs").exists()


def test_an_owner_is_its_process_and_no_later_one_of_that_number() -> None:
    me = Owner.me()
    assert me.is_alive
    assert not Owner(me.pid, me.began - 1).is_alive


@pytest.mark.parametrize("asked", ["", "-x", "a/b", "a b", "x" * 33])
def test_an_id_that_cannot_name_a_namespace_is_refused(topology: Topology, asked: str) -> None:
    with pytest.raises(PlanError, match="--id"):
        lab_id_of(topology, asked)
    assert lab_id_of(topology, None) == "leaf-spine-2x2"
