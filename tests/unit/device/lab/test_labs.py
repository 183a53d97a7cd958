"""Which lab is meant, and which is in the way; nothing is made."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.device.lab.labs import Labs, judge, offered_load
from emulator.device.lab.state import RAISING, REMOVING, UP, LabState, LabStore, Owner, Party
from emulator.errors import HostError, InputError, PlanError
from emulator.host.tools import CommandBatch
from emulator.planner.network.header_overhead import roce_overhead
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from tests.support.labs import TWO_HOSTS, designed, pretended
from tests.support.topologies import shipped_topology


def test_what_hosts_offer_is_counted_in_packets() -> None:
    load = offered_load(shipped_topology("eight-hosts-switch").network)
    packet = roce_overhead(1500, message_bytes=1024).wire_bytes
    assert load.packets_per_s == pytest.approx(8 * 10**8 / 8 / packet)


def test_a_host_carries_what_its_cores_can() -> None:
    assert judge(shipped_topology("eight-hosts-switch").network, cores=2) is None
    assert judge(shipped_topology("two-hosts-switch").network, cores=2) is None
    refused = judge(shipped_topology("two-hosts-switch").network, cores=1)
    assert refused is not None
    assert "1 cores can handle about" in refused


NOBODY = Owner(pid=1 << 22, began=1)


@pytest.fixture
def topology() -> Topology:
    return load_topology(TWO_HOSTS, ranks=0)


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Labs]:
    """Labs of a user who seems to be root, on a host without namespaces; nothing can be made."""

    def printed(batch: CommandBatch) -> str:
        assert batch.command[0] != "setpriv", f"{batch.command} was run"
        return ""

    with pretended(printed, namespaces=tmp_path / "netns"):
        yield Labs(LabStore(tmp_path / "labs"))


def add(known: Labs, topology: Topology, lab_id: str, phase: str = UP, owner: Owner = NOBODY) -> LabState:
    state = replace(designed(topology, lab_id), phase=phase, owner=owner)
    known.store.claim(lab_id)
    known.store.write(state)
    return state


def test_the_only_lab_need_not_be_named(known: Labs, topology: Topology) -> None:
    with pytest.raises(InputError, match="no lab is up; `charkha lab up FILE` brings one up"):
        known.only(None)
    add(known, topology, "one")
    assert known.only(None).lab_id == known.only("one").lab_id == known.get("one").lab_id == "one"
    add(known, topology, "two")
    with pytest.raises(InputError, match="several labs; choose one with --lab: one, two"):
        known.only(None)


def test_a_lab_that_does_not_exist_is_named_with_those_that_do(known: Labs, topology: Topology) -> None:
    with pytest.raises(InputError, match=r"there is no lab 'x' \(labs: none\)"):
        known.get("x")
    add(known, topology, "one")
    with pytest.raises(InputError, match=r"there is no lab 'x' \(labs: one\)"):
        known.get("x")


@pytest.mark.parametrize("phase", [RAISING, REMOVING])
def test_an_incomplete_lab_cannot_be_used(phase: str, known: Labs, topology: Topology) -> None:
    add(known, topology, "half", phase)
    with pytest.raises(InputError, match=rf"lab half is incomplete \({phase}\): `charkha lab down half`"):
        known.get("half")


def test_labs_are_meant_by_id_or_by_the_file_they_come_from(known: Labs, topology: Topology) -> None:
    assert known.meant(None) == []
    source = Path(add(known, topology, "one").topology)
    add(known, topology, "half", RAISING)
    assert known.meant(None) == known.meant(str(source)) == ["half", "one"]
    assert known.meant("half") == ["half"]
    assert known.meant(str(source.with_name("other.yaml"))) == known.meant("other") == known.meant("") == []


def test_labs_of_a_file_are_those_that_are_up_and_have_its_content(known: Labs, topology: Topology) -> None:
    add(known, topology, "one")
    add(known, topology, "half", RAISING)
    assert [state.lab_id for state in known.of_digest(topology.digest)] == ["one"]
    assert known.of_digest("another") == []


def test_a_second_lab_of_an_id_is_refused(known: Labs, topology: Topology) -> None:
    add(known, topology, "x")
    with pytest.raises(
        PlanError, match="lab x is already up: run `charkha lab down x`, or give a different name with --id"
    ):
        known.up(topology, lab_id="x")


def test_a_standing_lab_is_mended_only_for_its_owner_and_from_its_file(known: Labs, topology: Topology) -> None:
    state = add(known, topology, "x")
    assert known.standing(topology, "y", party=state.belongs_to) is None
    assert known.standing(replace(topology, digest="another"), "x", party=state.belongs_to) is None
    found = known.standing(topology, "x", party=state.belongs_to)
    assert found.up_command == f"charkha lab up {state.topology} --id x"
    with pytest.raises(PlanError, match=r"lab x is up and belongs to .*: give yours another name with --id"):
        known.standing(topology, "x", party=Party(4242424))


def test_the_only_lab_is_not_removed_without_its_name_if_it_is_of_somebody_else(
    known: Labs, topology: Topology
) -> None:
    state = add(known, topology, "x")
    assert known.to_remove(None, several=False, none=False) == ["x"]
    other = Party(4242424)
    for word in (None, state.topology):
        with pytest.raises(InputError, match=r"lab x belongs to .*: `charkha lab down x` removes it all the same"):
            known.to_remove(word, several=False, none=False, me=other)
    assert known.to_remove("x", several=False, none=False, me=other) == ["x"]


def test_a_lab_that_another_process_is_bringing_up_is_refused(known: Labs, topology: Topology) -> None:
    me = Owner.me()
    add(known, topology, "x", RAISING, me)
    with pytest.raises(PlanError, match=f"process {me.pid} is bringing up lab x: give a different name"):
        known.up(topology, lab_id="x")


def test_what_a_killed_command_left_is_removed_first(known: Labs, topology: Topology, tmp_path: Path) -> None:
    add(known, topology, "x", RAISING, NOBODY)
    with pretended(code=1, namespaces=tmp_path / "netns"), pytest.raises(HostError, match="cannot be created"):
        known.up(topology, lab_id="x")
    assert known.store.ids() == []  # neither the old one nor the new one is left


def test_a_lab_whose_routers_need_frr_is_refused_without_it_before_anything_is_made(known: Labs) -> None:
    with pretended(missing=["vtysh"]) as asked, pytest.raises(HostError, match=r"vtysh is missing .* install frr"):
        known.up(shipped_topology("leaf-spine-bgp"), lab_id="x")
    assert (asked, known.store.ids()) == ([], [])


def test_a_namespace_of_somebody_else_is_left_alone(known: Labs, topology: Topology, tmp_path: Path) -> None:
    name = designed(topology, "x").design.nodes[0].namespace
    (tmp_path / "netns").mkdir()
    (tmp_path / "netns" / name).touch()
    with pytest.raises(
        PlanError, match=f"namespace {name} exists but belongs to no lab: give the lab a different name"
    ):
        known.up(topology, lab_id="x")
    assert known.store.ids() == []
    assert (tmp_path / "netns" / name).exists()


def test_taking_down_deletes_the_namespaces_that_exist_and_forgets_the_lab(
    known: Labs, topology: Topology, tmp_path: Path
) -> None:
    state = add(known, topology, "x")
    folder = tmp_path / "netns"
    folder.mkdir()
    names = [node.namespace for node in state.design.nodes]
    for name in names[1:]:
        (folder / name).touch()

    def printed(batch: CommandBatch) -> str:
        for line in batch.lines:
            (folder / line.removeprefix("netns delete ")).unlink()
        return ""

    with pretended(printed, namespaces=folder) as done:
        assert known.down("x")
    assert [batch.lines for batch in done if batch.lines] == [[f"netns delete {name}" for name in names[1:]]]
    assert known.store.ids() == []
    assert not known.down("x")


def test_a_namespace_that_stays_is_named_and_the_lab_is_not_forgotten(
    known: Labs, topology: Topology, tmp_path: Path
) -> None:
    name = add(known, topology, "x").design.nodes[0].namespace
    (tmp_path / "netns").mkdir()
    (tmp_path / "netns" / name).touch()
    with pytest.raises(HostError, match=f"namespaces of lab x cannot be removed: try `ip netns delete {name}`"):
        known.down("x")
    assert known.store.ids() == ["x"]


def test_a_lab_needs_root(tmp_path: Path, topology: Topology) -> None:
    for action in (
        lambda: Labs(LabStore(tmp_path)).down("x"),
        lambda: Labs(LabStore(tmp_path)).up(topology, lab_id="x"),
    ):
        with pretended(user=1000), pytest.raises(HostError, match="run the command with sudo"):
            action()
