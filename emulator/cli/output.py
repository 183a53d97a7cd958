"""What commands print: results to stdout, notes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from rich.console import RenderableType

from emulator.views.terminal.console import console
from emulator.visible import visible


def print_json(document: object) -> None:
    """A result for machines."""
    print(json.dumps(document, indent=2))


def print_tables(*tables: RenderableType) -> None:
    """A result for people: tables, and lines as they are, one below the other."""
    out = console()
    for table in tables:
        if isinstance(table, str):
            out.print(table, highlight=False, soft_wrap=True)
        else:
            out.print(table)


def print_notes(notes: Iterable[object]) -> None:
    """One line on stderr for each note."""
    for note in notes:
        print(f"charkha: {visible(str(note))}", file=sys.stderr)
