"""import.json beside an imported trace: what its import guessed and dropped stays with the trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from emulator.errors import TraceError
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
        report = msgspec.json.decode(path.read_bytes(), type=_Report)
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
