"""From the Flight Recorder's dumps of a job to the nodes of its ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from emulator.annexes.importers.alignment import LossesOfRanks, assemble
from emulator.annexes.importers.flight_recorder.dumps import Dump, Entry, is_flight_recorder, read_dump
from emulator.annexes.importers.flight_recorder.entry_operation import is_root, operation_of, own_rank
from emulator.annexes.importers.importer import Importer, Version
from emulator.annexes.importers.model import Fate, ImportedTrace, Losses, RecordedOperation
from emulator.annexes.importers.pytorch.names import LARGEST_WORLD
from emulator.annexes.importers.recorded_calls import RecordedCall
from emulator.annexes.importers.text_files import file_head, source_files
from emulator.errors import TraceError
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
    dumps = [read_dump(file) for file in source_files(path) if is_flight_recorder(file_head(file))]
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
            losses.count(Fate.GUESSED, f"root of a {kind.label}: the first rank of the group", operation.where)
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
FLIGHT_RECORDER = Importer(
    "flight-recorder", "PyTorch Flight Recorder dumps", is_flight_recorder, read_flight_recorder, (_DUMP,)
)
