"""Deadlocks are told in words, and windows grow as far as a trace needs."""

from __future__ import annotations

import pytest

from emulator.errors import TraceError
from emulator.trace.critical_path import longest_path_ns, traced_ns
from emulator.trace.model import Workload
from emulator.trace.proof import DEFAULT_WINDOW, prove
from emulator.trace.workload import TraceOptions, build_workload, split_traces
from tests.support.traces import Node, coll, node, rank_trace, recv, send

PAIRS = {"a": (0, 1), "b": (0, 1)}


def build(*ranks: list[Node]) -> Workload:
    return build_workload([rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)], groups=PAIRS)


def window(*ranks: list[Node], start: int) -> int:
    traces = [rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)]
    workload = split_traces(traces, groups=PAIRS, options=TraceOptions())
    return prove(workload.programs, groups=workload.groups, instances=workload.instances, window=start)


def deadlock(*ranks: list[Node]) -> str:
    with pytest.raises(TraceError) as error:
        build(*ranks)
    return str(error.value).removeprefix("the run could never finish, because its ranks wait for each other: ")


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


def test_critical_path_takes_the_slowest_member_and_the_shortest_recorded_duration() -> None:
    workload = build(
        [node(1, duration=5), coll(2, "all_reduce", duration=30, deps=[1]), node(3, duration=2, deps=[2])],
        [node(1, duration=20), coll(2, "all_reduce", duration=10, deps=[1]), node(3, duration=1, deps=[2])],
    )
    assert longest_path_ns(workload, communication_ns=[0]) == 22_000
    assert longest_path_ns(workload, communication_ns=traced_ns(workload)) == 32_000


def test_critical_path_of_a_message() -> None:
    workload = build(
        [node(1, duration=5), send(2, 1, duration=7, deps=[1])],
        [recv(2, 0), node(3, duration=3, deps=[2])],
    )
    assert longest_path_ns(workload, communication_ns=[100]) == 5_000 + 100 + 3_000
    assert traced_ns(workload).tolist() == [7_000]
