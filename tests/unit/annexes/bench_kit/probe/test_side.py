"""The interfaces of a topology that probes use."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.annexes.bench_kit.probe.side import find_sides
from emulator.device.lab.design import make_design
from emulator.device.lab.playing import LabPlace
from emulator.device.lab.state import UP, LabState, Owner
from emulator.errors import InputError, PlanError
from emulator.topology.load import load_topology
from emulator.topology.model import Topology

ROUTED = """
hosts:
- {name: h0, per_rank: 198.18.1.0/24}
- {name: h1, address: 198.18.2.9}
switches: [{name: sw, kind: router}]
links:
- {endpoints: ["h0:eth0", "sw:p0"]}
- {endpoints: ["h1:eth0", "sw:p1"]}
"""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    """Two hosts with a router between them."""
    path = tmp_path / "t.yaml"
    path.write_text(ROUTED)
    return load_topology(path, ranks=0)


def in_a_lab(topology: Topology) -> LabPlace:
    """The topology as a lab that is up."""
    owner = Owner(pid=1, began=0)
    return LabPlace(LabState(make_design(topology, "l"), "t.yaml", "00", "t", "2026-01-02", owner, phase=UP))


def test_outside_labs_the_interfaces_are_those_of_this_machine(topology: Topology) -> None:
    near, far = find_sides(topology, None, "h0", "h1:eth0")
    assert (near.device, near.namespace) == ("eth0", None)
    assert (near.address, far.address) == ("198.18.1.1", "198.18.2.9")
    assert near.next_mac(far.address) is None


def test_in_a_lab_the_first_hop_is_that_of_its_routes(topology: Topology) -> None:
    place = in_a_lab(topology)
    near, far = find_sides(topology, place, "h0", "h1")
    design = place.state.design
    assert near.namespace == design.node("h0").namespace
    assert near.device == design.node("h0").ports[0].device
    (router_port,) = (port for port in design.node("sw").ports if port.name == "p0")
    assert near.next_mac(far.address) == router_port.mac
    assert near.next_mac("203.0.113.1") is None


@pytest.mark.parametrize(
    ("source", "destination", "problem"),
    [
        ("h7", "h1", "there is no host 'h7'; hosts: h0, h1"),
        ("h0", "h1:p0", "host h1 has no interface 'p0'; it has eth0"),
        ("sw", "h1", "there is no host 'sw'"),
    ],
)
def test_unknown_hosts_and_interfaces_are_refused_with_a_list(
    topology: Topology, source: str, destination: str, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        find_sides(topology, None, source, destination)


def test_sender_and_receiver_must_be_different_interfaces(topology: Topology) -> None:
    with pytest.raises(PlanError, match="--from and --to are both h0:eth0"):
        find_sides(topology, None, "h0", "h0:eth0")
