from collections.abc import Sequence

import numpy as np
import pytest

from emulator.planner.network.header_overhead import TCP_1500, WireOverhead
from emulator.planner.network.ideal_times import UNKNOWN_NS, group_times_ns, ideal_per_instance, serialisation_ns
from emulator.planner.traffic.operation import Operation
from emulator.topology.model import Domain, Host, Topology
from emulator.trace.meaning.model import CommKind, Communication, Group, RankProgram, Workload
from tests.support.topologies import shipped_topology

NO_OVERHEAD = WireOverhead(1, 1)
GBIT = 10**9


def topology(places: Sequence[int], rates: Sequence[int | None]) -> Topology:
    hosts = [Host(f"h{number}", rate) for number, rate in enumerate(rates)]
    return Topology("t", hosts, tuple(places), ("127.0.0.1",) * len(places))


def times(
    kind: CommKind, algorithm: str, size_bytes: int, ranks: Sequence[Sequence[int]], on: Topology
) -> list[int | None]:
    once = np.ones(len(ranks), np.int64)
    operation = Operation("", kind, algorithm, size_bytes, np.array(ranks, np.int64), once)
    return group_times_ns(operation, on, NO_OVERHEAD)


def pair(size_bytes: int, src: int, dst: int, on: Topology) -> int | None:
    return times(CommKind.SEND, "direct", size_bytes, [[src, dst]], on)[0]


def ideal(places: Sequence[int], rates: Sequence[int | None], kind: CommKind, size: int, algorithm: str) -> int | None:
    return times(kind, algorithm, size, [range(len(places))], topology(places, rates))[0]


def test_a_gigabit_carries_a_byte_in_eight_nanoseconds() -> None:
    assert serialisation_ns([(1000, 10), (5, 700)], [GBIT, GBIT], NO_OVERHEAD) == 8000
    assert serialisation_ns([(1000, 10), (5, 700)], [8 * GBIT, GBIT], NO_OVERHEAD) == 5600


def test_headers_take_their_share_and_part_of_a_nanosecond_is_one() -> None:
    assert serialisation_ns([(1448, 0)], [GBIT], TCP_1500) == 1538 * 8
    assert serialisation_ns([(1, 0)], [1000 * GBIT], NO_OVERHEAD) == 1


def test_a_ring_all_reduce_sends_twice_all_but_one_block() -> None:
    assert ideal(range(4), [GBIT] * 4, CommKind.ALL_REDUCE, 4000, "ring") == 2 * 3 * 1000 * 8


