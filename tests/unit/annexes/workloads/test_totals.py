"""Totals of traffic."""

from collections.abc import Iterator

import pytest

from emulator.annexes.workloads.collective_loop import CollectiveLoop
from emulator.annexes.workloads.totals import GroupRole, SyntheticWorkload, WorkloadTotals, WorkloadTraffic
from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import LARGEST_JOB_NODES, WorkNode


def test_every_member_of_an_operation_has_a_node() -> None:
    traffic = WorkloadTraffic(GroupRole.TENSOR, CommKind.ALL_REDUCE, 100, group_size=4, operations=3)
    assert (traffic.nodes, traffic.total_bytes) == (12, 1200)


def test_a_workload_counts_what_is_written_and_generates_the_rest() -> None:
    generated = []

    def nodes(rank: int) -> Iterator[WorkNode]:
        generated.append(rank)
        yield WorkNode(1, "compute", duration_micros=5)
        yield WorkNode(2, "reduce", (1,), kind=CommKind.ALL_REDUCE, size_bytes=8, group=1 + rank // 2)
        yield WorkNode(3, "send", (2,), kind=CommKind.SEND, size_bytes=1 + rank, peer=(rank + 1) % 4)

    workload = SyntheticWorkload(
        name="w",
        ranks=4,
        groups={1: (0, 1), 2: (2, 3)},
        nodes=nodes,
        parameters={},
        role=lambda _, node: GroupRole.DATA if node.group else GroupRole.KEY_VALUE,
    )
    for rank in (0, 1):
        list(workload.nodes(rank))
    reduced = WorkloadTraffic(GroupRole.DATA, CommKind.ALL_REDUCE, 8, group_size=2, operations=2)
    sent = WorkloadTraffic.uneven(GroupRole.KEY_VALUE, CommKind.SEND, 1, 4, 1 + 2 + 3 + 4)
    assert workload.totals == WorkloadTotals(4, 12, 4, 20, (reduced, sent))
    assert workload.totals == workload.totals
    assert generated == [0, 1, 2, 3]


def test_a_loop_too_large_to_be_prepared_is_refused() -> None:
    with pytest.raises(PlanError, match="at most 20,000,000"):
        CollectiveLoop(kind=CommKind.BARRIER, ranks=LARGEST_JOB_NODES // 2, count=3)
