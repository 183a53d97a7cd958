"""An entry of the Flight Recorder as the operation that it is, in Chakra's terms."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from emulator.annexes.importers.flight_recorder.dumps import Dump, Entry
from emulator.annexes.importers.model import Fate, Losses, RecordedOperation
from emulator.annexes.importers.pytorch.names import collective_kind, element_bytes, squeezed
from emulator.errors import TraceError
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES
from emulator.trace.meaning.model import CommKind

_MESSAGE = re.compile(r"^(send|recv) (\d{1,9})(->|<-)(\d{1,9})$")
_WITHOUT_TRAFFIC = {"split", "newwindow", "coalesced"}
_ROOT_ALONE = {CommKind.GATHER: "output_sizes", CommKind.SCATTER: "input_sizes"}
"""Kinds of which only the root has these tensors."""


def operation_of(dump: Dump, entry: Entry, losses: Losses) -> RecordedOperation | None:
    """The operation; None, and counted, if it moves nothing or cannot be told. Group and root are still open.

    Raises:
        TraceError: a number that no call can have.
    """
    where = dump.where(entry)
    name = entry.profiling_name.rpartition(":")[2]
    kind = _kind(name)
    if kind is None:
        word = squeezed(name)
        is_known = word in _WITHOUT_TRAFFIC or (word.endswith("coalesced") and not entry.input_sizes)
        what = "calls that move nothing" if is_known else f"calls of unknown name {name[:40]!r}"
        losses.count(Fate.MERGED if is_known else Fate.DROPPED, what, where)
        return None
    if entry.profiling_name.endswith("_coalesced") and not entry.input_sizes and kind is not CommKind.BARRIER:
        losses.count(Fate.MERGED, "ends of coalesced groups", where)
        return None
    sent = _bytes(entry.input_sizes, entry.input_dtypes, where)
    received = _bytes(entry.output_sizes, entry.output_dtypes, where)
    size = 0 if kind is CommKind.BARRIER else _size(kind, sent, received)
    if size is None:
        losses.count(Fate.DROPPED, f"{kind.label} with elements of unknown size", where)
        return None
    operation = RecordedOperation(
        where=where, name=kind.label, kind=kind, size_bytes=size, group=entry.process_group[0]
    )
    if not kind.is_collective:
        operation.peer = _peer(kind, name, where)
    if kind is CommKind.ALL_TO_ALL and len(entry.input_sizes) > 1:
        _set_splits(operation, entry)
    return operation


def own_rank(entry: Entry) -> int | None:
    """The rank within the process group that the name of a send or receive states; None: it states none."""
    found = _MESSAGE.search(entry.profiling_name.rpartition(":")[2])
    return int(found[2]) if found else None


def is_root(entry: Entry, kind: CommKind) -> bool:
    """Whether the tensors show that this rank is the root of a gather or scatter."""
    return kind in _ROOT_ALONE and bool(getattr(entry, _ROOT_ALONE[kind]))


def _kind(name: str) -> CommKind | None:
    word = name.partition(" ")[0]
    if squeezed(word) == "allreducebarrier":
        return CommKind.BARRIER
    kind = collective_kind(word)
    while kind is None and "_" in word:  # all_to_all_v_single, reduce_scatter_v, ALLGATHER_coalesced
        word = word.rpartition("_")[0]
        kind = collective_kind(word)
    return kind


def _bytes(shapes: Sequence[Sequence[int]], dtypes: Sequence[str], where: str) -> int | None:
    """Bytes of tensors; None: a type is unknown, or types are not recorded."""
    if not shapes:
        return 0
    if len(dtypes) != len(shapes):
        return None
    total = 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        element = element_bytes(dtype)
        if element is None:
            return None
        if any(not 0 <= one <= MAX_SIZE_BYTES for one in shape) or len(shape) > 64:
            raise TraceError(f"{where}: has a tensor of the shape {list(shape)[:8]}, which no tensor has")
        total += math.prod(shape) * element
    if total > MAX_SIZE_BYTES:
        raise TraceError(f"{where}: has tensors of {total} bytes; the most is {MAX_SIZE_BYTES}")
    return total


def _size(kind: CommKind, sent: int | None, received: int | None) -> int | None:
    """Chakra's comm_size: the input; of a scatter only the root has one, which the others learn from it."""
    if kind is CommKind.RECV:
        return received or sent
    return sent if sent or received is None or kind is CommKind.SCATTER else (sent if sent is None else received)


def _peer(kind: CommKind, name: str, where: str) -> int:
    found = _MESSAGE.search(name)
    arrow = "->" if kind is CommKind.SEND else "<-"
    if not found or found[3] != arrow:
        raise TraceError(
            f"{where}: has the name {name[:40]!r}; a {kind.label} names both ranks ({kind.label} 0{arrow}1)"
        )
    return int(found[4])


def _set_splits(operation: RecordedOperation, entry: Entry) -> None:
    """A list of tensors shows what goes to and comes from each member."""
    parts = [_bytes([shape], [dtype], "") for shape, dtype in zip(entry.input_sizes, entry.input_dtypes, strict=True)]
    arrived = [
        _bytes([shape], [dtype], "") for shape, dtype in zip(entry.output_sizes, entry.output_dtypes, strict=False)
    ]
    if len(parts) == len(arrived) and len({*parts, *arrived}) > 1:
        operation.send_splits = tuple(part or 0 for part in parts)
        operation.recv_splits = tuple(part or 0 for part in arrived)
