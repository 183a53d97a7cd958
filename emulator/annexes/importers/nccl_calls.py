"""Calls of NCCL as NCCL itself names and counts them, in Chakra's terms.

The count of an all-gather or gather is what a rank gives, that of a reduce-scatter or scatter what it gets, that of an
all-to-all what goes to each member. The root of a send or receive is its peer.

Source: NVIDIA/nccl at 5067397: src/nccl.h.in (data types), src/collectives.cc (names).
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.annexes.importers.model import RecordedOperation
from emulator.errors import TraceError
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES
from emulator.trace.meaning.model import CommKind

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
ROOTED = (CommKind.REDUCE, CommKind.BROADCAST, CommKind.GATHER, CommKind.SCATTER)


def nccl_operation(
    kind: CommKind, *, message_bytes: int, ranks: int, root: int | None, where: str, group: str
) -> RecordedOperation:
    """The operation of a call.

    Args:
        message_bytes: count times bytes of an element.
        root: root or peer within the communicator; None: not recorded.

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
        group=group,
        group_size=ranks,
        root=root if root is not None and kind in ROOTED else -1,
        peer=root if root is not None and not kind.is_collective else -1,
    )
