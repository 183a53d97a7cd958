"""From the calls that a source recorded in a rank to a graph: when each was issued, and what it waited for.

Calls on one stream follow each other. With times, a CPU node is the time that passed between two calls; if an earlier
call ended in between, the time counts from there, because the process may have waited for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from emulator.annexes.importers.model import Fate, ImportedNode, Losses, NodeResource, RecordedOperation
from emulator.errors import TraceError
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES, ROOTED
from emulator.trace.meaning.model import CommKind

LONGEST_TRACE_NS = 366 * 24 * 3600 * 1_000_000_000
"""A trace of more than a year is a damaged file."""


@dataclass(slots=True)
class RecordedCall:
    """A call as a source recorded it.

    Attributes:
        stream: calls with the same one follow each other.
        number: sequence number in the process group; None: none is recorded.
        batch: adjacent calls of a stream with the same one are issued together; None: issued alone.
        start_ns: when it was issued; None: not recorded.
        end_ns: when it was known to be done; None: not recorded, or it was not done.
        duration_ns: as recorded; 0: not recorded.
    """

    operation: RecordedOperation
    stream: Hashable = None
    number: int | None = None
    batch: Hashable = None
    start_ns: int | None = None
    end_ns: int | None = None
    duration_ns: int = 0


def issue_nodes(calls: Sequence[RecordedCall], losses: Losses) -> list[ImportedNode]:
    """The nodes of a rank.

    Args:
        calls: in the order in which they were issued, unless all have times.

    Raises:
        TraceError: times are more than a year apart.
    """
    if calls and all(call.start_ns is not None for call in calls):
        calls = sorted(calls, key=_start_ns)
        if _start_ns(calls[-1]) - _start_ns(calls[0]) > LONGEST_TRACE_NS:
            raise TraceError(f"{calls[-1].operation.where}: was issued more than a year after the first call")
        return _Timed(losses).nodes_of(calls)
    return list(_untimed(calls))


def _start_ns(call: RecordedCall) -> int:
    assert call.start_ns is not None
    return call.start_ns


def _batches(calls: Sequence[RecordedCall]) -> Iterator[list[RecordedCall]]:
    def key(numbered: tuple[int, RecordedCall]) -> Hashable:
        at, call = numbered
        return (None, at) if call.batch is None else (call.stream, call.batch)

    for _, batch in groupby(enumerate(calls), key=key):
        yield [call for _, call in batch]


def _untimed(calls: Sequence[RecordedCall]) -> Iterator[ImportedNode]:
    last: dict[Hashable, tuple[int, ...]] = {}
    number = 0
    for batch in _batches(calls):
        deps = last.get(batch[0].stream, ())
        ids = tuple(range(number + 1, number + 1 + len(batch)))
        for number, call in zip(ids, batch, strict=True):
            yield _node(number, call, deps, start_ns=0)
        last[batch[0].stream] = ids


class _Timed:
    """Builds the nodes of calls with times."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._nodes: list[ImportedNode] = []
        self._last: dict[Hashable, tuple[int, ...]] = {}
        self._unfinished: list[tuple[int, int]] = []  # (end_ns, node id)
        self._cpu: tuple[int, ...] = ()

    def nodes_of(self, calls: Sequence[RecordedCall]) -> list[ImportedNode]:
        begin_ns = issued_ns = _start_ns(calls[0])
        for batch in _batches(calls):
            start_ns = _start_ns(batch[0])
            after = self._gap(issued_ns, start_ns, begin_ns, batch[0])
            deps = tuple(sorted({*after, *self._last.get(batch[0].stream, ())}))
            first = len(self._nodes) + 1
            for number, call in enumerate(batch, first):
                self._nodes.append(_node(number, call, deps, start_ns=_start_ns(call) - begin_ns))
                if call.end_ns is not None:
                    self._unfinished.append((call.end_ns, number))
            self._last[batch[0].stream] = tuple(range(first, first + len(batch)))
            issued_ns = start_ns
        return self._nodes

    def _gap(self, issued_ns: int, start_ns: int, begin_ns: int, call: RecordedCall) -> tuple[int, ...]:
        """A CPU node for the time since the last call, or since one ended; returns what the next call depends on."""
        ended = [one for one in self._unfinished if one[0] <= start_ns]
        self._unfinished = [one for one in self._unfinished if one[0] > start_ns]
        latest_ns, waited = max(ended, default=(issued_ns, 0))
        deps = set(self._cpu)
        if waited and latest_ns > issued_ns:
            deps.add(waited)
            issued_ns = latest_ns
            what = "a call waited for one that ended before it"
            self._losses.count(Fate.INFERRED, what, call.operation.where)
        after = tuple(sorted(deps))
        if start_ns > issued_ns:
            number = len(self._nodes) + 1
            gap_ns = start_ns - issued_ns
            self._nodes.append(
                ImportedNode(number, "time between calls", NodeResource.CPU, after, issued_ns - begin_ns, gap_ns)
            )
            self._cpu = (number,)
            return self._cpu
        self._cpu = after
        return after


