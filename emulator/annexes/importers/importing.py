"""Importing a set of files: their importer, told from their content, and the trace of a job whose ranks agree.

A disagreement is found before anything is written, and names the rank, the file and the record that differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from emulator.annexes.importers.documents import source_heads
from emulator.annexes.importers.model import Fate, ImportedRank, ImportedTrace, Importer, Losses, RecordedOperation
from emulator.annexes.importers.text_files import HEADS, file_head, source_files
from emulator.annexes.importers.writing import write_imported
from emulator.errors import InputError, TraceError, format_ranks
from emulator.plugins import BUILT_IN, PluginKind, installed, is_known, load
from emulator.suggestions import did_you_mean
from emulator.trace.files.files import has_et_files
from emulator.trace.meaning.imported import GUESSED, ImportedFiles, ImportFacts, ImportLoss, refuse_guesses
from emulator.trace.meaning.meaning import ROOTED
from emulator.trace.meaning.model import CommKind
from emulator.units import format_size

if TYPE_CHECKING:
    from emulator.experiment.settle.workload import Alone

CHAKRA = "chakra"
"""Name of what is read without an importer."""


def importer_named(name: str) -> Importer:
    """An importer by its name.

    Raises:
        InputError: there is none.
        HostError: an installed one cannot be loaded.
    """
    if not is_known(PluginKind.IMPORTERS, name):
        known = (CHAKRA, *BUILT_IN[PluginKind.IMPORTERS], *installed(PluginKind.IMPORTERS))
        advice = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise InputError(f"there is no format {name!r}{advice}")
    importer: Importer = load(PluginKind.IMPORTERS, name, Importer)
    return importer


def find_importer(path: Path) -> Importer | None:
    """The importer for a path; None: it holds traces of Chakra, or nothing that is known.

    A folder with .et files is a trace of Chakra, whatever else is in it.

    Raises:
        HostError: no built-in importer knows the content, and an installed one cannot be loaded.
    """
    if has_et_files(path):
        return None
    if built_in := _importer_of(source_heads(path), BUILT_IN[PluginKind.IMPORTERS]):
        return built_in
    others = installed(PluginKind.IMPORTERS)
    return _importer_of(source_heads(path), others) if others else None


def _importer_of(heads: Iterable[bytes], names: Iterable[str]) -> Importer | None:
    importers = ((head, importer_named(name)) for head in heads for name in names)
    return next((one for head, one in importers if one.is_head(head)), None)


def import_files(
    path: Path, *, ranks: int | None, alone: Alone | None, on_step: Callable[[str], None]
) -> ImportedFiles | None:
    """Read the traces of a job, to be played or looked at; None: no importer knows them.

    Args:
        ranks: how many the user asks for.
        alone: what may be read of a trace instead of all ranks, to look at it; None: it must be complete.
        on_step: receives the current step.

    Raises:
        TraceError: they cannot be read, disagree, or ranks are missing.
        HostError: an installed importer cannot be loaded.
    """
    importer = find_importer(path)
    if importer is None:
        return None

    def on_rank(done: int, all_ranks: int) -> None:
        on_step(f"importing the trace: {done} of {all_ranks} ranks")

    on_step("importing the trace")
    trace = import_trace(importer, path, ranks=ranks, on_rank=on_rank)
    if alone is None:
        check_complete(trace)
    only = None if alone is None else rank_alone(trace, alone.rank)
    return ImportedFiles(partial(write_imported, trace), trace.world_size, only)


def import_trace(
    importer: Importer,
    path: Path,
    *,
    ranks: int | None = None,
    strict: bool = False,
    on_rank: Callable[[int, int], None] | None = None,
) -> ImportedTrace:
    """Read the traces of a job, and check that its ranks agree.

    Args:
        strict: refuse guesses, and ranks without a file.

    Raises:
        TraceError: they cannot be read, disagree, or are refused; it names the file and the record.
    """
    try:
        trace = importer.read(path, ranks=ranks, on_rank=on_rank)
    except RecursionError as error:
        raise TraceError("has values nested too deeply to be read", path=path) from error
    except TraceError as error:
        if not (version := importer.other_version(path)):
            raise
        problem = f"{error.problem}{version}"
        raise TraceError(problem, path=error.path, offset=error.offset, node=error.node, rank=error.rank) from error
    if ranks is not None and ranks != trace.world_size:
        alone = ": without --ranks, `check` and `view` show the one that was recorded" if len(trace.ranks) == 1 else ""
        raise TraceError(f"is of a job of {trace.world_size} ranks, --ranks asks for {ranks}{alone}", path=path)
    check_agreement(trace)
    _count_other_formats(trace, importer)
    if strict:
        _refuse_guesses(trace)
    return trace


def _count_other_formats(trace: ImportedTrace, importer: Importer) -> None:
    """Say of files in the same folder that another importer would read that they were left out."""
    for file in source_files(trace.source)[:HEADS]:
        with suppress(TraceError, OSError):
            head = file_head(file)
            found = importer if importer.is_head(head) else _importer_of([head], BUILT_IN[PluginKind.IMPORTERS])
            if found is not None and found is not importer:
                trace.losses.count(Fate.DROPPED, f"files of another format: --from {found.name} reads them", str(file))


def check_complete(trace: ImportedTrace) -> None:
    """Refuse a trace without all ranks: it cannot be played.

    Raises:
        TraceError: ranks are missing.
    """
    if trace.missing:
        shown = ", ".join(map(str, trace.missing[:6])) + (", …" if len(trace.missing) > 6 else "")
        problem = f"is of a job of {trace.world_size} ranks; there is no trace of rank {shown}"
        raise TraceError(f"{problem}: record all ranks", path=trace.source)


def rank_alone(trace: ImportedTrace, rank: int | None) -> int | None:
    """The rank to look at alone: the chosen one, else the one that was recorded of several; None: all were.

    Raises:
        TraceError: the chosen one was not recorded, or several were, but not all.
    """
    recorded = [one.rank for one in trace.ranks]
    if rank is not None and rank not in recorded:
        raise TraceError(f"has no rank {rank}; there are {format_ranks(recorded)}", path=trace.source)
    if rank is None and not (trace.missing and len(recorded) == 1):
        check_complete(trace)
        return None
    return recorded[0] if rank is None else rank


def _refuse_guesses(trace: ImportedTrace) -> None:
    check_complete(trace)
    guesses = [
        ImportLoss(GUESSED, what, tally.count, tuple(tally.first))
        for fate, what, tally in trace.losses
        if fate is Fate.GUESSED
    ]
    refuse_guesses(ImportFacts(trace.format, tuple(guesses)), trace.source)


GroupKey = tuple[str, tuple[int, ...]]
_SIZES_DIFFER = {CommKind.ALL_TO_ALL, CommKind.BARRIER}
_SHARDED = {CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER}


def check_agreement(trace: ImportedTrace) -> None:
    """Check the ranks that are there against each other, and fill in what only some of them know.

    Raises:
        TraceError: they disagree.
    """
    world = tuple(range(trace.world_size))
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
            else:
                _count_other_size(operation, len(members), trace.losses)
    for (_, ranks), sequences in by_group.items():
        present = [one.rank for one in trace.ranks if one.rank in (ranks or world)]
        _check_collectives({rank: sequences.get(rank, []) for rank in present}, ranks or world, trace)
    _check_messages(trace.ranks, world, trace.losses)


def _check_collectives(
    sequences: Mapping[int, Sequence[RecordedOperation]], members: Sequence[int], trace: ImportedTrace
) -> None:
    """Check the collectives of a process group by rank."""
    for number in range(max(map(len, sequences.values()))):
        row = {rank: those[number] for rank, those in sequences.items() if number < len(those)}
        _fill_in(row)
        _settle_shards(row, members, trace.losses)
        _settle_splits(row, members, trace.losses)
        for one in row.values():
            _count_other_size(one, len(members), trace.losses)
        seen = {rank: (one.kind, one.kind not in _SIZES_DIFFER and one.size_bytes) for rank, one in row.items()}
        most = Counter(seen.values()).most_common(1)[0][0] if len(set(seen.values())) > 1 else None
        for rank, what in seen.items() if most else ():
            if what != most:
                other = next(one for one, same in seen.items() if same == most)
                described, usual = _description(row[rank]), _description(row[other])
                if row[rank].kind is row[other].kind and row[rank].kind in _SHARDED:
                    usual += f" (inputs and outputs are not those of unequal shards of one {row[rank].kind.label})"
                _disagree(row[rank], rank, f"{described} is collective {number + 1}", row[other], other, usual)
        if len(row) < len(sequences):
            rank = next(one for one in sequences if one not in row)
            other = next(iter(row))
            shortest = next(one for one in trace.ranks if one.rank == rank)
            has = f"{number} collective{'s' * (number != 1)}"
            raise TraceError(
                f"{', '.join(shortest.files)}: has {has} of a process group in which rank {other} has "
                f"{len(sequences[other])}; the next one is {_description(row[other])} ({row[other].where}): record all "
                "ranks over the same steps",
                rank=rank,
            )
        _check_roots(row, members)
        _check_splits(row, members)


def _settle_shards(row: Mapping[int, RecordedOperation], members: Sequence[int], losses: Losses) -> None:
    """Unequal shards, if inputs and outputs of all members show them, are those of an all-to-all.

    NCCL has no such collective; PyTorch broadcasts or reduces the shards one by one. Each goes to, or comes from, every
    other member either way.
    """
    kinds, outputs = {one.kind for one in row.values()}, [one.output_bytes for one in row.values()]
    if len(row) < len(members) or len(kinds) > 1 or not kinds <= _SHARDED or None in outputs:
        return
    is_gather = kinds == {CommKind.ALL_GATHER}
    shards = tuple(row[rank].size_bytes if is_gather else row[rank].output_bytes or 0 for rank in members)
    wholes = set(outputs) if is_gather else {one.size_bytes for one in row.values()}
    if len(set(shards)) == 1 or wholes != {sum(shards)}:
        return
    for own, rank in zip(shards, members, strict=True):
        one, each = row[rank], (own,) * len(members)
        what = f"{one.kind.label} of unequal shards: as an all_to_all of them"
        losses.count(Fate.INFERRED, what, one.where)
        one.kind = CommKind.ALL_TO_ALL
        one.send_splits, one.recv_splits = (each, shards) if is_gather else (shards, each)
        one.size_bytes = sum(one.send_splits)


def _count_other_size(one: RecordedOperation, ranks: int, losses: Losses) -> None:
    """Count sizes that contradict each other: input and output are recorded, and only one of them is played."""
    sent, received = one.input_bytes, one.output_bytes
    if sent is None or received is None or one.kind not in _GAINS or one.send_splits or one.open_splits:
        return
    gain = _GAINS[one.kind]
    if sent * ranks ** max(gain, 0) != received * ranks ** max(-gain, 0):
        played = "output" if one.kind is CommKind.RECV else "input"
        what = f"{one.kind.label} whose input and output do not fit each other: by its {played}"
        losses.count(Fate.GUESSED, what, one.where)


_GAINS: Mapping[CommKind, int] = {
    **dict.fromkeys((CommKind.ALL_REDUCE, CommKind.REDUCE, CommKind.BROADCAST, CommKind.ALL_TO_ALL), 0),
    **dict.fromkeys((CommKind.SEND, CommKind.RECV), 0),
    CommKind.ALL_GATHER: 1,
    CommKind.REDUCE_SCATTER: -1,
}
"""Kinds whose output is their input times a power of the number of ranks."""


def _settle_splits(row: Mapping[int, RecordedOperation], members: Sequence[int], losses: Losses) -> None:
    """Splits that are not recorded are what the other members say of them; if they do not either, even."""
    open_ones = [(at, row[rank]) for at, rank in enumerate(members) if rank in row and row[rank].open_splits]
    if not open_ones:
        return
    sent, received = (
        [_parts(row.get(rank), splits, len(members)) for rank in members] for splits in ("send_splits", "recv_splits")
    )
    for at, one in open_ones:
        send = sent[at] or _said_by_others(received, at, one.size_bytes)
        recv = received[at] or _said_by_others(sent, at, one.output_bytes)
        if send is None or recv is None:
            losses.count(Fate.GUESSED, f"splits of an all_to_all are {one.open_splits}: even", one.where)
        is_uneven = send is not None and recv is not None and len({*send, *recv}) > 1
        one.send_splits, one.recv_splits = (send, recv) if is_uneven else (None, None)


def _parts(one: RecordedOperation | None, splits: str, members: int) -> tuple[int, ...] | None:
    """Bytes to or from each member as recorded; None: they are not."""
    said = None if one is None else getattr(one, splits)
    if one is None or said or (said is None and one.open_splits):
        return said or None
    whole = one.size_bytes if splits == "send_splits" or one.output_bytes is None else one.output_bytes
    return (whole // members,) * members


def _said_by_others(parts: Sequence[tuple[int, ...] | None], at: int, whole: int | None) -> tuple[int, ...] | None:
    """Bytes to or from each member as these say; what a member keeps is the rest of the whole. None: unknown."""
    found = [one[at] if one and at < len(one) else None for one in parts]
    if found[at] is None and whole is not None:
        found[at] = whole - sum(one or 0 for one in found)
    known = tuple(one for one in found if one is not None and one >= 0)
    return known if len(known) == len(found) and whole in (None, sum(known)) else None


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
    roots = {one.root for one in row.values() if one.kind in ROOTED and one.root >= 0}
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


def _check_messages(ranks: Sequence[ImportedRank], world: Sequence[int], losses: Losses) -> None:
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
            if mine.ranks != theirs.ranks and None not in (mine.group, theirs.group):
                losses.count(Fate.GUESSED, "messages whose two ends are in other process groups: by ranks", mine.where)
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