def test_the_slowest_port_bounds_a_ring() -> None:
    assert ideal(range(4), [GBIT, GBIT, GBIT // 2, GBIT], CommKind.ALL_REDUCE, 4000, "ring") == 2 * 2 * 3 * 1000 * 8


def test_only_what_leaves_a_host_crosses_its_port() -> None:
    # Rings of neighbours: of four ranks on two hosts one per host sends to the other host, 2 · 3 blocks of 1,000 bytes.
    assert ideal([0, 0, 1, 1], [GBIT, GBIT], CommKind.ALL_REDUCE, 4000, "ring") == 6000 * 8
    # Placed in turn, every rank sends to the other host, and two share a port.
    assert ideal([0, 1, 0, 1], [GBIT, GBIT], CommKind.ALL_REDUCE, 4000, "ring") == 2 * 6000 * 8


def test_ranks_of_one_host_share_its_port() -> None:
    # Each of two ranks sends a quarter of its 4,000 bytes to each of the two ranks over there.
    assert ideal([0, 0, 1, 1], [GBIT, GBIT], CommKind.ALL_TO_ALL, 4000, "pairwise") == 4000 * 8


def test_what_comes_in_together_shares_the_port_of_who_gets_it() -> None:
    # Shards of 1,000 bytes: three enter the root's host, at most two leave another.
    assert ideal([0, 1, 1, 2], [GBIT] * 3, CommKind.GATHER, 1000, "parallel") == 3000 * 8


def test_nothing_crosses_a_port_within_a_host() -> None:
    assert ideal([0, 0, 0], [GBIT], CommKind.ALL_REDUCE, 4000, "ring") == 0
    assert ideal([0], [GBIT], CommKind.ALL_REDUCE, 4000, "ring") == 0


@pytest.mark.parametrize("places", [[0, 1], [0, 0], [1, 1, 0]])
def test_a_port_without_rate_has_no_ideal(places: list[int]) -> None:
    assert ideal(places, [GBIT, None], CommKind.ALL_REDUCE, 4000, "ring") == (0 if places == [0, 0] else None)


def test_equal_classes_on_other_hosts_are_worked_out_by_their_own_rates() -> None:
    on = topology([0, 1, 2, 3], [GBIT, GBIT, 2 * GBIT, 2 * GBIT])
    found = times(CommKind.ALL_GATHER, "ring", 500, [(0, 1), (2, 3), (0, 1)], on)
    assert found == [4000, 2000, 4000]


def test_a_pair_is_bound_by_the_slower_of_two_ports() -> None:
    on = topology([0, 1, 1, 2], [GBIT, 4 * GBIT, None])
    assert (pair(1000, 0, 1, on), pair(1000, 1, 2, on), pair(1000, 0, 3, on)) == (8000, 0, None)


def program(rank: int, communications: Sequence[Communication]) -> RankProgram:
    nothing = np.zeros(0, np.int64)
    return RankProgram(rank, nothing, np.zeros(0, np.int8), nothing, nothing, nothing, dict(enumerate(communications)))


def workload(nodes: Sequence[Sequence[Communication]], groups: Sequence[Group], instances: int) -> Workload:
    programs = [program(rank, communications) for rank, communications in enumerate(nodes)]
    return Workload(programs, groups, instances, window=1, warnings={}, deducted_ns=())


def test_every_instance_of_a_workload_gets_its_time() -> None:
    world, right = Group("", (0, 1, 2)), Group("right", (1, 2))
    everyone = Communication(1, "", 0, CommKind.BROADCAST, 0, 1000, instance=0, index_in_group=0, root=2)
    two = Communication(2, "", 0, CommKind.ALL_GATHER, 1, 1000, instance=1, index_in_group=0)
    recv = Communication(3, "", 0, CommKind.RECV, 0, 250, instance=2, index_in_group=0, peer=2)
    send = Communication(3, "", 0, CommKind.SEND, 0, 250, instance=2, index_in_group=0, peer=0)
    found = ideal_per_instance(
        workload([[recv, everyone], [everyone, two], [everyone, two, send]], [world, right], 3),
        topology([0, 1, 2], [GBIT] * 3),
        algorithm_of=lambda node: {CommKind.BROADCAST: "parallel", CommKind.ALL_GATHER: "ring"}[node.kind],
        overhead=NO_OVERHEAD,
    )
    assert found.tolist() == [2 * 1000 * 8, 1000 * 8, 250 * 8]


def test_an_algorithm_by_layout_is_as_fast_as_all_rails_together() -> None:
    node = Communication(1, "", 0, CommKind.ALL_REDUCE, 0, 8000, instance=0, index_in_group=0)
    for name, port_bytes in (("ring", 2 * 7 * 1000), ("hierarchical", 2 * 1000), ("ring:channels=4", 2 * 7 * 250)):
        found = ideal_per_instance(
            workload([[node]] * 8, [Group("", tuple(range(8)))], 1),
            shipped_topology("rail-4x4", ranks=8),
            algorithm_of=lambda _, name=name: name,
            overhead=NO_OVERHEAD,
        )
        assert found.tolist() == [port_bytes * 8 // 100]


def test_an_uneven_all_to_all_is_summed_over_what_each_member_sends() -> None:
    matrix = [[0, 10, 20], [300, 0, 0], [0, 4000, 0]]
    nodes = [
        [
            Communication(
                1,
                "",
                0,
                CommKind.ALL_TO_ALL,
                0,
                sum(row),
                instance=0,
                index_in_group=0,
                send_splits=tuple(row),
                recv_splits=tuple(other[rank] for other in matrix),
            )
        ]
        for rank, row in enumerate(matrix)
    ]
    for places, expected in (([0, 1, 2], 4010 * 8), ([0, 1, 1], 300 * 8)):
        found = ideal_per_instance(
            workload(nodes, [Group("", (0, 1, 2))], 1),
            topology(places, [GBIT] * 3),
            algorithm_of=lambda _: "pairwise",
            overhead=NO_OVERHEAD,
        )
        assert found.tolist() == [expected]


def test_unknown_rates_are_marked() -> None:
    node = Communication(1, "", 0, CommKind.ALL_REDUCE, 0, 1000, instance=0, index_in_group=0)
    found = ideal_per_instance(
        workload([[node], [node]], [Group("", (0, 1))], 1), topology([0, 0], [None]), algorithm_of=lambda _: "ring"
    )
    assert found.tolist() == [UNKNOWN_NS]


def test_a_domain_carries_what_stays_on_its_host_without_headers() -> None:
    places, domain = (0, 0, 1, 1), Domain(2 * GBIT, 5_000)  # a byte takes 4 ns; latency does not count
    hosts = [Host("h0", None, domain=domain), Host("h1", GBIT)]
    on = Topology("t", hosts, places, ("127.0.0.1",) * 4)
    # Of the last one, a port has no rate.
    assert (pair(1000, 0, 1, on), pair(1000, 2, 3, on), pair(1000, 1, 2, on)) == (4000, 0, None)
    assert times(CommKind.ALL_REDUCE, "ring", 1000, [[0, 1], [2, 3]], on) == [2 * 500 * 4, 0]
    assert times(CommKind.ALL_REDUCE, "ring", 1000, [range(4)], on) == [None]


@pytest.mark.parametrize(("domain_gbit", "bytes_ns"), [(16, 6000 * 8), (1, 6000 * 8), (0.5, 6000 * 16)])
def test_the_slower_of_port_and_domain_bounds_a_ring(domain_gbit: float, bytes_ns: int) -> None:
    hosts = [Host(f"h{n}", GBIT, domain=Domain(int(domain_gbit * GBIT))) for n in range(2)]
    on = Topology("t", hosts, (0, 0, 1, 1), ("127.0.0.1",) * 4)
    assert times(CommKind.ALL_REDUCE, "ring", 4000, [range(4)], on) == [bytes_ns]
