"""Flows of a run spec on a topology: who plays them, where, and what their peers must run."""

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.control.flows import FlowDirection, FlowFigures, FlowGap, FlowObserver, FlowReport
from emulator.controller.assignment import assign_ranks
from emulator.errors import PlanError
from emulator.experiment.settle.flows import (
    FreeAddresses,
    PlannedFlow,
    assign_flows,
    flow_parameters,
    gap_rows,
    plan_flows,
    result_rows,
)
from emulator.experiment.spec.flow_spec import PerftestFlow
from emulator.flows.perftest_parameters import PeerTask
from emulator.roce.options import RoceOptions
from emulator.schema import decode
from emulator.topology.load import load_topology
from emulator.topology.model import Topology

HOSTS = """
hosts:
  - {name: h0, per_rank: 198.18.0.0/24, slots: 2}
  - {name: h1, addresses: [198.18.1.1, 198.18.1.2, 198.18.1.3], slots: 2}
  - {name: h2, interfaces: [{name: a, address: 198.18.2.1}, {name: b, addresses: [198.18.2.2]}], slots: 1}
  - {name: nic, address: 198.18.9.1, peer: {port: 20000, exchange: 10.0.0.9}}
  - {name: other, address: 198.18.9.2, peer: {}}
"""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    (tmp_path / "t.yaml").write_text(HOSTS)
    return load_topology(tmp_path / "t.yaml", ranks=5)


def plan(topology: Topology, *flows: dict[str, Any], mtu: int | None = None) -> list[PlannedFlow]:
    specs = [decode({"kind": "perftest", "peer": "nic", **flow}, PerftestFlow) for flow in flows]
    return plan_flows(specs, topology, FreeAddresses(topology, is_rocev2=True), mtu=mtu, options=RoceOptions())


def document(flow: PlannedFlow) -> PeerTask:
    return decode(json.loads(flow.task.document), PeerTask)


def test_a_flow_takes_an_address_that_no_rank_uses(topology: Topology) -> None:
    first, second, third = plan(topology, {"host": "h0"}, {"host": "h0"}, {"host": "h1"})
    assert [flow.task.host for flow in (first, second, third)] == ["198.18.0.254", "198.18.0.253", "198.18.1.3"]
    assert not {flow.task.host for flow in (first, second, third)}.intersection(topology.addresses)
    assert {flow.peer_address for flow in (first, second, third)} == {"198.18.9.1"}


def test_many_to_one_are_flows_at_consecutive_ports(topology: Topology) -> None:
    flows = plan(topology, {"host": ["h0", "h1"]}, {"host": "h0", "peer": "other"})
    assert [(document(flow).server, document(flow).port) for flow in flows] == [
        ("10.0.0.9", 20000),
        ("10.0.0.9", 20001),
        ("198.18.9.2", 18515),
    ]
    assert [flow.task.number for flow in flows] == [0, 1, 2]
    assert flows[1].instruction == (
        "nic must be running: ib_write_bw --size=65536 --mtu=4096 --port=20001 (this end is 198.18.1.3)"
    )
    assert [document(flow).exchange_address for flow in flows] == [None, None, "198.18.0.253"]


def test_a_server_waits_for_its_peer_alone(topology: Topology) -> None:
    (flow,) = plan(topology, {"host": "h0", "role": "server", "verb": "send", "iterations": 9, "rdma_cm": True})
    task = document(flow)
    assert (task.server, task.client, task.address, task.peer_address) == (
        None, "10.0.0.9", "198.18.0.254", "198.18.9.1",
    )  # fmt: skip
    assert task.rdma_cm
    assert flow.task.title == "flow 0 (perftest, h0 from nic)"
    assert flow.instruction == "nic must run: ib_send_bw --size=65536 --mtu=4096 --iters=9 --rdma_cm 198.18.0.254"


@pytest.mark.parametrize(
    ("given", "mtu", "path_mtu"), [({}, None, 4096), ({}, 1500, 1024), ({"path_mtu": 512}, 1500, 512)]
)
def test_the_path_mtu_fits_the_links(topology: Topology, given: dict[str, Any], mtu: int | None, path_mtu: int) -> None:
    (flow,) = plan(topology, {"host": "h0", **given}, mtu=mtu)
    assert document(flow).test.path_mtu == path_mtu


