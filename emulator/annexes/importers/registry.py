"""Importing: the importer of a source, told from its content, and the trace of a job whose ranks agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.annexes.importers.agreement import check_agreement
from emulator.annexes.importers.documents import document_heads
from emulator.annexes.importers.importer import Importer
from emulator.annexes.importers.losses import Fate
from emulator.annexes.importers.model import ImportedTrace
from emulator.annexes.importers.text_files import HEADS, file_head, file_heads, source_files
from emulator.annexes.importers.writing import write_imported
from emulator.errors import InputError, TraceError, format_ranks
from emulator.plugins import BUILT_IN, PluginKind, installed, is_known, load
from emulator.suggestions import did_you_mean
from emulator.trace.files.files import has_et_files
from emulator.trace.meaning.imported import GUESSED, ImportedFiles, ImportFacts, ImportLoss, refuse_guesses

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
    if built_in := _importer_of(_heads(path), BUILT_IN[PluginKind.IMPORTERS]):
        return built_in
    others = installed(PluginKind.IMPORTERS)
    return _importer_of(_heads(path), others) if others else None


def _heads(path: Path) -> Iterator[bytes]:
    return chain(document_heads(path), file_heads(path))


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
    return ImportedFiles(partial(write_imported, trace), len(trace.ranks) + len(trace.missing), only)


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
    world_size = len(trace.ranks) + len(trace.missing)
    if ranks is not None and ranks != world_size:
        alone = ": without --ranks, `check` and `view` show the one that was recorded" if len(trace.ranks) == 1 else ""
        raise TraceError(f"is of a job of {world_size} ranks, --ranks asks for {ranks}{alone}", path=path)
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
        problem = f"is of a job of {len(trace.ranks) + len(trace.missing)} ranks; there is no trace of rank {shown}"
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
