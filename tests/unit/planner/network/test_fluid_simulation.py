"""The fluid model against times worked out by hand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.network.fluid_simulation import IdealTransfer, LaneProgress, fair_rates, fluid_transfers, lanes_of
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.plan import OperationPlan, make_plan
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import Operation, traffic_of_collective
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback
from emulator.trace.meaning.model import CommKind
from tests.support.topologies import drawn

ONE = np.ones(1, np.int64)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.randoms())
def test_a_step_is_complete_when_every_transfer_has_arrived_early_or_not(peers: list[int], random: object) -> None:
    lane, arrivals = LaneProgress(iter(())), list(peers)
    random.shuffle(arrivals)  # type: ignore[attr-defined]
    early = len(arrivals) // 2
    assert not any(lane.receive(peer) for peer in arrivals[:early])
    assert lane.await_transfers(peers) is (early < len(peers))
    completed = [lane.receive(peer) for peer in arrivals[early:]]
    assert completed == [False] * (len(completed) - 1) + [True] * bool(completed)
    assert not lane.is_waiting


def test_a_transfer_of_the_next_step_does_not_complete_this_one() -> None:
    lane = LaneProgress(iter(()))
    assert lane.await_transfers([1])
    assert not lane.receive(2)
    assert lane.receive(1)
    assert not lane.await_transfers([2])


def test_a_send_has_a_lane_at_either_end_and_none_of_no_bytes() -> None:
    pair = Operation("", CommKind.SEND, "", 100, np.array([[4, 7]]), ONE)
    ((sent,), (received,)) = (list(lanes_of(pair, member)[0]) for member in (0, 1))
    assert [(one.peer, one.size) for one in sent.sends] == [(1, 100)]
    assert [(one.peer, one.size) for one in received.recvs] == [(0, 100)]
    empty = Operation("", CommKind.SEND, "", 0, np.array([[4, 7]]), ONE)
    assert all(not step.sends and not step.recvs for member in (0, 1) for step in lanes_of(empty, member)[0])


@pytest.mark.parametrize("members", [2, 5])
def test_the_lanes_of_a_collective_are_those_of_its_schedule(members: int) -> None:
    ring = Operation("", CommKind.ALL_GATHER, "ring", 1000, np.arange(members).reshape(1, -1), ONE)
    (lane,) = lanes_of(ring, 1)
    steps = list(lane)
    assert len(steps) == members - 1
    assert {one.peer for step in steps for one in step.sends} == {2 % members}


EIGHT = Path(__file__).parents[4] / "topologies" / "eight-hosts-switch.yaml"
BYTE_NS = 80  # at 100 Mbit/s
ONE_UPLINK = "fabric: {leaves: 2, spines: 1, hosts_per_leaf: 2, rate: 100Mbit}"


def planned(topology: Topology, kind: CommKind, algorithm: str, *, size_bytes: int) -> OperationPlan:
    ranks = topology.ranks
    traffic = traffic_of_collective(
        kind, ranks=ranks, size_bytes=size_bytes, group_size=ranks, overrides={kind.label: algorithm}
    )
    plan = make_plan(traffic, topology, router=Router(topology), overhead=WireOverhead(1, 1))
    return plan.operations[0]


def test_rates_are_max_min_fair() -> None:
    paths = [np.array(links, dtype=np.int64) for links in ([0], [0, 1], [1], [])]
    assert fair_rates(paths, np.array([1.0, 2.0])).tolist() == [0.5, 0.5, 1.5, np.inf]


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "direct", "bidirectional_ring"])
def test_balanced_steps_reach_the_bound(algorithm: str) -> None:
    found = planned(load_topology(EIGHT, ranks=8), CommKind.ALL_REDUCE, algorithm, size_bytes=8000)
    assert found.fair_ns == found.ideal_ns == 14_000 * BYTE_NS


def test_hops_of_a_chain_follow_each_other() -> None:
    found = planned(load_topology(EIGHT, ranks=4), CommKind.BROADCAST, "ring", size_bytes=1000)
    assert (found.ideal_ns, found.fair_ns) == (1000 * BYTE_NS, 3000 * BYTE_NS)


def test_hops_of_a_tree_share_the_roots_port() -> None:
    # The root sends to both children at once, which takes twice as long; then one of them sends to the last member.
    found = planned(load_topology(EIGHT, ranks=4), CommKind.BROADCAST, "tree", size_bytes=1000)
    assert (found.ideal_ns, found.fair_ns) == (2000 * BYTE_NS, 3000 * BYTE_NS)


def test_flows_of_a_step_share_an_uplink(tmp_path: Path) -> None:
    # Steps 1 and 3 have one flow on each uplink, step 2 has two.
    found = planned(drawn(tmp_path, ONE_UPLINK, 4), CommKind.ALL_TO_ALL, "pairwise", size_bytes=4000)
    assert found.fair_ns == found.ideal_ns == 4000 * BYTE_NS


def test_steps_that_wait_take_longer_than_the_bound(tmp_path: Path) -> None:
    # Neighbours in the second half of the steps wait for those that crossed the uplink: 6 ranks, 3 on a leaf.
    text = ONE_UPLINK.replace("hosts_per_leaf: 2", "hosts_per_leaf: 3")
    found = planned(drawn(tmp_path, text, 6), CommKind.ALL_TO_ALL, "pairwise", size_bytes=6000)
    assert found.ideal_ns == 9000 * BYTE_NS
    assert found.fair_ns >= found.ideal_ns


def test_what_comes_early_is_not_waited_for_again(tmp_path: Path) -> None:
    # h2 takes 800 ns a byte, the others 80. 1 > 2 and 2 > 0 of the first step take h2's pace; 1, which heard from 0
    # long before, has sent 1 > 0 of the second step meanwhile. Then 2 > 1 and 0 > 2 take h2's pace again.
    text = """hosts:
  - {name: h0, address: 10.0.0.1, rate: 100Mbit}
  - {name: h1, address: 10.0.0.2, rate: 100Mbit}
  - {name: h2, address: 10.0.0.3, rate: 10Mbit}
