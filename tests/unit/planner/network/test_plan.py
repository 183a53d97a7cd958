"""Plans against numbers worked out by hand, and the laws that hold for every network."""

from pathlib import Path

import numpy as np
import pytest

from emulator.annexes.workloads.transformer import Transformer
from emulator.annexes.workloads.transformer_traffic import traffic_of_transformer
from emulator.annexes.workloads.transformer_workload import transformer_workload
from emulator.errors import PlanError
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.plan import Plan, instance_ns, make_plan
from emulator.planner.network.routing import Router, weights_of
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Operation, Traffic, check_size, traffic_of_collective
from emulator.topology.model import Topology, default_loopback
from emulator.trace.meaning.model import CommKind, Communication, Group, RankProgram, Workload
from tests.support.topologies import SHIPPED, drawn, shipped_topology

BARE = WireOverhead(1, 1)
LEAF_SPINE = (SHIPPED / "leaf-spine-2x2.yaml").read_text()
PINNED = "routes:\n" + "".join(
    f"  - {{at: leaf{1 - host // 4}, to: h{host}, via: spine{host % 2}}}\n" for host in range(8)
)
# A byte takes 400 ns at 20 Mbit/s.
BYTE_NS = 400


def plan_of(topology: Topology, traffic: Traffic, *, overhead: WireOverhead = BARE, seed: int | None = None) -> Plan:
    return make_plan(traffic, topology, router=Router(topology, seed=seed), overhead=overhead)


def collective(
    kind: CommKind, algorithm: str, *, ranks: int, size_bytes: int, group_size: int | None = None
) -> Traffic:
    return traffic_of_collective(
        kind, ranks=ranks, size_bytes=size_bytes, group_size=group_size or ranks, overrides={kind.label: algorithm}
    )


def links(plan: Plan, loads: str = "even") -> dict[str, float]:
    values = getattr(plan.loads, loads)
    return {plan.paths.link_name(link): values[link] for link in range(len(values))}


def test_all_to_all_over_2_to_1_oversubscription() -> None:
    # Eight ranks, a host each, blocks of 1,000 bytes. A port carries 7 blocks; of a leaf's 4 · 4 blocks to the other
    # leaf each of two uplinks carries 8.
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    plan = plan_of(topology, collective(CommKind.ALL_TO_ALL, "pairwise", ranks=8, size_bytes=8000))
    loads = links(plan)
    assert {loads[f"h{h}:eth0 > leaf{h // 4}:p{h % 4}"] for h in range(8)} == {7000}
    assert {loads[f"leaf{h // 4}:p{h % 4} > h{h}:eth0"] for h in range(8)} == {7000}
    assert {loads[f"leaf{leaf}:u{s} > spine{s}:d{leaf}"] for leaf in (0, 1) for s in (0, 1)} == {8000}
    assert {loads[f"spine{s}:d{leaf} > leaf{leaf}:u{s}"] for leaf in (0, 1) for s in (0, 1)} == {8000}
    (operation,) = plan.operations
    assert (operation.port_ns, operation.ideal_ns) == (7000 * BYTE_NS, 8000 * BYTE_NS)
    assert (operation.network_bytes, operation.local_bytes) == (56_000, 0)
    assert operation.flows == (56, 1000, 1000)
    assert operation.incast == (1, 1)


def test_a_ring_crosses_leaves_twice() -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    plan = plan_of(topology, collective(CommKind.ALL_REDUCE, "ring", ranks=8, size_bytes=8000))
    assert links(plan)["leaf0:u0 > spine0:d0"] == 14_000 / 2
    # A hash puts the one flow on one spine.
    hashed = links(plan, "hashed")
    assert sorted(hashed[f"leaf0:u{s} > spine{s}:d0"] for s in (0, 1)) == [0, 14_000]
    assert plan.operations[0].ideal_ns == plan.operations[0].hashed_ns == 14_000 * BYTE_NS


def test_headers_lengthen_every_time() -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    traffic = collective(CommKind.ALL_REDUCE, "ring", ranks=8, size_bytes=8000)
    assert plan_of(topology, traffic, overhead=WireOverhead(1000, 1100)).operations[0].ideal_ns == 14_000 * 440


