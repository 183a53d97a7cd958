"""A call of a collective library as PyTorch recorded it, and the operation that it is in Chakra's terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from emulator.annexes.importers.model import Fate, Losses, RecordedOperation
from emulator.annexes.importers.pytorch.names import LARGEST_WORLD, collective_kind, is_from_any
from emulator.errors import TraceError
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES
from emulator.trace.meaning.model import CommKind

LARGEST_TAG = (1 << 31) - 1
"""Tags have 32 bits in Chakra."""
_OWN_KINDS = {CommKind.SEND, CommKind.RECV}


@dataclass(slots=True)
class Call:
    """What one record says of a call; None: it does not say.

    Attributes:
        name: of the collective, as recorded.
        where: file and record.
        sent_bytes, received_bytes: of all input and output tensors of this rank.
        sent_elements: of each input tensor, where the type of the elements is not recorded.
        group: name of the process group.
        handle: what tells unnamed process groups apart.
        group_size, ranks: of the process group.
        send_splits, recv_splits: as recorded: rows, elements or bytes; empty: even.
        root, peer: rank within the group.
        peer_in_world: world rank of the peer.
        own_rank: of this process within the group.
        reads, writes: storages of the tensors.
    """

    name: str
    where: str
    sent_bytes: int | None = None
    received_bytes: int | None = None
    sent_elements: tuple[int, ...] | None = None
    group: str | None = None
    handle: object = None
    group_size: int | None = None
    ranks: tuple[int, ...] | None = None
    send_splits: tuple[int, ...] | None = None
    recv_splits: tuple[int, ...] | None = None
    root: int | None = None
    peer: int | None = None
    peer_in_world: int | None = None
    tag: int | None = None
    own_rank: int | None = None
    reads: frozenset[int] | None = None
    writes: frozenset[int] | None = None

    def completed_by(self, other: Call) -> Call:
        """This call, with what another record of it says in addition."""
        merged = {one.name: getattr(self, one.name) for one in fields(self)}
        for name, value in merged.items():
            theirs = getattr(other, name)
            if value is None or (value in ((), frozenset()) and theirs):
                merged[name] = theirs
        return Call(**merged)

    @property
    def kind(self) -> CommKind | None:
        """None: not a collective that is known."""
        return collective_kind(self.name)


def operation_of(call: Call, losses: Losses) -> RecordedOperation | None:
    """The operation that a call is; None, and counted as dropped, if its size or its peer is unknown.

    Raises:
        TraceError: it has a number that no call can have.
    """
    kind = call.kind
    assert kind is not None
    _check(call)
    size = _size_bytes(call, kind)
    if size is None:
        losses.count(Fate.DROPPED, f"{kind.label} of unknown size", call.where)
        return None
    from_any = kind is CommKind.RECV and is_from_any(call.name)
    if kind in _OWN_KINDS and not from_any and max(_or_unknown(call.peer), _or_unknown(call.peer_in_world)) < 0:
        losses.count(Fate.DROPPED, f"{kind.label} whose peer is not recorded", call.where)
        return None
    if kind in (CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER) and call.root is None:
        losses.count(Fate.GUESSED, f"root of a {kind.label}: the first rank of the group", call.where)
    send, recv = _splits(call, size, losses) if kind is CommKind.ALL_TO_ALL else (None, None)
    return RecordedOperation(
        where=call.where,
        name=call.name,
        kind=kind,
        size_bytes=size,
        group=call.group,
        ranks=call.ranks,
        group_size=call.group_size or _size_of_group(call, kind),
        send_splits=send,
        recv_splits=recv,
        root=_or_unknown(call.root),
        peer=_or_unknown(call.peer),
        peer_in_world=_or_unknown(call.peer_in_world),
        is_from_any=from_any,
        tag=call.tag or 0,
        reads=call.reads or frozenset(),
        writes=call.writes or frozenset(),
        handle=call.handle,
    )


def _or_unknown(rank: int | None) -> int:
    return -1 if rank is None else rank


def _check(call: Call) -> None:
    sizes = {
        "size": (call.sent_bytes, call.received_bytes),
        "split": (call.send_splits or ()) + (call.recv_splits or ()),
    }
    small = {"root": (call.root,), "peer": (call.peer, call.peer_in_world), "tag": (call.tag,)}
    for what, values, least, most in (
        *((what, values, 0, MAX_SIZE_BYTES) for what, values in sizes.items()),
        *((what, values, -1, LARGEST_TAG) for what, values in small.items()),
        ("group size", (call.group_size,), 0, LARGEST_WORLD),
    ):
        for value in values:
            if value is not None and not least <= value <= most:
                raise TraceError(f"{call.where}: {what} {value} of a {call.name[:40]!r} is outside {least} to {most}")


def _size_bytes(call: Call, kind: CommKind) -> int | None:
    """Chakra's comm_size."""
    if kind is CommKind.BARRIER:
        return 0
    if kind is CommKind.SCATTER:  # only the root has an input; the others learn the size from it
        return call.sent_bytes or 0
    if kind is CommKind.RECV:
        return call.received_bytes if call.received_bytes is not None else call.sent_bytes
    if kind is CommKind.BROADCAST and call.sent_bytes is None:
        return call.received_bytes
    return call.sent_bytes


def _size_of_group(call: Call, kind: CommKind) -> int:
    """Ranks of the process group by what goes in and comes out; 0: that does not tell it."""
    one, all_of_them = call.sent_bytes or 0, call.received_bytes or 0
    if kind is CommKind.REDUCE_SCATTER:
        one, all_of_them = all_of_them, one
    elif kind is not CommKind.ALL_GATHER:
        return 0
    return all_of_them // one if 0 < one < all_of_them and all_of_them % one == 0 else 0


def _splits(call: Call, size: int, losses: Losses) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Bytes to and from each member, None if they are even."""
    if call.send_splits is None or call.recv_splits is None:
        losses.count(Fate.GUESSED, "splits of an all_to_all are not recorded: even", call.where)
        return None, None
    if not call.send_splits and not call.recv_splits:
        return None, None
    received = call.received_bytes
    rows: int = sum(call.send_splits)
    if received is None and rows and call.recv_splits:
        received = size * sum(call.recv_splits) // rows
    members = len(call.send_splits or call.recv_splits)  # [] stands for equal parts
    send = scaled(call.send_splits or (1,) * members, size)
    recv = None if received is None else scaled(call.recv_splits or (1,) * members, received)
    if send is None or recv is None or len(send) != len(recv):
        losses.count(Fate.GUESSED, "splits of an all_to_all do not fit its tensors: even", call.where)
        return None, None
    return (None, None) if len({*send, *recv}) == 1 else (send, recv)


def scaled(splits: Sequence[int] | None, total_bytes: int) -> tuple[int, ...] | None:
    """Splits in rows or elements as bytes; None if there are none, or if they do not divide the bytes."""
    if not splits or min(splits) < 0:
        return None
    rows = sum(splits)
    if rows == 0:
        return tuple(splits) if total_bytes == 0 else None
    if total_bytes % rows:
        return None
    return tuple(one * (total_bytes // rows) for one in splits)
