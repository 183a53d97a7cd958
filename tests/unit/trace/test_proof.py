"""What finishes is proven to, and windows grow as far as a trace needs."""

from __future__ import annotations

from emulator.trace.meaning.model import Workload
from emulator.trace.meaning.proof import DEFAULT_WINDOW, prove
from emulator.trace.meaning.workload import TraceOptions, build_workload, split_traces
from tests.support.traces import Node, coll, rank_trace, recv, send

PAIRS = {"a": (0, 1), "b": (0, 1)}


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
