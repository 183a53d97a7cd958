"""States of labs on disk, and the lab of a topology."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.errors import HostError, InputError, PlanError
from emulator.lab.egress import AddressPair, address_pairs, require_egress
from emulator.lab.labs import Labs, lab_id_of
from emulator.lab.playing import LabPlace, find_place, require_addresses
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


def test_a_lab_must_be_of_the_very_file(tmp_path: Path, topology: Topology) -> None:
    labs = Labs(LabStore(tmp_path / "labs"))
    assert find_place(topology, None, labs=labs) is None
    stored(labs.store, topology, "x", digest="another")
    assert find_place(topology, None, labs=labs) is None
    with pytest.raises(PlanError, match="charkha lab down x"):
        find_place(topology, "x", labs=labs)
    with pytest.raises(HostError, match=r"lab x comes from another version of the file: `charkha lab up .*leaf-spine"):
        require_addresses(topology, [0], labs=labs)


def test_ways_lead_from_every_own_port_to_every_port_elsewhere(topology: Topology) -> None:
    found = list(address_pairs(topology, [0]))
    assert len(found) == 7
    assert found[0] == AddressPair("h0", "eth0", "198.18.1.1", "198.18.2.1")


def test_a_run_may_leave_through_the_named_interface_only() -> None:
    way = AddressPair("h0", "lo", "127.0.0.1", "127.0.0.2")
    require_egress([way], devices={})
    require_egress([AddressPair("h0", "eth0", "127.0.0.1", "127.0.0.2")], devices={("h0", "eth0"): "lo"})
    with pytest.raises(PlanError, match=r"h0:eth0 from 127\.0\.0\.1 to 127\.0\.0\.2 would leave through lo, not"):
        require_egress([AddressPair("h0", "eth0", "127.0.0.1", "127.0.0.2")], devices={})


def test_agents_of_a_lab_have_a_core_each_as_far_as_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5, 3, 9})
    eight_hosts = load_topology(TOPOLOGIES / "eight-hosts-switch.yaml", ranks=0)
    place = LabPlace(stored(LabStore(tmp_path / "labs"), eight_hosts, "x"))
    assert list(place.exec_prefixes) == [f"h{number}" for number in range(8)]
    assert [prefix[-3:] for prefix in place.exec_prefixes.values()] == [
        ("taskset", "-c", core) for core in ("3", "5", "9", "3", "5", "9", "3", "5")
    ]
    assert place.exec_prefixes["h1"][:4] == ("ip", "netns", "exec", "charkha-x-h1")
