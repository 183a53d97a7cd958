"""A session for a terminal: what its jobs do to each other."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.results.comparison.interference import Interference
from emulator.views.columns.columns import explain
from emulator.views.columns.interference_columns import INTERFERENCE_COLUMNS, interference_facts, interference_rows
from emulator.views.terminal.table import FittedTable, facts_grid

EXPLAIN = explain(INTERFERENCE_COLUMNS, title="Effect of the jobs of a session on each other:")


def render_interference(found: Interference) -> RenderableType:
    """A row per class and job, then what counts."""
    table = FittedTable(INTERFERENCE_COLUMNS, interference_rows(found))
    return Group(Text("Interference", style="bold"), table, Text(), facts_grid(interference_facts(found)))
