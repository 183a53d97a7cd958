"""Ranks of a trace set."""

from __future__ import annotations

import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import node, rank_trace


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
