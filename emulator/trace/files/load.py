"""From a path on the command line to the traces of all ranks and the process groups that go with them.

What the import of a trace guessed and dropped stays with it, in import.json beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from emulator.errors import InputError, TraceError
from emulator.host.files import read_bounded
from emulator.shipped import TRACES
from emulator.trace.files.et import read_rank
from emulator.trace.files.files import TraceSet, find_trace
from emulator.trace.meaning.groups import parse_group_file
from emulator.trace.meaning.imported import DROPPED, GUESSED, NOT_IMPORTED, ImportFacts, ImportLoss
from emulator.trace.meaning.model import RankTrace

REPORT_FILE = "import.json"
IMPORTED_SCHEMA = "charkha.import."
"""What the schema of an imported trace begins with; the name of the importer follows."""
_UNKNOWN = ImportLoss(GUESSED, f"{REPORT_FILE} is not beside the trace, so what was guessed is not known", 1)


class _Tally(msgspec.Struct, frozen=True):
    count: int
    first: tuple[str, ...] = ()


class _Report(msgspec.Struct, frozen=True):
    guessed: dict[str, _Tally] = {}
    dropped: dict[str, _Tally] = {}


def import_facts(traces: Sequence[RankTrace], folder: Path) -> ImportFacts:
    """What the import of a trace guessed and dropped.

    Args:
        traces: of all ranks; their schema says whether they were imported.
        folder: where their files are.

    Raises:
        TraceError: the report cannot be read.
    """
    imported = next((trace.schema for trace in traces if trace.schema.startswith(IMPORTED_SCHEMA)), None)
    if imported is None:
        return NOT_IMPORTED
    source_format, path = imported.removeprefix(IMPORTED_SCHEMA), folder / REPORT_FILE
    try:
        report = msgspec.json.decode(read_bounded(path), type=_Report)
    except FileNotFoundError:
        return ImportFacts(source_format, (_UNKNOWN,))
    except (OSError, ValueError, RecursionError) as error:
        raise TraceError(f"is not the report on an import ({error}): convert the source again", path=path) from error
    return ImportFacts(
        source_format,
        tuple(
            ImportLoss(fate, what, one.count, one.first)
            for fate, tallies in ((GUESSED, report.guessed), (DROPPED, report.dropped))
            for what, one in tallies.items()
        ),
    )


_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LoadedTrace:
    """A trace as read, not yet understood.

    Attributes:
        path: as the user named it.
        files: one per rank.
        traces: one per rank.
        groups: content of the group file; empty without one.
        group_file: where they came from.
        imported: what the import of the trace guessed and dropped.
    """

    path: Path
    files: TraceSet
    traces: Sequence[RankTrace]
    groups: Mapping[str, tuple[int, ...]]
    group_file: Path | None
    imported: ImportFacts = NOT_IMPORTED

    @property
    def nodes(self) -> int:
        """Over all ranks."""
        return sum(len(trace) for trace in self.traces)


def load_trace(
    path: Path,
    *,
    ranks: int | None = None,
    groups: Path | None = None,
    only: int | None = None,
    on_rank: Callable[[int, int], None] | None = None,
) -> LoadedTrace:
    """Read every rank.

    Args:
        path: a folder, a prefix, one file, or the name of an example trace.
        ranks: how many ranks there must be; None = as many as there are files.
        groups: a group file; None = the one beside the trace, if any.
        only: the one rank to read; the traces of the others are empty.
        on_rank: called with (ranks read, ranks in all).

    Raises:
        TraceError: something is missing or broken; it names the file.
        InputError: the group file cannot be read.
    """
    files = find_trace(TRACES.find(path), ranks=ranks, only=only)
    group_file = groups or files.group_file
    traces = []
    for rank, file in enumerate(files.paths):
        traces.append(read_rank(file, rank) if only in (None, rank) else RankTrace.empty(rank))
        if on_rank is not None:
            on_rank(rank + 1, len(files))
    return LoadedTrace(path, files, traces, _read_groups(group_file), group_file, import_facts(traces, files.folder))


def digest(files: TraceSet) -> str:
    """SHA-256 over the files in rank order, in hex."""
    state = hashlib.sha256()
    for path in files.paths:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                state.update(block)
    return state.hexdigest()


def _read_groups(path: Path | None) -> Mapping[str, tuple[int, ...]]:
    if path is None:
        return {}
    try:
        return parse_group_file(read_bounded(path), path)
    except OSError as error:
        raise InputError(f"{path}: the group file cannot be read: {error.strerror}") from error
