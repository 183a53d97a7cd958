"""What every importer delivers: the nodes of each rank, with communication in the terms of Chakra, and its losses.

An importer is a format, recognised by the first bytes of its files, and its reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from pathlib import Path
from typing import Protocol

from emulator.annexes.importers.documents import source_heads
from emulator.trace.meaning.model import CommKind

SHOWN_PLACES = 3
"""Of the records with the same fate."""


class Fate(StrEnum):
    """What became of a record.

    Mapped to a node; merged into nodes or dependencies; dropped. Inferred: an order that times or records show without
    saying it. Guessed: a fact about traffic that is not recorded.
    """

    MAPPED = "mapped"
    MERGED = "merged"
    DROPPED = "dropped"
    INFERRED = "inferred"
    GUESSED = "guessed"


@dataclass(slots=True)
class Tally:
    """A number of records with the same fate, and where the first of them are."""

    count: int = 0
    first: list[str] = field(default_factory=list)


class Losses:
    """Counts of records by fate, of inferences and of guesses."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[Fate, str], Tally] = {}

    def count(self, fate: Fate, what: str, where: str = "", *, number: int = 1) -> None:
        """Count records.

        Args:
            what: kind of record, and for all but mapped ones the reason.
            where: file and record of the first of them.
        """
        if number:
            tally = self._tallies.setdefault((fate, what), Tally())
            tally.count += number
            if where and len(tally.first) < SHOWN_PLACES:
                tally.first.append(where)

    def guess_root(self, kind: CommKind, where: str) -> None:
        """Count that the root of a collective is not recorded."""
        self.count(Fate.GUESSED, f"root of a {kind.label}: the first rank of the group", where)

    def add(self, other: Losses) -> None:
        """Add the counts of another rank or file."""
        for (fate, what), tally in other._tallies.items():
            mine = self._tallies.setdefault((fate, what), Tally())
            mine.count += tally.count
            mine.first += tally.first[: SHOWN_PLACES - len(mine.first)]

    def __iter__(self) -> Iterator[tuple[Fate, str, Tally]]:
        order = list(Fate)
        for fate, what in sorted(self._tallies, key=lambda one: (order.index(one[0]), one[1])):
            yield fate, what, self._tallies[fate, what]

    def number(self, fate: Fate) -> int:
        """Records with this fate."""
        return sum(tally.count for one, _, tally in self if one is fate)

    def to_plain(self) -> Mapping[str, Mapping[str, Mapping[str, object]]]:
        """Fate → what → count and first places."""
        plain: dict[str, dict[str, Mapping[str, object]]] = {fate.value: {} for fate in Fate}
        for fate, what, tally in self:
            plain[fate.value][what] = {"count": tally.count, "first": tally.first}
        return plain


@dataclass(slots=True)
class RecordedOperation:
    """A communication operation as one rank issued it.

    Attributes:
        where: file and record, for messages.
        size_bytes: Chakra's comm_size: input bytes per rank; of a scatter, the root's; 0 if only the root knows it.
        group: name of the process group; None if the source does not name it.
        ranks: world ranks of the group if the operation lists them.
        group_size: number of ranks in the group; None: the operation does not say it.
        send_splits, recv_splits: all-to-all: bytes to and from each member; None: even.
        open_splits: why one that is None may not be even, "not recorded": what the other members say decides.
        root, peer: rank within the group, -1: none or unknown.
        peer_in_world: world rank of the peer, where the source says that instead; -1: it does not.
        is_from_any: a receive from whichever rank sends.
        reads, writes: storages of the tensors.
        handle: what tells process groups without a name apart in the records of this rank.
        input_bytes, output_bytes: of this rank, if they are recorded: they show whether shards are equal.
        candidates: world ranks of the process groups that it may be in, () for all; empty: that is settled.
    """

    where: str
    name: str
    kind: CommKind
    size_bytes: int
    group: str | None = None
    ranks: tuple[int, ...] | None = None
    group_size: int | None = None
    send_splits: tuple[int, ...] | None = None
    recv_splits: tuple[int, ...] | None = None
    open_splits: str = ""
    root: int = -1
    peer: int = -1
    peer_in_world: int = -1
    is_from_any: bool = False
    tag: int = 0
    is_guess: bool = False
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    handle: object = None
    candidates: tuple[tuple[int, ...], ...] = ()
    input_bytes: int | None = field(default=None, repr=False)
    output_bytes: int | None = field(default=None, repr=False)

    @property
    def shown_group_size(self) -> int:
        """Ranks of the process group, as recorded, or by what goes in and comes out; 0: neither tells it."""
        if self.group_size or self.kind not in (CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER):
            return self.group_size or 0
        one, whole = sorted((self.size_bytes, self.output_bytes or 0))
        is_gather = self.kind is CommKind.ALL_GATHER
        is_larger = (self.output_bytes or 0) > self.size_bytes
        return whole // one if one and is_gather is is_larger and one < whole and whole % one == 0 else 0


