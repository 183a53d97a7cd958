"""The result of a suite for a terminal: the answer on the first line, then a row per case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from emulator.experiment.series.suite.record import CaseRecord, SuiteRecord
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.statistics.metric import Unit
from emulator.units import format_size
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, link_rate_cell
from emulator.views.columns.result_columns import RunResult, result_columns
from emulator.views.columns.verdict_columns import STYLES
from emulator.views.terminal.table import FittedTable
from emulator.views.text.verdict_text import metric_cell
from emulator.visible import visible

BITS_PER_S, BYTES, SHARE = "bit/s", "By", "0.01 %"
"""Units of loads."""


def deciding_cell(one: CaseRecord) -> str:
    """The figure that decides a case, with its unit; a dash if nothing was measured."""
    if one.unit is None:
        return NONE
    is_load = one.unit in (BITS_PER_S, SHARE)
    return load_text(one.value, one.unit) if is_load else metric_cell(one.value, Unit(one.unit))


def load_text(load: float | None, unit: str | None) -> str:
    """A load of a search: `381.2 Mbit/s`, `95.5 %`, `4 MiB`."""
    if load is None:
        return NONE
    if unit == SHARE:
        return f"{load / 100:g} %"
    return link_rate_cell(load) if unit == BITS_PER_S else format_size(round(load))


def result_of_case(one: CaseRecord) -> RunResult:
    """What lists show of a case: its outcome, and the figures of the run that decides."""
    run = one.decisive
    if run is None:
        return RunResult(verdict=one.outcome)
    return RunResult(one.outcome, run.figures or RunFigures(), run.firmware, run.topology)


RESULTS: tuple[Column[CaseRecord], ...] = (
    Column("case", "name of the case, and of its folder", cell=lambda one: one.name, is_number=False),
    Column(
        "clause",
        "clause of the document that the suite follows",
        cell=lambda one: visible(one.clause or NONE),
        is_number=False,
        is_optional=True,
        sacrifice=2,
    ),
    Column(
        "jobs",
        "jobs that were played at the same time",
        cell=lambda one: ", ".join(one.jobs) or NONE,
        is_number=False,
        is_optional=True,
        sacrifice=2,
    ),
    *result_columns(result_of_case),
    Column("metric", "the deciding metric", cell=lambda one: one.metric or NONE, is_number=False),
    Column("value", "its value", cell=deciding_cell, style=bold),
    Column("limit", "its bound", cell=lambda one: one.limit or NONE, is_number=False, is_optional=True),
    Column(
        "why",
        "the deciding check; for a case that passes, the one closest to its limit",
        cell=lambda one: visible(one.text),
        is_number=False,
        folds=30,
        sacrifice=1,
    ),
)


def render_result(record: SuiteRecord, folder: Path) -> Sequence[RenderableType]:
    """The answer, a row per case, and where everything is."""
    answer = Text.assemble((record.outcome.value, STYLES[record.outcome]), f": {visible(record.text)}")
    table: list[RenderableType] = [Text(), FittedTable(RESULTS, record.cases)] if record.cases else []
    return [answer, *table, f"Folder of the suite: {visible(str(folder))}"]
