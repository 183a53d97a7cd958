"""From a path on the command line to the traces of all ranks and the process groups that go with them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import InputError
from emulator.shipped import TRACES
from emulator.trace.files.et import read_rank
from emulator.trace.files.files import TraceSet, find_trace
from emulator.trace.files.import_report import import_facts
from emulator.trace.meaning.groups import parse_group_file
from emulator.trace.meaning.imported import NOT_IMPORTED, ImportFacts
from emulator.trace.meaning.model import RankTrace

_BLOCK_BYTES = 1 << 20
MAX_GROUP_FILE_BYTES = 64 << 20


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
        if path.stat().st_size > MAX_GROUP_FILE_BYTES or not path.is_file():
            raise InputError(f"{path}: is not a group file: give a regular file of at most 64 MiB")
        return parse_group_file(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        problem = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(f"{path}: the group file cannot be read: {problem}") from error
