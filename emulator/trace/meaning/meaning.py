"""What one communication node means, as far as its own rank can tell; `pairing` makes the ranks agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from emulator.errors import TraceError
from emulator.trace.meaning import warnings
from emulator.trace.meaning.groups import WORLD, GroupTable
from emulator.trace.meaning.model import CommKind, NodeType, RankTrace, RawCommunication

MAX_SIZE_BYTES = 1 << 50
"""Largest payload taken for real: a petabyte per rank and operation is a broken trace."""

ROOTED = frozenset({CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER, CommKind.BROADCAST})
COLLECTIVE_NUMBERS = range(CommKind.ALL_REDUCE, CommKind.BARRIER + 1)


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How a trace is to be taken.

    Attributes:
        lenient: drop dangling dependencies instead of refusing them.
        element_bytes: bytes per unit of comm_size, for traces that count elements.
        scale_bytes: factor on every payload; a payload of at least a byte keeps at least one.
    """

    lenient: bool = False
    element_bytes: int = 1
    scale_bytes: float | Fraction = 1.0

    def scaled(self, size_bytes: int) -> int:
        """Bytes to play for a recorded payload."""
        if self.scale_bytes == 1 or size_bytes == 0:
            return size_bytes
        # Through its shortest decimal form, so that 0.1 means a tenth and not the nearest binary number.
        return max(1, round(size_bytes * Fraction(str(self.scale_bytes))))


@dataclass(frozen=True, slots=True)
class Meaning:
    """A communication node on its own rank; sizes and splits in bytes, not yet scaled.

    Attributes:
        path, rank, position: whose it is and where in the rank's canonical order.
        root: world rank an attribute names, else None.
        send_splits, recv_splits: as far as the node itself has them.
    """

    path: str
    rank: int
    position: int
    raw: RawCommunication
    kind: CommKind
    group: int
    size_bytes: int
    peer: int = -1
    tag: int = 0
    root: int | None = None
    send_splits: tuple[int, ...] | None = None
    recv_splits: tuple[int, ...] | None = None

    @property
    def label(self) -> str:
        """The node for people."""
        return f"rank {self.rank} node {self.raw.node_id}"

    def error(self, problem: str) -> TraceError:
        """An error at this node."""
        return TraceError(problem, path=self.path, node=self.raw.node_id)


