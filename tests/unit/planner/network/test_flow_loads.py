"""Loads of links by flows beside a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.planner.network.flow_loads import FlowLoad, flow_link_loads
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.topology.network import End
from emulator.topology.paths import Paths

LEAF_SPINE = Path(__file__).parents[4] / "topologies" / "leaf-spine-2x2.yaml"


@pytest.fixture
def topology() -> Topology:
    return load_topology(LEAF_SPINE, ranks=2)


def flow(number: int, sender: str, receiver: str, payload_bytes: int | None) -> FlowLoad:
    ends = {"sender": End(sender, "eth0"), "receiver": End(receiver, "eth0")}
    return FlowLoad(number=number, kind="k", about="", payload_bytes=payload_bytes, **ends)


def test_equal_cost_paths_carry_equal_parts_and_ports_everything(topology: Topology) -> None:
    flows = [flow(0, "h0", "h4", 1000), flow(1, "h1", "h4", 500), flow(2, "h5", "h4", None), flow(3, "h0", "h4", None)]
    name = Paths(topology.network).link_name
    found = {name(one.link): (one.payload_bytes, one.unlimited) for one in flow_link_loads(flows, topology)}
    assert found == {
        "leaf1:p0 > h4:eth0": (1500, 2),
        "h0:eth0 > leaf0:p0": (1000, 1),
        "h1:eth0 > leaf0:p1": (500, 0),
        "h5:eth0 > leaf1:p1": (0, 1),
        "leaf0:u0 > spine0:d0": (750, 1),
        "leaf0:u1 > spine1:d0": (750, 1),
        "spine0:d1 > leaf1:u0": (750, 1),
        "spine1:d1 > leaf1:u1": (750, 1),
    }
    assert next(iter(found)) == "leaf1:p0 > h4:eth0"  # most unlimited flows


def test_no_flows_load_nothing(topology: Topology) -> None:
    assert flow_link_loads([], topology) == []