def _node(number: int, call: RecordedCall, deps: tuple[int, ...], *, start_ns: int) -> ImportedNode:
    return ImportedNode(
        number, call.operation.name, NodeResource.NETWORK, deps, start_ns, call.duration_ns, operation=call.operation
    )


DATATYPE_BYTES: Mapping[int, int] = dict(enumerate((1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)))
"""Number of ncclDataType_t → bytes of an element."""
KINDS: Mapping[str, CommKind] = {
    "AllReduce": CommKind.ALL_REDUCE,
    "Reduce": CommKind.REDUCE,
    "Broadcast": CommKind.BROADCAST,
    "AllGather": CommKind.ALL_GATHER,
    "ReduceScatter": CommKind.REDUCE_SCATTER,
    "AlltoAll": CommKind.ALL_TO_ALL,
    "All2All": CommKind.ALL_TO_ALL,
    "Gather": CommKind.GATHER,
    "Scatter": CommKind.SCATTER,
    "Send": CommKind.SEND,
    "Recv": CommKind.RECV,
}
_TIMES_RANKS = (CommKind.REDUCE_SCATTER, CommKind.SCATTER, CommKind.ALL_TO_ALL)


def nccl_operation(
    kind: CommKind,
    *,
    message_bytes: int,
    ranks: int,
    root: int | None,
    where: str,
    communicator: Hashable,
    members: tuple[int, ...],
) -> RecordedOperation:
    """The operation of a call in a communicator.

    Args:
        message_bytes: count times bytes of an element.
        root: root or peer within the communicator; None: not recorded.
        members: world ranks of the communicator, () for all.

    Raises:
        TraceError: a number that no call can have.
    """
    size_bytes = message_bytes * ranks if kind in _TIMES_RANKS else message_bytes
    if not 0 <= size_bytes <= MAX_SIZE_BYTES:
        raise TraceError(f"{kind.label} of {size_bytes} bytes, which is outside 0 to {MAX_SIZE_BYTES}", path=where)
    if root is not None and not kind.is_collective and not 0 <= root < ranks:
        raise TraceError(f"peer {root} is not a rank of a communicator of {ranks} ranks", path=where)
    if root is not None and kind in ROOTED and not 0 <= root < ranks:
        raise TraceError(f"root {root} is not a rank of a communicator of {ranks} ranks", path=where)
    return RecordedOperation(
        where=where,
        name=kind.label,
        kind=kind,
        size_bytes=size_bytes,
        group=str(communicator) if members else "",
        ranks=members,
        group_size=ranks,
        root=root if root is not None and kind in ROOTED else -1,
        peer=root if root is not None and not kind.is_collective else -1,
    )


def is_to_itself(operation: RecordedOperation, rank: int, losses: Losses) -> bool:
    """Whether an operation is a message of a world rank to itself, which is counted: it crosses no network."""
    peer = operation.ranks[operation.peer] if operation.ranks else operation.peer
    if operation.kind.is_collective or peer != rank:
        return False
    losses.count(Fate.DROPPED, "messages of a rank to itself", operation.where)
    return True