class NodeResource(Enum):
    """What a node occupies."""

    CPU = "cpu"
    DEVICE = "device"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class ImportedNode:
    """A node of a rank. Dependencies have smaller ids.

    Attributes:
        start_ns, duration_ns: as recorded; start from the beginning of the rank's trace.
        operation: of a node on the network.
    """

    node_id: int
    name: str
    place: NodeResource
    deps: tuple[int, ...] = ()
    start_ns: int = 0
    duration_ns: int = 0
    operation: RecordedOperation | None = None


class NodeList:
    """The nodes of a rank one after the other, without times of their start; what becomes of records is counted."""

    def __init__(self) -> None:
        self.nodes: list[ImportedNode] = []
        self.losses = Losses()

    def add(self, name: str, place: NodeResource, deps: tuple[int, ...], duration_ns: int) -> int:
        """Add compute, or a wait; returns its id."""
        self.nodes.append(ImportedNode(len(self.nodes) + 1, name, place, deps, duration_ns=duration_ns))
        return len(self.nodes)

    def issue(self, operation: RecordedOperation, deps: tuple[int, ...]) -> int:
        """Add a communication; returns its id."""
        number = len(self.nodes) + 1
        self.nodes.append(ImportedNode(number, operation.name, NodeResource.NETWORK, deps, operation=operation))
        return number


@dataclass(slots=True)
class ImportedRank:
    """What was read of one rank.

    Attributes:
        files: names of the files it came from.
        mode: which of its files were used: host and Kineto, Kineto, or host.
        world_size: number of ranks of the job if the source says so, else 0.
        groups: process group → world ranks; () stands for all ranks.
        nodes: ascending ids.
    """

    rank: int
    files: Sequence[str]
    mode: str
    world_size: int
    groups: Mapping[str, tuple[int, ...]]
    nodes: Collection[ImportedNode]
    losses: Losses = field(default_factory=Losses)

    @property
    def operations(self) -> list[RecordedOperation]:
        """In the order in which they were issued."""
        known: list[RecordedOperation] | None = getattr(self.nodes, "operations", None)
        return known or [node.operation for node in self.nodes if node.operation is not None]


@dataclass(frozen=True, slots=True)
class ImportedTrace:
    """All ranks of a job, those that were found.

    Attributes:
        source: as the user named it.
        missing: ranks of the job that no file belongs to.
    """

    source: Path
    format: str
    ranks: Sequence[ImportedRank]
    missing: Sequence[int]
    losses: Losses

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return len(self.ranks) + len(self.missing)

    @classmethod
    def of(
        cls,
        source: Path,
        source_format: str,
        ranks: Sequence[int],
        make: Callable[[int], ImportedRank],
        *,
        world_size: int,
        losses: Losses,
        on_rank: Callable[[int, int], None] | None,
    ) -> ImportedTrace:
        """The trace of a job whose ranks are made one by one; what was counted of each is added to `losses`.

        Args:
            on_rank: called with (ranks made, ranks to make) after each.
        """
        made: list[ImportedRank] = []
        for rank in ranks:
            made.append(make(rank))
            losses.add(made[-1].losses)
            if on_rank is not None:
                on_rank(len(made), len(ranks))
        missing = sorted(set(range(world_size)) - set(ranks))
        return cls(source, source_format, made, missing, losses)


class Reader(Protocol):
    """Reads the traces of a job."""

    def __call__(
        self, path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
    ) -> ImportedTrace:
        """Read a folder, an archive or a file.

        Args:
            ranks: how many ranks the user asks for: only a source that says nothing of them needs it.
            on_rank: called with (ranks read, ranks in all).

        Raises:
            TraceError: it cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Version:
    """A version that files carry: what refuses to be read in another one may be the fault of the reader.

    Attributes:
        what: whose version, for messages.
        pattern: of it in the first bytes of a file.
        known: those that the reader was written for.
    """

    what: str
    pattern: re.Pattern[bytes]
    known: Sequence[str]


@dataclass(frozen=True, slots=True)
class Importer:
    """A format.

    Attributes:
        is_head: whether a document that begins with these bytes is of this format.
        versions: that its files carry.
    """

    name: str
    title: str
    is_head: Callable[[bytes], bool]
    read: Reader
    versions: Sequence[Version] = ()

    def other_version(self, path: Path) -> str:
        """ " (what; known: …)" of a source in a version that this reader does not know, else ""."""
        for head in source_heads(path):
            for one in self.versions if self.is_head(head) else ():
                found = {version.decode("utf-8", "replace") for version in one.pattern.findall(head)}
                if other := sorted(found.difference(one.known)):
                    return f" ({one.what} {other[0]}; known: {', '.join(one.known)})"
        return ""