@dataclass(slots=True)
class Interpreter:
    """Settles communication nodes one by one, collecting what is odd in `warnings`."""

    world_size: int
    table: GroupTable
    options: TraceOptions
    warnings: Counter[str] = field(default_factory=Counter)

    def settle(self, trace: RankTrace, raw: RawCommunication, position: int) -> Meaning:
        """The meaning of one node that goes over the network.

        Raises:
            TraceError: it lacks or contradicts what is needed to play it.
        """
        if raw.node_type == NodeType.COMM_COLL:
            return self._collective(trace, raw, position)
        return self._point_to_point(trace, raw, position)

    def _collective(self, trace: RankTrace, raw: RawCommunication, position: int) -> Meaning:
        kind = _collective_kind(trace, raw)
        group = self.table.number(trace, raw)
        ranks = self.table.groups[group].ranks
        send, recv = self._splits(trace, raw, len(ranks)) if kind == CommKind.ALL_TO_ALL else (None, None)
        size = self._collective_size(trace, raw, kind)
        root = _named_root(trace, raw, ranks) if kind in ROOTED else None
        self._count_trivial(kind, size, len(ranks))
        return Meaning(
            trace.path, trace.rank, position, raw, kind, group, size, root=root, send_splits=send, recv_splits=recv
        )

    def _collective_size(self, trace: RankTrace, raw: RawCommunication, kind: CommKind) -> int:
        if kind == CommKind.BARRIER:
            self.warnings[warnings.BARRIER_SIZE] += bool(raw.comm_size)
            return 0
        if raw.comm_size is None and kind == CommKind.ALL_TO_ALL and raw.in_splits:
            self.warnings[warnings.SPLITS_WITHOUT_SIZE] += 1
            return sum(raw.in_splits) * self.options.element_bytes
        return self._size(trace, raw)

    def _size(self, trace: RankTrace, raw: RawCommunication) -> int:
        if raw.comm_size is None:
            raise _error(trace, raw, "has no comm_size, so its payload is unknown")
        size = raw.comm_size * self.options.element_bytes
        if raw.comm_size < 0 or max(size, self.options.scaled(size)) > MAX_SIZE_BYTES:
            raise _error(trace, raw, f"has comm_size {raw.comm_size}, which is not a valid payload")
        return size

    def _splits(
        self, trace: RankTrace, raw: RawCommunication, members: int
    ) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        for what, splits in (("sends", raw.in_splits), ("receives", raw.out_splits)):
            if splits and len(splits) != members:
                raise _error(trace, raw, f"{what} in {len(splits)} splits, but its group has {members} ranks")
        unit = self._split_unit(trace, raw)
        return _split_bytes(trace, raw, raw.in_splits, unit), _split_bytes(trace, raw, raw.out_splits, unit)

    def _split_unit(self, trace: RankTrace, raw: RawCommunication) -> int:
        """Bytes per unit of the splits: as comm_size counts, or rows of a tensor (PyTorch)."""
        total = sum(raw.in_splits or ())
        if not raw.in_splits or raw.comm_size is None or raw.comm_size == total:
            return self.options.element_bytes
        if total <= 0 or raw.comm_size <= 0 or raw.comm_size % total:
            raise _error(trace, raw, f"sends {total} in all by its splits, but comm_size is {raw.comm_size}")
        self.warnings[warnings.SPLITS_IN_ROWS] += 1
        return raw.comm_size // total * self.options.element_bytes

    def _count_trivial(self, kind: CommKind, size: int, members: int) -> None:
        self.warnings[warnings.GROUP_OF_ONE] += members == 1
        self.warnings[warnings.ZERO_SIZE] += size == 0 and kind != CommKind.BARRIER

    def _point_to_point(self, trace: RankTrace, raw: RawCommunication, position: int) -> Meaning:
        is_send = raw.node_type == NodeType.COMM_SEND
        kind = CommKind.SEND if is_send else CommKind.RECV
        peer = _peer(trace, raw, is_send=is_send, world_size=self.world_size)
        tag = raw.tag or 0
        size = self._size(trace, raw)
        return Meaning(trace.path, trace.rank, position, raw, kind, WORLD, size, peer=peer, tag=tag)


def _error(trace: RankTrace, raw: RawCommunication, problem: str) -> TraceError:
    return TraceError(problem, path=trace.path, node=raw.node_id)


def _collective_kind(trace: RankTrace, raw: RawCommunication) -> CommKind:
    if raw.comm_type is None:
        raise _error(trace, raw, "is a collective on the network without comm_type, so its kind is unknown")
    if raw.comm_type not in COLLECTIVE_NUMBERS:
        raise _error(trace, raw, f"has comm_type {raw.comm_type}; collectives are numbered 0 to 9")
    return CommKind(raw.comm_type)


def _named_root(trace: RankTrace, raw: RawCommunication, ranks: Sequence[int]) -> int | None:
    if raw.root is None or raw.root in ranks:
        return raw.root
    hint = " (give a world rank, not an index into the group)" if 0 <= raw.root < len(ranks) else ""
    raise _error(trace, raw, f"names root {raw.root}, which is not in its group{hint}")


def _split_bytes(
    trace: RankTrace, raw: RawCommunication, splits: tuple[int, ...] | None, unit: int
) -> tuple[int, ...] | None:
    for split in splits or ():
        if not 0 <= split * unit <= MAX_SIZE_BYTES:
            raise _error(trace, raw, f"has a split of {split}, which is not a valid payload")
    return tuple(split * unit for split in splits) if splits else None


def _peer(trace: RankTrace, raw: RawCommunication, *, is_send: bool, world_size: int) -> int:
    own, other = (raw.src, raw.dst) if is_send else (raw.dst, raw.src)
    own_name, other_name = ("comm_src", "comm_dst") if is_send else ("comm_dst", "comm_src")
    verb = "sends" if is_send else "receives"
    if other is None:
        raise _error(trace, raw, f"{verb} without {other_name} (traces converted from PyTorch lack it)")
    if own is not None and own != trace.rank:
        raise _error(trace, raw, f"has {own_name} {own}, but belongs to rank {trace.rank}")
    if not 0 <= other < world_size:
        raise _error(trace, raw, f"has {other_name} {other}, but the trace has ranks 0 to {world_size - 1}")
    if other == trace.rank:
        raise _error(trace, raw, f"{verb} {'to' if is_send else 'from'} its own rank {other}")
    return other
