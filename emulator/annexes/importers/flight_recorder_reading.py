"""From the Flight Recorder's dumps of a job to the nodes of its ranks."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from emulator.annexes.importers.alignment import LossesOfRanks, assemble
from emulator.annexes.importers.flight_recorder_dumps import Dump, Entry, is_flight_recorder, read_dump
from emulator.annexes.importers.model import Fate, ImportedTrace, Importer, Losses, RecordedOperation, Version
from emulator.annexes.importers.pytorch.call import LARGEST_WORLD, collective_kind, element_bytes, squeezed
from emulator.annexes.importers.recorded_calls import RecordedCall
from emulator.annexes.importers.text_files import files_of_format
from emulator.errors import TraceError
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES
from emulator.trace.meaning.model import CommKind

NAME = "flight-recorder"
_DEFAULT_GROUP = ("0", "default_pg")
_NS_PER_MS = 1_000_000


def read_flight_recorder(
    path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
) -> ImportedTrace:
    """Read the dumps of a folder, or one.

    Args:
        ranks: not needed: the dumps say it.

    Raises:
        TraceError: there is none, one cannot be read, or they contradict each other.
    """
    dumps = list(map(read_dump, files_of_format(path, is_flight_recorder)))
    if not dumps:
        raise TraceError("holds no dump of PyTorch's Flight Recorder", path=path)
    losses: LossesOfRanks = defaultdict(Losses)
    by_rank = _by_rank(dumps)
    world_size = max(max(one.world_size for one in dumps), max(by_rank) + 1)
    job = _Job(by_rank, world_size, losses)
    calls = {rank: job.calls_of(rank) for rank in by_rank}
    return assemble(
        path,
        calls,
        source_format=NAME,
        mode="flight recorder",
        world_size=world_size,
        files={rank: [dump.name] for rank, dump in by_rank.items()},
        losses=Losses(),
        losses_of=losses,
        on_rank=on_rank,
        without_beginning=job.without_beginning,
    )


def _by_rank(dumps: Sequence[Dump]) -> dict[int, Dump]:
    """Dumps by rank: the one that its messages state, else the one that its file name ends with."""
    found: dict[int, Dump] = {}
    for dump in dumps:
        rank = _rank_in_messages(dump)
        if rank is None:
            rank = dump.rank
        elif dump.rank not in (None, rank):
            problem = f"its messages are those of rank {rank}, its name ends with {dump.rank}"
            raise TraceError(f"{problem}: name it as PyTorch does, prefix and rank", path=dump.name)
        if rank is None:
            raise TraceError("does not say which rank it is: its name must end with the rank", path=dump.name)
        if rank >= LARGEST_WORLD:
            raise TraceError(f"says that it is rank {rank}; ranks are 0 to {LARGEST_WORLD - 1}", path=dump.name)
        if rank in found:
            raise TraceError(f"has several dumps: {found[rank].name}, {dump.name}; keep one of them", rank=rank)
        found[rank] = dump
    return dict(sorted(found.items()))


def _rank_in_messages(dump: Dump) -> int | None:
    for entry in dump.entries:
        at = own_rank(entry)
        ranks = dump.groups.get(entry.process_group[0])
        if at is not None and ranks is not None and at < len(ranks):
            return ranks[at]
        if at is not None and entry.process_group[0] == _DEFAULT_GROUP[0]:
            return at
    return None


@dataclass(slots=True)
class _Job:
    """Turns entries into calls; knows all dumps, because process groups may be told by who calls in them."""

    dumps: Mapping[int, Dump]
    world_size: int
    losses: LossesOfRanks
    callers: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def without_beginning(self) -> set[int]:
        """Ranks whose recorder has overwritten the first calls."""
        return {rank for rank, dump in self.dumps.items() if dump.entries and dump.entries[0].record_id > 0}

    def calls_of(self, rank: int) -> list[RecordedCall]:
        """The calls of a rank, in the order in which they were recorded.

        Raises:
            TraceError: an entry has a number that no call can have.
        """
        dump = self.dumps[rank]
        calls = []
        for entry in dump.entries:
            operation = operation_of(dump, entry, self.losses[rank])
            if operation is None:
                continue
            operation.ranks = self._ranks(entry, operation.where, rank)
            own, members = own_rank(entry), operation.ranks or range(self.world_size)
            if own is not None and (own >= len(members) or members[own] != rank):
                problem = f"is a message of rank {own} of its process group, which has ranks {list(members[:8])}"
                raise TraceError(f"{operation.where}: {problem}, not of the rank that its file is of", rank=rank)
            self._settle(operation, entry, rank)
            calls.append(_call(operation, entry))
        return calls

    def _settle(self, operation: RecordedOperation, entry: Entry, rank: int) -> None:
        """Root, splits and state: what the recorder does not say is counted."""
        kind, losses = operation.kind, self.losses[rank]
        members = operation.ranks or range(self.world_size)
        if is_root(entry, kind) and rank in members:
            operation.root = members.index(rank)
        elif kind in (CommKind.BROADCAST, CommKind.REDUCE):
            losses.guess_root(kind, operation.where)
        if kind is CommKind.ALL_TO_ALL and operation.send_splits is None and len(entry.input_sizes) <= 1:
            losses.count(Fate.GUESSED, "splits of an all_to_all are not recorded: even", operation.where)
        if not entry.retired and entry.state in ("scheduled", "started"):
            losses.count(Fate.INFERRED, "calls that had not ended: played like the others", operation.where)

    def _ranks(self, entry: Entry, where: str, rank: int) -> tuple[int, ...]:
        """World ranks of the process group; () stands for all."""
        name, description = entry.process_group
        recorded = self._recorded(name, rank)
        if recorded is None and (name == _DEFAULT_GROUP[0] or description == _DEFAULT_GROUP[1]):
            return ()
        if recorded is None:
            self.losses[rank].count(
                Fate.GUESSED, "ranks of a process group are not recorded: those that call in it", where
            )
        known = self._callers(name) if recorded is None else recorded
        return () if len(known) == self.world_size and list(known) == list(range(self.world_size)) else known

    def _recorded(self, name: str, rank: int) -> tuple[int, ...] | None:
        """Ranks of the process group that a rank knows by a name; None: no dump records one that holds the rank.

        Groups of one split have one name: every rank records the part that it is in.
        """
        own = self.dumps[rank].groups.get(name)
        if own and rank not in own:
            problem = f"process group {name[:40]!r} has ranks {list(own[:8])}, not the rank that calls in it"
            raise TraceError(problem, path=self.dumps[rank].name, rank=rank)
        dumps = (self.dumps[rank], *self.dumps.values())
        known = (dump.groups[name] for dump in dumps if name in dump.groups)
        return next((ranks for ranks in known if not ranks or rank in ranks), None)

    def _callers(self, name: str) -> tuple[int, ...]:
        """The ranks that call in a process group."""
        if name not in self.callers:
            self.callers[name] = tuple(rank for rank, dump in self.dumps.items() if _calls_in(dump, name))
        return self.callers[name]


def _calls_in(dump: Dump, name: str) -> bool:
    return any(entry.process_group[0] == name for entry in dump.entries)


def _call(operation: RecordedOperation, entry: Entry) -> RecordedCall:
    is_message = not operation.kind.is_collective
    completed = entry.time_discovered_completed_ns or None
    duration_ms = entry.duration_ms if entry.duration_ms is not None and 0 <= entry.duration_ms < 1e12 else 0
    return RecordedCall(
        operation,
        # ProcessGroupNCCL has a stream for the collectives of a group, and one for each peer.
        stream=(operation.group, operation.ranks, operation.peer),
        number=None if is_message else entry.collective_seq_id,
        batch=("message", entry.p2p_seq_id) if is_message else None,
        start_ns=entry.time_created_ns,
        end_ns=completed,
        duration_ns=int(duration_ms * _NS_PER_MS),
    )


_DUMP = Version("dump", re.compile(rb"(?<![_a-z])version.{1,10}?(\d{1,3}\.\d{1,3})", re.DOTALL), ("2.10",))
FLIGHT_RECORDER = Importer(NAME, "PyTorch Flight Recorder dumps", is_flight_recorder, read_flight_recorder, (_DUMP,))


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
    size = (
        0
        if kind is CommKind.BARRIER
        else _size(kind, sent, received, has_input=bool(entry.input_sizes), has_output=bool(entry.output_sizes))
    )
    if size is None:
        losses.count(Fate.DROPPED, f"{kind.label} with elements of unknown size", where)
        return None
    if sent is None or received is None:
        losses.count(Fate.DROPPED, "tensors of unknown size at one end of a call: that of the other end", where)
    operation = RecordedOperation(
        where=where,
        name=kind.label,
        kind=kind,
        size_bytes=size,
        group=entry.process_group[0],
        input_bytes=sent if entry.input_sizes else None,
        output_bytes=received if entry.output_sizes else None,
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


def _size(kind: CommKind, sent: int | None, received: int | None, *, has_input: bool, has_output: bool) -> int | None:
    """Chakra's comm_size: the input; of a scatter only the root has one, which the others learn from it."""
    if kind is CommKind.RECV:
        return sent if received is None or not has_output else received
    return sent if has_input or received is None or kind is CommKind.SCATTER else received


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