@pytest.mark.parametrize(
    ("flow", "problem"),
    [
        ({"host": "h9"}, r"flows\[0\]: there is no host 'h9' in .*; there are h0, h1, h2"),
        ({"host": "nic"}, "there is no host 'nic'"),
        ({"host": "h0:eth7"}, "host h0 has no interface 'eth7'; it has eth0"),
        ({"host": "h0", "peer": "h1"}, "there is no peer 'h1' in .*; peers: nic, other"),
        ({"host": "h1", "port": 65535}, ""),
        ({"host": ["h0", "h0"], "port": 65535}, "there is no port above 65535"),
        ({"host": ["h1", "h1"]}, "h1: eth0 has no address left for the flow .its ranks and flows use all"),
        ({"host": "h2"}, "h2: a has no address left for the flow .its address is that of its ranks"),
    ],
)
def test_what_the_topology_does_not_have_is_named(topology: Topology, flow: dict[str, Any], problem: str) -> None:
    if not problem:
        assert len(plan(topology, flow)) == 1
        return
    with pytest.raises(PlanError, match=problem):
        plan(topology, flow)


def test_agents_of_a_host_take_its_flows_in_turn_and_a_host_without_ranks_has_one(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(HOSTS)
    topology = load_topology(tmp_path / "t.yaml", ranks=2)  # h0 and h1 have one each, h2 none
    flows = plan(topology, {"host": ["h0", "h2:b", "h1"]})
    assignment = assign_ranks(topology, local_agents=2, others=[flow.host for flow in flows])
    found = assign_flows(flows, assignment, topology)
    assert {agent: [task.number for task in tasks] for agent, tasks in found.items()} == {
        "agent-0": [0, 1],
        "agent-1": [2],
    }
    by_hand = assign_ranks(topology, is_by_hand=True, others=["h2"])
    assert by_hand.ranks_of == {"h0": [0], "h1": [1], "h2": []}


def test_the_table_has_a_row_for_each_direction_and_end(topology: Topology) -> None:
    flows = plan(topology, {"host": ["h0", "h1"]})
    sent = FlowFigures(direction=FlowDirection.SENT, observer=FlowObserver.CHARKHA, messages=3, bytes=30, start_ns=5)
    seen = FlowFigures(direction=FlowDirection.RECEIVED, observer=FlowObserver.PEER, messages=2, bytes=20)
    rows = result_rows(flows, {1: FlowReport(1, True, [sent, seen])})
    assert (rows["flow"], rows["host"], rows["observer"]) == ([1, 1], ["h1", "h1"], ["charkha", "peer"])
    assert (rows["messages"], rows["start_ns"], rows["is_complete"]) == ([3, 2], [5, None], [True, True])
    assert result_rows(flows, {}) == {}


def test_gaps_of_a_flow_have_a_table_of_their_own_on_the_clock_of_the_run(topology: Topology) -> None:
    flows = plan(topology, {"host": ["h0", "h1"]})
    gaps = [FlowGap(15, 25, 9, 1), FlowGap(40, 50)]
    seen = FlowFigures(
        direction=FlowDirection.RECEIVED, observer=FlowObserver.CHARKHA, messages=2, bytes=20, start_ns=12, gaps=gaps
    )
    reports = {1: FlowReport(1, True, [seen]).earlier(10)}
    assert "gaps" not in result_rows(flows, reports)
    assert gap_rows(flows, reports) == {
        "flow": [1, 1], "direction": ["received", "received"], "start_ns": [5, 30], "end_ns": [15, 40],
        "lost": [9, None], "late_ns": [1, None],
    }  # fmt: skip
    assert gap_rows(flows, {}) == {}


def test_runs_with_other_flows_are_told_apart(topology: Topology) -> None:
    parameters = flow_parameters(plan(topology, {"host": "h0", "qps": 2, "iterations": 7}))
    assert parameters["flow.0"].value == (
        "ib_write_bw, h0 is the client of nic: messages of 64 KiB, 2 queue pairs, path MTU 4096, 7 messages on each "
        "queue pair"
    )
