"""BMWG's sequential roofline by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from emulator.results.statistics.method.roofline import sequential_roofline_ns
from emulator.topology.model import Domain, Host, Topology
from emulator.trace.meaning.model import RankTrace
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import coll, node, rank_trace, recv, send

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
