"""A run inside a lab."""

import os
from pathlib import Path

import pytest

from emulator.device.lab.labs import Labs
from emulator.device.lab.playing import LabPlace, find_place, require_addresses
from emulator.device.lab.state import LabStore, Party
from emulator.errors import HostError, PlanError
from emulator.topology.model import Topology
from tests.support.labs import pretended, stored
from tests.support.topologies import shipped_topology


def test_a_lab_must_be_of_the_very_file(tmp_path: Path, topology: Topology) -> None:
    labs = Labs(LabStore(tmp_path / "labs"))
    assert find_place(topology, None, labs=labs) is None
    stored(labs.store, topology, "x", digest="another")
    assert find_place(topology, None, labs=labs) is None
    with pytest.raises(PlanError, match="charkha lab down x"):
        find_place(topology, "x", labs=labs)
    with pytest.raises(
        HostError, match=r"lab x comes from a different version of the file: `charkha lab up .*leaf-spine"
    ):
        require_addresses(topology, [0], labs=labs)


ANN, BOB, SERVICE = Party(1000), Party(1001), Party(0, "/srv/lab")


@pytest.mark.parametrize(
    ("me", "owner", "named", "remedy"),
    [
        (ANN, BOB, False, "bring up your own"),
        (ANN, BOB, True, "bring up your own"),
        (ANN, Party(0), True, "bring up your own"),
        (Party(0), ANN, False, "or, as root, name it with --lab x"),
        (Party(0), SERVICE, False, "or submit the run to the service"),
        (SERVICE, Party(0), True, "--id ID --service /srv/lab"),
        (SERVICE, Party(0, "/srv/other"), True, "--id ID --service /srv/lab"),
    ],
)
def test_nobody_plays_in_the_lab_of_somebody_else(
    tmp_path: Path, topology: Topology, *, me: Party, owner: Party, named: bool, remedy: str
) -> None:
    labs = Labs(LabStore(tmp_path / "labs"))
    stored(labs.store, topology, "x", belongs_to=owner)
    with pytest.raises(PlanError, match="lab x belongs to ") as refused:
        find_place(topology, "x" if named else None, labs=labs, me=me)
    assert str(owner) in str(refused.value)
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    ("me", "owner", "named"),
    [(ANN, ANN, False), (ANN, ANN, True), (Party(0), ANN, True), (SERVICE, Party(1000, "/srv/lab"), False)],
)
def test_an_own_lab_and_root_who_names_one_are_let_in(
    tmp_path: Path, topology: Topology, *, me: Party, owner: Party, named: bool
) -> None:
    labs = Labs(LabStore(tmp_path / "labs"))
    stored(labs.store, topology, "x", belongs_to=owner)
    with (
        pretended(),
        pytest.raises(HostError, match="namespace charkha-x-h0 of lab x is gone"),
    ):  # it looked for the lab
        find_place(topology, "x" if named else None, labs=labs, me=me)


def test_of_two_labs_of_a_file_the_own_one_is_meant(tmp_path: Path, topology: Topology) -> None:
    labs = Labs(LabStore(tmp_path / "labs"))
    stored(labs.store, topology, "of-bob", belongs_to=BOB)
    stored(labs.store, topology, "of-ann", belongs_to=ANN)
    with pretended(), pytest.raises(HostError, match="lab of-ann is gone"):
        find_place(topology, None, labs=labs, me=ANN)


def test_agents_of_a_lab_have_a_core_each_as_far_as_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5, 3, 9})
    eight_hosts = shipped_topology("eight-hosts-switch")
    place = LabPlace(stored(LabStore(tmp_path / "labs"), eight_hosts, "x"))
    assert list(place.exec_prefixes) == [f"h{number}" for number in range(8)]
    assert [prefix[-3:] for prefix in place.exec_prefixes.values()] == [
        ("taskset", "-c", core) for core in ("3", "5", "9", "3", "5", "9", "3", "5")
    ]
    assert place.exec_prefixes["h1"][:4] == ("ip", "netns", "exec", "charkha-x-h1")
