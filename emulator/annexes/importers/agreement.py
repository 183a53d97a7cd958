"""Whether the ranks of an imported trace agree: the same collectives in each process group, and both ends of messages.

A disagreement is found before anything is written, and names the rank, the file and the record that differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NoReturn

from emulator.annexes.importers.model import ImportedRank, ImportedTrace, RecordedOperation
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from emulator.units import format_size

GroupKey = tuple[str, tuple[int, ...]]
_SIZES_DIFFER = {CommKind.ALL_TO_ALL, CommKind.BARRIER}
_EVEN_SHARDS = {CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER}
_ROOTED = {CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER}


def check_agreement(trace: ImportedTrace) -> None:
    """Check the ranks that are there against each other, and fill in what only some of them know.

    Raises:
        TraceError: they disagree.
    """
    world = tuple(range(len(trace.ranks) + len(trace.missing)))
    by_group: defaultdict[GroupKey, dict[int, list[RecordedOperation]]] = defaultdict(dict)
    for one in trace.ranks:
        for operation in one.operations:
            members = operation.ranks or world
            if one.rank not in members:
                problem = (
                    f"{operation.where}: as recorded, the process group has ranks {list(members)[:8]}: not the rank"
                )
                problem += " that calls in it"
                raise TraceError(problem, rank=one.rank)
            if operation.kind.is_collective:
                key = (operation.group or "", operation.ranks or ())
                by_group[key].setdefault(one.rank, []).append(operation)
    for (_, ranks), sequences in by_group.items():
        present = [one.rank for one in trace.ranks if one.rank in (ranks or world)]
        _check_collectives({rank: sequences.get(rank, []) for rank in present}, ranks or world, trace)
    _check_messages(trace.ranks, world)


def _check_collectives(
    sequences: Mapping[int, Sequence[RecordedOperation]], members: Sequence[int], trace: ImportedTrace
) -> None:
    """Check the collectives of a process group by rank."""
    for number in range(max(map(len, sequences.values()))):
        row = {rank: those[number] for rank, those in sequences.items() if number < len(those)}
        _fill_in(row)
        seen = {rank: _description(one) for rank, one in row.items()}
        usual = Counter(seen.values()).most_common(1)[0][0]
        for rank, described in seen.items():
            if described != usual:
                other = next(one for one, text in seen.items() if text == usual)
                if row[rank].kind is row[other].kind and row[rank].kind in _EVEN_SHARDS:
                    usual += f" (unequal shards of one {row[rank].kind.label} cannot be played)"
                _disagree(row[rank], rank, f"{described} is collective {number + 1}", row[other], other, usual)
        if len(row) < len(sequences):
            rank = next(one for one in sequences if one not in row)
            other = next(iter(row))
            shortest = next(one for one in trace.ranks if one.rank == rank)
            has = f"{number} collective{'s' * (number != 1)}"
            raise TraceError(
                f"{', '.join(shortest.files)}: has {has} of a process group in which rank {other} has "
                f"{len(sequences[other])}; the next one is {seen[other]} ({row[other].where}): record all ranks over "
                "the same steps",
                rank=rank,
            )
        _check_roots(row, members)
        _check_splits(row, members)


def _description(operation: RecordedOperation) -> str:
    if operation.kind in _SIZES_DIFFER:
        return operation.kind.label
    return f"{operation.kind.label} of {format_size(operation.size_bytes)} ({operation.size_bytes} bytes)"


def _fill_in(row: Mapping[int, RecordedOperation]) -> None:
    """Of a scatter, only the root knows the size; a root that some members name is that of all."""
    if next(iter(row.values())).kind is CommKind.SCATTER:
        size = max(one.size_bytes for one in row.values())
        for one in row.values():
            one.size_bytes = one.size_bytes or size
    roots = {one.root for one in row.values() if one.kind in _ROOTED and one.root >= 0}
    if len(roots) == 1:
        for one in row.values():
            one.root = next(iter(roots))


def _check_roots(row: Mapping[int, RecordedOperation], members: Sequence[int]) -> None:
    first, operation = next(iter(row.items()))
    for rank, one in row.items():
        if one.root >= len(members):
            problem = f"{one.where}: root {one.root} of a {one.kind.label} is not in its group of {len(members)} ranks"
            raise TraceError(problem, rank=rank)
        if one.root != operation.root:
            _disagree(one, rank, f"root {one.root} of a {one.kind.label}", operation, first, f"root {operation.root}")


def _check_splits(row: Mapping[int, RecordedOperation], members: Sequence[int]) -> None:
    for rank, one in row.items():
        if one.send_splits is not None and len(one.send_splits) != len(members):
            problem = f"{one.where}: has {len(one.send_splits)} splits in a process group of {len(members)} ranks"
            raise TraceError(problem, rank=rank)
    present = [(at, rank, row[rank]) for at, rank in enumerate(members) if rank in row]
    for at, rank, mine in present:
        for to, other, theirs in present:
            if mine.send_splits is None or theirs.recv_splits is None:
                continue
            sent, expected = mine.send_splits[to], theirs.recv_splits[at]
            if sent != expected:
                _disagree(mine, rank, f"{sent} bytes to rank {other}", theirs, other, f"{expected} bytes from it")


def _check_messages(ranks: Sequence[ImportedRank], world: Sequence[int]) -> None:
    """Sends and receives between ranks that are there."""
    sends: defaultdict[tuple[int, int, int], list[RecordedOperation]] = defaultdict(list)
    receives: defaultdict[tuple[int, int, int], list[RecordedOperation]] = defaultdict(list)
    for one in ranks:
        for operation in one.operations:
            if operation.kind.is_collective:
                continue
            members = operation.ranks or world
            if not 0 <= operation.peer < len(members) or members[operation.peer] == one.rank:
                problem = f"{operation.where}: peer {operation.peer} is not another rank of a group of {len(members)}"
                raise TraceError(problem, rank=one.rank)
            peer = members[operation.peer]
            if operation.kind is CommKind.SEND:
                sends[one.rank, peer, operation.tag].append(operation)
            else:
                receives[peer, one.rank, operation.tag].append(operation)
    present = {one.rank for one in ranks}
    for source, target, tag in sorted({*sends, *receives}):
        if source not in present or target not in present:
            continue
        sent, received = sends[source, target, tag], receives[source, target, tag]
        for mine, theirs in zip(sent, received, strict=False):
            if mine.size_bytes != theirs.size_bytes:
                _disagree(
                    mine, source, f"{mine.size_bytes} bytes sent", theirs, target, f"{theirs.size_bytes} bytes received"
                )
        if len(sent) != len(received):
            lone = max(sent, received, key=len)[min(len(sent), len(received))]
            lacking = target if len(sent) > len(received) else source
            files = next(", ".join(one.files) for one in ranks if one.rank == lacking)
            raise TraceError(
                f"{lone.where}: rank {source} sends {_messages(len(sent))} with tag {tag} to rank {target}, which "
                f"receives {_messages(len(received))}; one is not in {files}: record all ranks over the same steps"
            )


def _messages(count: int) -> str:
    return f"{count} message{'s' * (count != 1)}"


def _disagree(
    mine: RecordedOperation, rank: int, said: str, theirs: RecordedOperation, other: int, instead: str
) -> NoReturn:
    guess = " (its process group is a guess: name it with record_function)" if mine.is_guess else ""
    raise TraceError(f"{mine.where}: {said}; rank {other} has {instead} ({theirs.where}){guess}", rank=rank)
