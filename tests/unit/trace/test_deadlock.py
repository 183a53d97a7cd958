"""Deadlocks are described in words: which node of which rank waits for which."""

from __future__ import annotations

import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.deadlock import SHOWN_WAITS
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import Node, coll, node, rank_trace, recv, send

PAIRS = {"a": (0, 1), "b": (0, 1)}


def deadlock(*ranks: list[Node]) -> str:
    with pytest.raises(TraceError) as error:
        build_workload([rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)], groups=PAIRS)
    return str(error.value).removeprefix("the run would never finish because its ranks wait for each other: ")


def test_two_groups_in_opposite_order_deadlock() -> None:
    told = deadlock(
        [coll(1, "all_reduce", pg="a"), coll(2, "all_gather", pg="b", deps=[1])],
        [coll(3, "all_gather", pg="b"), coll(4, "all_reduce", pg="a", deps=[3])],
    )
    assert set(told.split("; ")) == {
        "rank 0 node 2 (all_gather, group b) waits for its node 1 (all_reduce, group a)",
        "rank 1 node 4 (all_reduce, group a) waits for its node 3 (all_gather, group b)",
    }


def test_compute_between_is_left_out_of_the_telling() -> None:
    told = deadlock(
        [coll(1, "barrier", pg="a"), node(5, deps=[1]), node(6, deps=[5]), coll(7, "barrier", pg="b", deps=[6])],
        [coll(3, "barrier", pg="b"), coll(4, "barrier", pg="a", deps=[3])],
    )
    assert "rank 0 node 7 (barrier, group b) waits for its node 1 (barrier, group a)" in told.split("; ")


def test_receives_that_wait_for_each_other_deadlock() -> None:
    told = deadlock([recv(1, 1), send(2, 1, deps=[1])], [recv(1, 0), send(2, 0, deps=[1])])
    assert set(told.split("; ")) == {
        "rank 0 node 1 (recv, from rank 1) waits for rank 1 node 2 (send, to rank 0)",
        "rank 0 node 2 (send, to rank 1) waits for its node 1 (recv, from rank 1)",
        "rank 1 node 1 (recv, from rank 0) waits for rank 0 node 2 (send, to rank 1)",
        "rank 1 node 2 (send, to rank 0) waits for its node 1 (recv, from rank 0)",
    }


def test_order_within_the_world_group_can_deadlock() -> None:
    told = deadlock(
        [coll(1, "barrier"), coll(2, "barrier", deps=[5]), recv(5, 1)],
        [coll(1, "barrier"), coll(2, "barrier"), send(5, 0, deps=[2])],
    )
    assert "rank 1 node 5 (send, to rank 0) waits for its node 2 (barrier, world)" in told
    assert "rank 0 node 5 (recv, from rank 1) waits for rank 1 node 5 (send, to rank 0)" in told


def test_long_cycles_are_cut() -> None:
    size = 12
    ranks = [[recv(1, (rank - 1) % size), send(2, (rank + 1) % size, deps=[1])] for rank in range(size)]
    assert deadlock(*ranks).endswith("; and 18 more")


@pytest.mark.parametrize("size", [SHOWN_WAITS // 2, SHOWN_WAITS // 2 + 1])
def test_a_cycle_is_complete_up_to_the_number_of_waits_that_are_shown(size: int) -> None:
    told = deadlock(*([recv(1, (rank - 1) % size), send(2, (rank + 1) % size, deps=[1])] for rank in range(size)))
    waits = told.split("; ")
    assert len([wait for wait in waits if wait.startswith("rank")]) == SHOWN_WAITS
    assert waits[SHOWN_WAITS:] == ([] if 2 * size == SHOWN_WAITS else ["and 2 more"])


def test_the_shortest_of_two_cycles_is_described() -> None:
    ring = [[recv(1, (rank - 1) % 4, tag=1), send(2, (rank + 1) % 4, tag=1, deps=[1])] for rank in range(4)]
    pair = [[recv(11, 1 - rank, tag=2), send(12, 1 - rank, tag=2, deps=[11])] for rank in range(2)]
    told = deadlock(ring[0] + pair[0], ring[1] + pair[1], ring[2], ring[3])
    assert len(told.split("; ")) == 4
    assert all("node 11" in wait or "node 12" in wait for wait in told.split("; "))


def test_the_group_of_a_collective_is_named() -> None:
    with pytest.raises(TraceError, match=r"node 2 \(all_gather, group data\) waits for its node 1"):
        build_workload(
            [
                rank_trace(0, [coll(1, "all_reduce"), coll(2, "all_gather", pg="data", deps=[1])]),
                rank_trace(1, [coll(3, "all_gather", pg="data"), coll(4, "all_reduce", deps=[3])]),
            ],
            groups={"data": (0, 1)},
        )
