"""What commands print: results to stdout, notes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.visible import visible

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_json(document: object) -> None:
    """A result for machines."""
    print(json.dumps(document, indent=2))


def print_line(line: object) -> None:
    """A result of one line."""
    print(visible(str(line)))


def print_tables(*tables: RenderableType) -> None:
    """Print tables and lines, one below the other."""
    from emulator.views.terminal.console import console  # help does not need it

    out = console()
    for table in tables:
        out.print(table, highlight=False, soft_wrap=isinstance(table, str))


def notify(line: str) -> None:
    """A line for the user on stderr."""
    print(f"charkha: {visible(line)}", file=sys.stderr, flush=True)


def files_line(paths: Sequence[Path]) -> str:
    """The folder, the first and the last trace file, and every other file.

    Args:
        paths: the .et files by rank and other files, all in one folder.
    """
    traces = [path.name for path in paths if path.suffix == ".et"]
    span = traces[0] if len(traces) == 1 else f"{traces[0]} to {traces[-1]}"
    others = [path.name for path in paths if path.suffix != ".et"]
    return visible(f"{paths[0].parent}: {', '.join([span, *others])}")
