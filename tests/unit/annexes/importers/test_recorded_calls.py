"""From recorded calls to a graph: what follows what, and how long nothing was called."""

import pytest

from emulator.annexes.importers.model import Fate, ImportedNode, Losses, NodeResource, RecordedOperation
from emulator.annexes.importers.recorded_calls import LONGEST_TRACE_NS, RecordedCall, issue_nodes
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind


def call(start: int | None = None, *, end: int | None = None, stream: object = 0, batch: object = None) -> RecordedCall:
    operation = RecordedOperation(where="here", name="all_reduce", kind=CommKind.ALL_REDUCE, size_bytes=8)
    return RecordedCall(operation, stream=stream, batch=batch, start_ns=start, end_ns=end)  # type: ignore[arg-type]


def shape(nodes: list[ImportedNode]) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(one.place.value, one.duration_ns, one.deps) for one in nodes]


@pytest.mark.parametrize(
    ("calls", "deps"),
    [
        ([call(stream="a"), call(stream="b"), call(stream="a")], [(), (), (1,)]),
        ([call(), call(batch=1), call(batch=1), call(batch=2), call()], [(), (1,), (1,), (2, 3), (4,)]),
        ([call(5), call(), call(9)], [(), (1,), (2,)]),  # one without a time makes all untimed
    ],
    ids=["a stream", "batches are issued and awaited together", "one without a time"],
)
def test_without_times_calls_of_a_stream_follow_each_other(
    calls: list[RecordedCall], deps: list[tuple[int, ...]]
) -> None:
    nodes = issue_nodes(calls, Losses())
    assert [one.deps for one in nodes] == deps
    assert {one.place for one in nodes} == {NodeResource.NETWORK}


def test_a_gap_is_time_on_the_cpu() -> None:
    assert shape(issue_nodes([call(100), call(150, stream=1), call(150, stream=2)], Losses())) == [
        ("network", 0, ()),
        ("cpu", 50, ()),
        ("network", 0, (2,)),
        ("network", 0, (2,)),
    ]


def test_a_call_that_ended_in_between_may_have_been_awaited() -> None:
    losses = Losses()
    nodes = issue_nodes([call(0, end=30), call(10, end=90, stream=1), call(50, stream=2)], losses)
    assert shape(nodes) == [
        ("network", 0, ()),
        ("cpu", 10, ()),
        ("network", 0, (2,)),
        ("cpu", 20, (1, 2)),  # from the end of the first call
        ("network", 0, (4,)),
    ]
    assert losses.number(Fate.INFERRED) == 1


def test_calls_are_sorted_by_time() -> None:
    assert [one.start_ns for one in issue_nodes([call(30), call(10)], Losses()) if one.operation] == [0, 20]


def test_more_than_a_year_is_refused() -> None:
    with pytest.raises(TraceError, match="here: was issued more than a year after the first call"):
        issue_nodes([call(0), call(LONGEST_TRACE_NS + 1)], Losses())