"""
    found = planned(drawn(tmp_path, text, 3), CommKind.ALL_TO_ALL, "pairwise", size_bytes=3000)
    assert found.ideal_ns == found.fair_ns == 2 * 1000 * 800


def test_within_a_host_nothing_takes_time() -> None:
    assert planned(default_loopback(4), CommKind.ALL_REDUCE, "ring", size_bytes=400).fair_ns == 0


def test_large_groups_and_unknown_rates_have_no_time(tmp_path: Path) -> None:
    text = "hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]\n"
    assert planned(drawn(tmp_path, text, 2), CommKind.ALL_REDUCE, "ring", size_bytes=400).fair_ns is None
    assert planned(load_topology(EIGHT, ranks=48), CommKind.ALL_TO_ALL, "parallel", size_bytes=4800).fair_ns is None


def transfers_of(topology: Topology, kind: CommKind, algorithm: str, *, size_bytes: int) -> Sequence[IdealTransfer]:
    ranks = topology.ranks
    traffic = traffic_of_collective(
        kind, ranks=ranks, size_bytes=size_bytes, group_size=ranks, overrides={kind.label: algorithm}
    )
    byte_ns = np.full(2 * len(topology.network.links), float(BYTE_NS))
    found = fluid_transfers(traffic.operations[0], 0, Router(topology), byte_ns)
    assert found is not None
    return found


def test_every_transfer_of_a_ring_takes_its_time_after_the_one_before() -> None:
    topology = load_topology(EIGHT, ranks=8)
    found = transfers_of(topology, CommKind.ALL_REDUCE, "ring", size_bytes=8000)
    step_ns = 1000 * BYTE_NS
    assert len(found) == 8 * 14
    for rank in range(8):
        mine = [(one.receiver, one.post_ns, one.arrival_ns) for one in found if one.sender == rank]
        assert mine == [((rank + 1) % 8, k * step_ns, (k + 1) * step_ns) for k in range(14)]


@pytest.mark.parametrize("algorithm", ["pairwise", "parallel"])
def test_the_last_transfer_arrives_when_the_collective_is_done(algorithm: str) -> None:
    topology = load_topology(EIGHT, ranks=16)
    found = transfers_of(topology, CommKind.ALL_TO_ALL, algorithm, size_bytes=16_000)
    plan = planned(topology, CommKind.ALL_TO_ALL, algorithm, size_bytes=16_000)
    assert max(one.arrival_ns for one in found) == plan.fair_ns
    assert len(found) == 16 * 15
