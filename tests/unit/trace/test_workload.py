"""Ranks of a trace set."""

import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import Workload
from emulator.trace.meaning.workload import DEFAULT_WINDOW, SHOWN_WAITS, build_workload, prove, split_traces
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


def build(*ranks: list[Node]) -> Workload:
    return build_workload([rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)], groups=PAIRS)


def window(*ranks: list[Node], start: int) -> int:
    traces = [rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)]
    workload = split_traces(traces, groups=PAIRS, options=TraceOptions())
    return prove(workload.programs, groups=workload.groups, instances=workload.instances, window=start)


def test_a_send_needs_no_receive_to_be_posted() -> None:
    both = [send(1, 1), coll(2, "barrier", pg="a", deps=[1])], [coll(1, "barrier", pg="a"), recv(2, 0, deps=[1])]
    assert build(*both).window == DEFAULT_WINDOW


def test_canonical_order_across_groups_does_not_bind() -> None:
    opposite = (
        [coll(1, "barrier", pg="a"), coll(2, "barrier", pg="b")],
        [coll(1, "barrier", pg="b"), coll(2, "barrier", pg="a")],
    )
    assert build(*opposite).window == DEFAULT_WINDOW


def test_receives_that_come_early_need_a_window_that_holds_them() -> None:
    count = 10
    early = [*(recv(i, 1, tag=i) for i in range(count)), *(send(50 + i, 1, tag=i) for i in range(count))]
    answering = []
    for i in range(count):
        answering += [recv(2 * i, 0, tag=i), send(2 * i + 1, 0, tag=i, deps=[2 * i])]
    assert window(early, answering, start=1) == 16
    assert window(early, answering, start=11) == 11
    assert window(early, answering, start=3) == 12


def test_ranks_may_come_in_any_order() -> None:
    workload = build_workload([rank_trace(1, [node(1, duration=4)]), rank_trace(0, [])])
    assert [program.rank for program in workload.programs] == [0, 1]
    assert [len(program) for program in workload.programs] == [0, 1]
    assert workload.groups[0].ranks == (0, 1)


@pytest.mark.parametrize(
    ("ranks", "problem"),
    [
        ([], "contains no trace"),
        ([1], "trace.1.et: the trace has rank 1, but no rank 0"),
        ([0, 1, 3], "trace.3.et: the trace has rank 3, but no rank 2"),
        ([0, 10**12], f"trace.{10**12}.et: the trace has rank {10**12}, but no rank 1 and {10**12 - 2} other ranks"),
        ([0, 0], "trace.0.et: is rank 0, as is trace.0.et"),
    ],
)
def test_ranks_must_be_complete(ranks: list[int], problem: str) -> None:
    with pytest.raises(TraceError) as error:
        build_workload([rank_trace(rank, []) for rank in ranks])
    assert str(error.value) == problem
