"""A workload of one collective, repeated."""

import pytest

from emulator.annexes.workloads.collective_loop import CollectiveLoop, collective_workload
from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind


def test_every_collective_waits_for_the_previous_one() -> None:
    workload = collective_workload(CollectiveLoop(kind=CommKind.ALL_REDUCE, ranks=4, size_bytes=64, count=3))
    nodes = list(workload.nodes(2))
    assert [(node.kind, node.size_bytes, node.deps) for node in nodes] == [
        (CommKind.ALL_REDUCE, 64, ()),
        (CommKind.ALL_REDUCE, 64, (1,)),
        (CommKind.ALL_REDUCE, 64, (2,)),
    ]
    assert workload.totals.nodes == 12
    assert [(entry.operations, entry.total_bytes) for entry in workload.totals.traffic] == [(3, 768)]


def test_a_gap_is_compute_time_before_each_collective() -> None:
    loop = CollectiveLoop(kind=CommKind.BROADCAST, ranks=2, size_bytes=8, count=2, compute_micros=50)
    workload = collective_workload(loop)
    assert [node.duration_micros for node in workload.nodes(0)] == [50, 0, 50, 0]
    assert [node.deps for node in workload.nodes(0)] == [(), (1,), (2,), (3,)]
    assert (workload.totals.nodes, workload.totals.compute_nodes, workload.totals.compute_micros) == (8, 4, 200)


@pytest.mark.parametrize(
    ("kind", "ranks", "size_bytes", "count", "message"),
    [
        (CommKind.SEND, 2, 8, 1, "send is not a collective"),
        (CommKind.ALL_REDUCE, 0, 8, 1, "1 collectives of 0 ranks: both numbers must be at least 1"),
        (CommKind.ALL_REDUCE, 2, 8, 0, "0 collectives of 2 ranks: both numbers must be at least 1"),
        (CommKind.ALL_REDUCE, 2, 2**63, 1, "the size is 9223372036854775808 bytes: it must be 0 to"),
        (CommKind.ALL_GATHER, 3, 64, 1, "all_gather of 64 bytes does not divide into equal shards for 3 ranks"),
    ],
)
def test_impossible_numbers_are_refused(kind: CommKind, ranks: int, size_bytes: int, count: int, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        CollectiveLoop(kind=kind, ranks=ranks, size_bytes=size_bytes, count=count)


@pytest.mark.parametrize("gap", [-1, 1 << 64])
def test_a_gap_beyond_the_limit_of_a_trace_is_refused(gap: int) -> None:
    with pytest.raises(PlanError, match=f"the gap is {gap} microseconds: it must be 0 to"):
        CollectiveLoop(kind=CommKind.BARRIER, ranks=2, size_bytes=0, compute_micros=gap)
