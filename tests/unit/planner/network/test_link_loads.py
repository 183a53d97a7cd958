"""Bytes on links, and the least time they take."""

from pathlib import Path

import numpy as np
import pytest

from emulator.planner.network import link_loads
from emulator.planner.network.link_loads import (
    FlowLoad,
    Incast,
    OperationLoads,
    flow_batches,
    flow_link_loads,
    incast_of,
    longest_ns,
    round_up_ns,
)
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import Operation, traffic_of_collective
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.topology.network import End
from emulator.topology.paths import Paths
from emulator.trace.meaning.model import CommKind

FABRIC = "fabric: {leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 8Gbit}\n"  # a byte takes 1 ns


def all_to_all(group_size: int) -> Operation:
    traffic = traffic_of_collective(
        CommKind.ALL_TO_ALL, ranks=4, size_bytes=4000, group_size=group_size, overrides={"all_to_all": "parallel"}
    )
    return traffic.operations[0]


def loads_of(tmp_path: Path, operation: Operation) -> OperationLoads:
    path = tmp_path / "t.yaml"
    path.write_text(FABRIC)
    router = Router(load_topology(path, ranks=4))
    byte_ns = np.ones(len(router.paths.source))
    loads = OperationLoads(operation, router, byte_ns)
    for groups, batches in flow_batches(operation, list(operation.totals())):
        for batch in batches:
            loads.add(batch)
        loads.finish(groups)
    return loads


def test_every_port_carries_its_blocks_and_every_uplink_half_of_its_leaf(tmp_path: Path) -> None:
    loads = loads_of(tmp_path, all_to_all(4))
    assert sorted(loads.even.tolist()) == [2000] * 8 + [3000] * 8
    assert loads.port_ns.tolist() == [3000]
    assert loads.even_ns.tolist() == [3000]
    assert loads.bytes.tolist() == [12_000, 0, 0]


def test_hashed_flows_keep_their_bytes_together(tmp_path: Path) -> None:
    loads = loads_of(tmp_path, all_to_all(4))
    assert loads.hashed.sum() == loads.even.sum()
    assert set((loads.hashed % 1000).tolist()) == {0}
    assert (loads.hashed_ns >= loads.even_ns).all()
    # 12 flows at two edges each; the 8 between leaves on two links more.
    assert loads.flow_count.sum() == 12 * 2 + 8 * 2


def test_groups_side_by_side_are_apart_and_together(tmp_path: Path) -> None:
    loads = loads_of(tmp_path, all_to_all(2))
    assert loads.port_ns.tolist() == [2000, 2000]  # each pair of hosts exchanges blocks of half the size
    assert loads.together_ns.max() == 2000
    assert loads.even[loads.even > 0].tolist() == [2000] * 8


def test_operations_that_repeat_count_as_often(tmp_path: Path) -> None:
    operation = all_to_all(2)
    operation.counts[:] = [3, 1]
    loads = loads_of(tmp_path, operation)
    assert sorted(loads.even[loads.even > 0].tolist()) == [2000] * 4 + [6000] * 4
    assert loads.bytes.tolist() == [16_000, 0, 0]


def test_small_batches_give_the_same_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = loads_of(tmp_path, all_to_all(2))
    monkeypatch.setattr(link_loads, "FLOWS_AT_ONCE", 1)
    operation = all_to_all(2)
    assert [groups for groups, _ in flow_batches(operation, list(operation.totals()))] == [range(1), range(1, 2)]
    cut = loads_of(tmp_path, operation)
    assert cut.even.tolist() == whole.even.tolist()
    assert cut.hashed_ns.tolist() == whole.hashed_ns.tolist()


def test_times_round_up_but_not_for_a_rounding_error() -> None:
    assert round_up_ns(np.array([1.0, 1.0000000001, 1.5])).tolist() == [1, 1, 2]
    assert longest_ns(np.array([])) == 0
    assert longest_ns(np.array([1.2, 3.4])) == 4
    assert longest_ns(np.array([1.2, np.nan])) is None


TWO_HOSTS = "hosts:\n  - {name: a, per_rank: 10.0.1.0/24}\n  - {name: b, per_rank: 10.0.2.0/24}\n"


def operation(kind: CommKind, algorithm: str, *, ranks: int, group_size: int) -> Operation:
    overrides = {kind.label: algorithm}
    traffic = traffic_of_collective(kind, ranks=ranks, size_bytes=5040, group_size=group_size, overrides=overrides)
    return traffic.operations[0]


@pytest.fixture
def router(tmp_path: Path) -> Router:
    """Eight ranks: 0 to 3 on one host, 4 to 7 on the other."""
    path = tmp_path / "t.yaml"
    path.write_text(TWO_HOSTS)
    return Router(load_topology(path, ranks=8))


def test_all_senders_of_a_rank_count_but_only_other_hosts_load_its_port(router: Router) -> None:
    gather = operation(CommKind.GATHER, "parallel", ranks=8, group_size=8)
    assert incast_of(gather, router) == Incast(rank=7, port=4)


def test_a_ring_has_one_sender_per_rank(router: Router) -> None:
    assert incast_of(operation(CommKind.ALL_REDUCE, "ring", ranks=8, group_size=8), router) == Incast(rank=1, port=1)


def test_ranks_that_share_a_port_add_up(router: Router) -> None:
    # All-to-all in one phase: four ranks of a host each receive from the four of the other.
    assert incast_of(operation(CommKind.ALL_TO_ALL, "parallel", ranks=8, group_size=8), router) == Incast(7, 16)


def test_a_group_inside_a_host_loads_no_port(router: Router) -> None:
    assert incast_of(operation(CommKind.ALL_TO_ALL, "parallel", ranks=8, group_size=4), router) == Incast(3, 0)


def test_the_group_with_the_largest_incast_counts(router: Router) -> None:
    # Groups of three: 0-2 within a host, 3-5 across both, 6-7 within a host.
    assert incast_of(operation(CommKind.GATHER, "parallel", ranks=8, group_size=3), router) == Incast(2, 2)


def test_senders_of_ones_own_domain_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "domains.yaml"
    path.write_text(TWO_HOSTS.replace("a, per_rank", "a, domain: {rate: 1GB/s}, per_rank"))
    router = Router(load_topology(path, ranks=8))
    gather = operation(CommKind.GATHER, "parallel", ranks=8, group_size=8)  # to rank 0, of the host with a domain
    assert incast_of(gather, router) == Incast(rank=4, port=4)
    # Rank 4 of the host without one still hears all others.
    assert incast_of(operation(CommKind.ALL_TO_ALL, "parallel", ranks=8, group_size=8), router) == Incast(7, 16)


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
