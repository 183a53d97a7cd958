from collections.abc import Sequence

import pytest

from emulator.results.statistics.method.nccl_conventions import (
    busbw_factor,
    count_elements,
    nccl_size,
    root_of,
    sequential_roofline_ns,
)
from emulator.topology.model import Domain, Host, Topology
from emulator.trace.meaning.model import CommKind, RankTrace
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import coll, node, rank_trace, recv, send

K = CommKind

# Worked out by hand from nccl-tests' performance notes: for a comm_size of 1,200 bytes and 2, 3 and 8 ranks, the size
# that nccl-tests names and bus bandwidth over algorithm bandwidth.
BY_HAND = [
    (K.ALL_REDUCE, (1200, 1200, 1200), (1, 4 / 3, 1.75)),
    (K.REDUCE, (1200, 1200, 1200), (1, 1, 1)),
    (K.ALL_GATHER, (2400, 3600, 9600), (1 / 2, 2 / 3, 7 / 8)),
    (K.GATHER, (2400, 3600, 9600), (1 / 2, 2 / 3, 7 / 8)),
    (K.SCATTER, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.BROADCAST, (1200, 1200, 1200), (1, 1, 1)),
    (K.ALL_TO_ALL, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.REDUCE_SCATTER, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.REDUCE_SCATTER_BLOCK, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.SEND, (1200, 1200, 1200), (1, 1, 1)),
    (K.STORAGE_WRITE, (1200, 1200, 1200), (1, 1, 1)),
    (K.STORAGE_READ, (1200, 1200, 1200), (1, 1, 1)),
]


@pytest.mark.parametrize(("kind", "sizes", "factors"), BY_HAND)
def test_size_and_factor_are_those_of_nccl_tests(
    kind: CommKind, sizes: tuple[int, ...], factors: tuple[float, ...]
) -> None:
    for members, size, factor in zip((2, 3, 8), sizes, factors, strict=True):
        assert nccl_size(kind, size_bytes=1200, members=members) == size
        assert busbw_factor(kind, members=members) == pytest.approx(factor)


def test_the_table_covers_every_collective() -> None:
    assert {kind for kind, _, _ in BY_HAND} == set(CommKind) - {K.BARRIER, K.RECV}


def test_a_barrier_and_a_group_of_one_have_no_bus_bandwidth() -> None:
    assert busbw_factor(K.ALL_REDUCE, members=1) is None
    assert busbw_factor(K.BARRIER, members=8) is None
    assert busbw_factor(K.STORAGE_READ, members=1) == 1


@pytest.mark.parametrize("members", [2, 3, 8])
def test_bus_bandwidth_is_that_of_the_busiest_port(members: int) -> None:
    """Closed form: bytes that a rank must send or receive, over the size of the collective."""
    size = 840
    sent = {
        K.ALL_REDUCE: 2 * size * (members - 1) / members,
        K.REDUCE_SCATTER: size * (members - 1) / members,
        K.ALL_TO_ALL: size * (members - 1) / members,
        K.BROADCAST: size,
        K.SEND: size,
    }
    for kind, port_bytes in sent.items():
        assert busbw_factor(kind, members=members) == pytest.approx(port_bytes / size)


@pytest.mark.parametrize(
    ("kind", "count", "root"),
    [
        (K.ALL_REDUCE, 800, -1),
        (K.BROADCAST, 800, 0),
        (K.REDUCE, 800, 0),
        (K.ALL_GATHER, 100, -1),
        (K.REDUCE_SCATTER, 100, -1),
        (K.REDUCE_SCATTER_BLOCK, 100, -1),
        (K.ALL_TO_ALL, 100, -1),
        (K.GATHER, 100, 0),
        (K.SCATTER, 100, 0),
    ],
)
def test_elements_and_root_are_those_that_nccl_tests_prints(kind: CommKind, count: int, root: int) -> None:
    assert count_elements(kind, size_bytes=800, members=8) == count
    assert root_of(kind) == root


GBIT = 10**9  # a byte takes 8 ns


def topology(*rates: int | None) -> Topology:
    hosts = [Host(f"h{k}", rate) for k, rate in enumerate(rates)]
    return Topology("t", hosts, range(len(rates)), ["127.0.0.1"] * len(rates))


def roofline(nodes: Sequence[Sequence[object]], *rates: int | None) -> int | None:
    traces: list[RankTrace] = [rank_trace(rank, listed) for rank, listed in enumerate(nodes)]  # type: ignore[arg-type]
    return sequential_roofline_ns(build_workload(traces), topology(*rates))


@pytest.mark.parametrize(
    ("kind", "size", "bus_bytes"),
    [
        ("all_reduce", 900, 900 * 2 * 2 / 3),
        ("reduce_scatter", 900, 900 * 2 / 3),
        ("all_gather", 900, 3 * 900 * 2 / 3),  # comm_size is the shard
        ("all_to_all", 900, 900 * 2 / 3),
        ("broadcast", 900, 900),
        ("reduce", 900, 900),
        ("barrier", 0, 0),
        ("all_reduce", 0, 0),
    ],
)
def test_compute_and_bus_bytes_follow_each_other(kind: str, size: int, bus_bytes: float) -> None:
    nodes = [node(1, duration=10), node(2, duration=5, cpu=True), coll(3, kind, size)]
    assert roofline([nodes] * 3, GBIT, GBIT, GBIT) == 15_000 + bus_bytes * 8


def test_sends_and_receives_count_in_full() -> None:
    sender = [send(1, 1, 100), node(2, duration=1)]
    receiver = [recv(1, 0, 100), node(2, duration=3)]
    assert roofline([sender, receiver], GBIT, GBIT) == 3_000 + 800


def test_the_slowest_rank_counts() -> None:
    nodes = [coll(1, "broadcast", 100)]
    assert roofline([nodes, nodes], GBIT, GBIT // 10) == 8_000
    assert roofline([nodes, [*nodes, node(2, duration=90)]], GBIT // 10, GBIT) == 90_000 + 800


def test_a_group_of_one_moves_nothing() -> None:
    assert roofline([[coll(1, "all_reduce", 100)]], GBIT) == 0


def test_without_a_rate_nothing_is_known() -> None:
    nodes = [coll(1, "broadcast", 100)]
    assert roofline([nodes, nodes], GBIT, None) is None


def test_the_formula_does_not_know_of_scale_up_domains() -> None:
    hosts = [Host("h0", GBIT), Host("h1", GBIT, domain=Domain(GBIT))]
    traces: list[RankTrace] = [rank_trace(rank, [coll(1, "broadcast", 100)]) for rank in range(2)]
    topology = Topology("t", hosts, range(2), ["127.0.0.1"] * 2)
    assert sequential_roofline_ns(build_workload(traces), topology) is None
