"""From the recorded calls of all ranks to a trace: what not all of them recorded is left out, and counted.

Recorders keep the last so many calls, and a job that hangs ends differently on its ranks. Sequence numbers tell which
collectives are the same ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path

from emulator.annexes.importers.model import Fate, ImportedRank, ImportedTrace, Losses
from emulator.annexes.importers.recorded_calls import RecordedCall, issue_nodes
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind

Calls = dict[int, list[RecordedCall]]
"""By rank, in the order in which they were issued."""
LossesOfRanks = defaultdict[int, Losses]


def assemble(
    path: Path,
    calls: Calls,
    *,
    source_format: str,
    mode: str,
    world_size: int,
    files: Mapping[int, Sequence[str]],
    losses: Losses,
    losses_of: LossesOfRanks,
    on_rank: Callable[[int, int], None] | None,
    key: Mapping[CommKind, Hashable] | None = None,
    without_beginning: Collection[int] = (),
) -> ImportedTrace:
    """The trace of a job.

    Args:
        source_format: name of the importer.
        mode: what the ranks were read from, for the report.
        losses: what was counted so far of the whole source.
        losses_of: what was counted so far of each rank.
        on_rank: called with (ranks done, ranks in all).
        key: see `align_collectives`.
        without_beginning: see `align_messages`.

    Raises:
        TraceError: ranks contradict each other, no call is left, or times are more than a year apart.
    """
    align_collectives(calls, range(world_size), losses_of, key=key)
    align_messages(calls, range(world_size), losses_of, without_beginning=without_beginning)

    def made(rank: int) -> ImportedRank:
        own = losses_of[rank]
        for call in calls[rank]:
            own.count(Fate.MAPPED, call.operation.kind.label)
        return ImportedRank(rank, files[rank], mode, world_size, {}, issue_nodes(calls[rank], own), own)

    trace = ImportedTrace.of(
        path, source_format, sorted(calls), made, world_size=world_size, losses=losses, on_rank=on_rank
    )
    if not any(one.nodes for one in trace.ranks):
        raise TraceError("no call is in the records of all ranks: there is nothing to play", path=path)
    return trace


def align_collectives(
    calls: Calls, world: Sequence[int], losses: LossesOfRanks, *, key: Mapping[CommKind, Hashable] | None = None
) -> None:
    """Leave out the collectives that not all ranks of their process group recorded.

    Args:
        key: kinds that are numbered apart; None: all collectives of a process group are numbered together, without
            gaps.

    Raises:
        TraceError: within the numbers that all have, one is missing.
    """
    by_group: defaultdict[Hashable, dict[int, list[RecordedCall]]] = defaultdict(dict)
    members: dict[Hashable, Sequence[int]] = {}
    for rank, own in calls.items():
        for call in own:
            operation = call.operation
            if operation.kind.is_collective and call.number is not None:
                group: Hashable = (operation.group, operation.ranks, None if key is None else key[operation.kind])
                by_group[group].setdefault(rank, []).append(call)
                members[group] = operation.ranks or world
    left_out: set[int] = set()
    for group, sequences in by_group.items():
        present = [rank for rank in members[group] if rank in calls]
        numbers = {rank: {call.number for call in sequences.get(rank, [])} for rank in present}
        common = set.intersection(*numbers.values()) if numbers else set()
        if key is None and common:
            _check_whole(sequences, numbers, common)
        for rank, own in sequences.items():
            for call in own:
                if call.number not in common:
                    left_out.add(id(call))
                    what = f"{call.operation.kind.label} that not every rank of its process group recorded"
                    losses[rank].count(Fate.DROPPED, what, call.operation.where)
    _remove(calls, left_out)


def align_messages(
    calls: Calls, world: Sequence[int], losses: LossesOfRanks, *, without_beginning: Collection[int] = ()
) -> None:
    """Leave out sends without a receive, and receives without a send.

    Args:
        without_beginning: ranks whose first calls are lost: their messages are paired from the end.
    """
    ends: defaultdict[tuple[int, int, int], dict[CommKind, list[RecordedCall]]] = defaultdict(dict)
    for rank, own in calls.items():
        for call in own:
            operation = call.operation
            members = operation.ranks or world
            if not operation.kind.is_collective and 0 <= operation.peer < len(members):
                peer = members[operation.peer]
                pair = (rank, peer) if operation.kind is CommKind.SEND else (peer, rank)
                ends[*pair, operation.tag].setdefault(operation.kind, []).append(call)
    left_out: set[int] = set()
    for (source, target, _), both in ends.items():
        if source not in calls or target not in calls:
            continue
        fewer = min(len(both.get(kind, ())) for kind in (CommKind.SEND, CommKind.RECV))
        is_cut = source in without_beginning or target in without_beginning
        for kind, own in both.items():
            mine = losses[source if kind is CommKind.SEND else target]
            if is_cut and fewer:
                what = "messages paired from the end: a rank lost its first calls"
                mine.count(Fate.GUESSED, what, own[-1].operation.where, number=fewer)
            for call in own[: len(own) - fewer] if is_cut else own[fewer:]:
                left_out.add(id(call))
                mine.count(Fate.DROPPED, f"{kind.label} without its other end", call.operation.where)
    _remove(calls, left_out)


def _check_whole(
    sequences: Mapping[int, list[RecordedCall]], numbers: Mapping[int, set[int | None]], common: set[int | None]
) -> None:
    known = sorted(number for number in common if number is not None)
    seen = sorted({one for own in numbers.values() for one in own if one is not None and known[0] < one < known[-1]})
    for rank, own in numbers.items():
        missing = next((one for one in seen if one not in own), None)
        if missing is not None:
            before = [call for call in sequences[rank] if call.number is not None and call.number < missing]
            problem = f"collective {missing} of its process group, which other ranks have, is missing after this one"
            raise TraceError(f"{before[-1].operation.where}: {problem}", rank=rank)
    parts = {rank: Counter(call.number for call in sequences[rank]) for rank in numbers}
    for number in known:
        counts = Counter({rank: parts[rank][number] for rank in numbers})
        if len(set(counts.values())) > 1:
            rank, _ = counts.most_common()[-1]
            where = next(call.operation.where for call in sequences[rank] if call.number == number)
            raise TraceError(f"{where}: collective {number} has fewer parts than on other ranks", rank=rank)


def _remove(calls: Calls, left_out: set[int]) -> None:
    if left_out:
        for rank, own in calls.items():
            calls[rank] = [call for call in own if id(call) not in left_out]