def test_routes_pin_flows_to_spines(tmp_path: Path) -> None:
    plan = plan_of(
        drawn(tmp_path, LEAF_SPINE + PINNED, 8), collective(CommKind.ALL_TO_ALL, "pairwise", ranks=8, size_bytes=8000)
    )
    for loads in ("even", "hashed"):
        assert links(plan, loads)["leaf0:u0 > spine0:d0"] == 8000
        assert links(plan, loads)["spine1:d1 > leaf1:u1"] == 8000
    assert plan.operations[0].hashed_ns == 8000 * BYTE_NS
    assert not plan.loads.is_choice.any()


def test_routes_that_pin_all_to_one_spine_double_its_load(tmp_path: Path) -> None:
    plan = plan_of(
        drawn(tmp_path, LEAF_SPINE + PINNED.replace("spine1", "spine0"), 8),
        collective(CommKind.ALL_TO_ALL, "pairwise", ranks=8, size_bytes=8000),
    )
    assert links(plan)["leaf0:u0 > spine0:d0"] == 16_000
    assert plan.operations[0].ideal_ns == 16_000 * BYTE_NS


def test_routes_that_form_a_loop_are_refused(tmp_path: Path) -> None:
    routes = "routes:\n  - {at: spine0, to: h4, via: leaf0}\n  - {at: leaf0, to: h4, via: spine0}\n"
    with pytest.raises(PlanError, match="leaf-spine-2x2: the routes form a loop"):
        plan_of(
            drawn(tmp_path, LEAF_SPINE + routes, 8),
            collective(CommKind.ALL_TO_ALL, "pairwise", ranks=8, size_bytes=8000),
        )


def test_hashing_depends_on_the_seed_alone() -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    traffic = collective(CommKind.ALL_TO_ALL, "parallel", ranks=8, size_bytes=8000)
    one, again, other = (plan_of(topology, traffic, seed=seed).loads.hashed.tolist() for seed in (3, 3, 4))
    assert one == again
    assert one != other


def test_a_hash_spreads_many_flows_evenly() -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=256)
    plan = plan_of(topology, collective(CommKind.ALL_TO_ALL, "parallel", ranks=256, size_bytes=25600))
    hashed = links(plan, "hashed")
    up = [hashed[f"leaf{leaf}:u{s} > spine{s}:d{leaf}"] for leaf in (0, 1) for s in (0, 1)]
    assert sum(up) == 2 * 128 * 128 * 100
    # 16,384 flows in two: a standard deviation of 64 about 8,192.
    assert all(abs(load / 100 - 8192) < 5 * 64 for load in up)
    assert plan.loads.is_choice.sum() == 4


def test_observed_loads_replace_equal_shares() -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    observed = weights_of(Router(topology).paths, {"leaf0:u0 > spine0:d0": 3e6, "leaf0:u1 > spine1:d0": 1e6})
    router = Router(topology, weights=observed)
    traffic = collective(CommKind.ALL_TO_ALL, "pairwise", ranks=8, size_bytes=8000)
    plan = make_plan(traffic, topology, router=router, overhead=BARE)
    loads = links(plan)
    assert (loads["leaf0:u0 > spine0:d0"], loads["leaf0:u1 > spine1:d0"]) == (12_000, 4_000)
    assert loads["leaf1:u0 > spine0:d1"] == 8_000
    assert plan.operations[0].ideal_ns == 12_000 * BYTE_NS
    with pytest.raises(PlanError, match="no link 'leaf0 > spine0'"):
        weights_of(router.paths, {"leaf0 > spine0": 1})


def test_incast_counts_senders_to_a_rank_and_through_a_port() -> None:
    # Two ranks a host: in a parallel all-to-all seven send to each rank, six of them from elsewhere through its port.
    topology = shipped_topology("eight-hosts-switch", ranks=16)
    parallel = plan_of(topology, collective(CommKind.ALL_TO_ALL, "parallel", ranks=16, size_bytes=16_000, group_size=8))
    assert parallel.operations[0].incast == (7, 12)
    pairwise = plan_of(topology, collective(CommKind.ALL_TO_ALL, "pairwise", ranks=16, size_bytes=16_000))
    assert pairwise.operations[0].incast == (1, 2)
    gather = plan_of(topology, collective(CommKind.GATHER, "parallel", ranks=16, size_bytes=16_000))
    assert gather.operations[0].incast == (15, 14)


def test_groups_alone_and_together() -> None:
    # Four groups of ranks at stride would share ports; here two groups of two hosts share the uplinks.
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    pairs = np.array([[0, 4], [1, 5], [2, 6]], dtype=np.int64)
    operation = Operation("", CommKind.SEND, "direct", 1000, pairs, np.array([1, 2, 1], dtype=np.int64))
    plan = plan_of(topology, Traffic(8, [operation]))
    (sends,) = plan.operations
    assert (sends.ideal_ns, sends.together_ns) == (1000 * BYTE_NS, 1500 * BYTE_NS)
    assert links(plan)["h1:eth0 > leaf0:p1"] == 2000
    assert sends.network_bytes == 4000
    assert plan.flows is not None
    assert [tuple(flow) for flow in plan.flows] == [(1, 5, 2000), (0, 4, 1000), (2, 6, 1000)]


def test_a_cable_between_two_hosts_carries_each_byte_once() -> None:
    topology = shipped_topology("nic-back-to-back", ranks=4)
    plan = plan_of(topology, collective(CommKind.ALL_TO_ALL, "parallel", ranks=4, size_bytes=4000))
    assert links(plan) == {"tester:eth1 > server:eth1": 4000, "server:eth1 > tester:eth1": 4000}
    assert plan.operations[0].local_bytes == 4000


def test_two_cables_between_two_hosts_are_left_by_the_senders(tmp_path: Path) -> None:
    text = """hosts:
  - {name: a, interfaces: [{name: p, address: 10.0.0.1}, {name: q, address: 10.0.0.2}]}
  - {name: b, interfaces: [{name: p, address: 10.0.0.3}, {name: q, address: 10.0.0.4}]}
links:
  - {endpoints: ["a:p", "b:p"], rate: 1Gbit}
  - {endpoints: ["a:q", "b:q"], rate: 1Gbit}
"""
    plan = plan_of(drawn(tmp_path, text, 4), collective(CommKind.ALL_TO_ALL, "parallel", ranks=4, size_bytes=4000))
    assert set(links(plan).values()) == {2000}


def test_work_in_small_parts_gives_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=16)
    traffic = collective(CommKind.ALL_TO_ALL, "parallel", ranks=16, size_bytes=4000, group_size=5)
    whole = plan_of(topology, traffic)
    monkeypatch.setattr("emulator.planner.network.link_loads.FLOWS_AT_ONCE", 1)
    monkeypatch.setattr("emulator.planner.traffic.operation.TRANSFERS_AT_ONCE", 6)
    parts = plan_of(topology, traffic)
    for one, other in ((whole.loads.even, parts.loads.even), (whole.loads.hashed, parts.loads.hashed)):
        np.testing.assert_allclose(one, other)
    assert whole.loads.flows.tolist() == parts.loads.flows.tolist()
    assert whole.flows == parts.flows
    for one_plan, other_plan in zip(whole.operations, parts.operations, strict=True):
        assert one_plan.flows == other_plan.flows
        assert one_plan.group_ns.tolist() == other_plan.group_ns.tolist()
        assert one_plan.hashed_ns == other_plan.hashed_ns


def test_rails_cross_one_switch_and_other_traffic_the_spine() -> None:
    topology = shipped_topology("rail-4x4", ranks=16)
    rails = np.arange(16, dtype=np.int64).reshape(4, 4).T  # ranks of one rail
    once = np.ones(4, dtype=np.int64)
    ring = Operation("", CommKind.ALL_REDUCE, "ring", 4000, rails, once)
    assert links(plan_of(topology, Traffic(16, [ring])))["rail0:up > spine0:d0"] == 0
    everyone = collective(CommKind.ALL_TO_ALL, "pairwise", ranks=16, size_bytes=1600)
    # Of the 15 blocks of a rank 9 go to another rail of another host, 3 stay within the host.
    assert links(plan_of(topology, everyone))["rail0:up > spine0:d0"] == 4 * 9 * 100


def test_unreachable_ranks_are_named(tmp_path: Path) -> None:
    text = """hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]
switches: [{name: s}, {name: t}]
links:
  - endpoints: ["a:eth0", "s:0"]
  - endpoints: ["b:eth0", "t:0"]
"""
    with pytest.raises(PlanError, match=r"t: there is no path from rank 0 \(a:eth0\) to rank 1 \(b:eth0\)"):
        plan_of(drawn(tmp_path, text, 2), collective(CommKind.BROADCAST, "parallel", ranks=2, size_bytes=4))


def test_without_rates_there_are_loads_but_no_times(tmp_path: Path) -> None:
    text = "hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]\n"
    plan = plan_of(drawn(tmp_path, text, 2), collective(CommKind.BROADCAST, "parallel", ranks=2, size_bytes=4))
    assert plan.network_bytes == 4
    assert (plan.operations[0].port_ns, plan.operations[0].together_ns) == (None, None)


def test_loopback_has_no_network_at_all() -> None:
    plan = plan_of(default_loopback(4), collective(CommKind.ALL_REDUCE, "ring", ranks=4, size_bytes=400))
    assert (plan.network_bytes, plan.local_bytes, plan.operations[0].ideal_ns) == (0, 4 * 600, 0)


def test_the_last_group_may_be_smaller() -> None:
    traffic = collective(CommKind.ALL_REDUCE, "ring", ranks=10, size_bytes=400, group_size=4)
    assert [operation.ranks.tolist() for operation in traffic.operations] == [[[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9]]]


def test_what_nobody_would_wait_for_is_refused() -> None:
    traffic = collective(CommKind.ALL_TO_ALL, "pairwise", ranks=100_000, size_bytes=100_000)
    with pytest.raises(PlanError, match=r"1\.0e\+10 pairs"):
        check_size(traffic, most=10**9)


def test_a_transformer_is_planned_from_one_rank_of_each_stage() -> None:
    model = Transformer(
        layers=8, hidden=64, sequence=32, batch=12, micro_batches=2, vocabulary=128, tensor=2, pipeline=4, data=3
    )
    traffic = traffic_of_transformer(model, overrides={})
    assert traffic.ranks == 24
    expected = sorted(
        (entry.kind, entry.size_bytes, entry.operations)
        for entry in transformer_workload(model).totals.traffic
        if entry.kind not in (CommKind.SEND, CommKind.RECV)
    )
    found: dict[tuple[CommKind, int], int] = {}
    for operation in traffic.operations:
        if operation.kind is not CommKind.SEND:
            key = (operation.kind, operation.size_bytes)
            found[key] = found.get(key, 0) + int(operation.counts.sum())
    merged: dict[tuple[CommKind, int], int] = {}
    for kind, size, operations in expected:
        merged[kind, size] = merged.get((kind, size), 0) + operations
    assert found == merged
    sends = [operation for operation in traffic.operations if operation.kind is CommKind.SEND]
    assert sum(int(operation.counts.sum()) for operation in sends) == next(
        entry.operations for entry in transformer_workload(model).totals.traffic if entry.kind is CommKind.SEND
    )
    for operation in sends:
        step = 6 if operation.role == "forward" else -6
        assert set((operation.ranks[:, 1] - operation.ranks[:, 0]).tolist()) == {step}


def test_instances_of_a_trace_have_their_times() -> None:
    topology = shipped_topology("eight-hosts-switch", ranks=3)
    ring = Communication(1, "", 0, CommKind.ALL_GATHER, 1, 1000, instance=1, index_in_group=0)
    send = Communication(2, "", 0, CommKind.SEND, 0, 50, instance=0, index_in_group=0, peer=2)
    recv = Communication(2, "", 0, CommKind.RECV, 0, 50, instance=0, index_in_group=0, peer=0)
    splits = [(0, 7, 1), (2, 0, 0), (0, 0, 0)]
    uneven = [
        Communication(
            3, "", 0, CommKind.ALL_TO_ALL, 0, sum(row), instance=2, index_in_group=0,
            send_splits=row, recv_splits=tuple(other[rank] for other in splits),
        )
        for rank, row in enumerate(splits)
    ]  # fmt: skip
    nothing = np.zeros(0, np.int64)
    nodes = ([send, uneven[0]], [ring, uneven[1]], [recv, ring, uneven[2]])
    programs = [
        RankProgram(rank, nothing, np.zeros(0, np.int8), nothing, nothing, nothing, dict(enumerate(each)))
        for rank, each in enumerate(nodes)
    ]
    workload = Workload(programs, [Group("", (0, 1, 2)), Group("g", (1, 2))], 3, window=1, warnings={}, deducted_ns=())
    traffic = traffic_of_workload(
        workload, name_of=lambda node: "pairwise" if node.kind is CommKind.ALL_TO_ALL else "ring"
    )
    found = instance_ns(traffic, plan_of(topology, traffic))
    assert found.tolist() == [50 * 80, 1000 * 80, 8 * 80]  # 100 Mbit/s
