"""Which suites there are, what is in one, and how its cases went over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from emulator.errors import InputError
from emulator.experiment.series.suite.document import Case, Suite, read_suite, shipped_suites
from emulator.experiment.series.suite.record import CaseRecord, SuiteRecord, read_record
from emulator.experiment.series.suite.table import deciding_cell
from emulator.views.columns.columns import Column
from emulator.views.columns.figures import NONE, count_of
from emulator.views.columns.verdict_columns import STYLES
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible


def _rules_text(one: Case) -> str:
    bound = [] if one.interference is None else [f"interference {one.interference}"]
    return "; ".join([*map(str, one.rules.rules), *bound])


_CASES: tuple[Column[Case], ...] = (
    Column("case", cell=lambda one: one.name, is_number=False),
    Column("clause", cell=lambda one: visible(one.clause or NONE), is_number=False, is_optional=True),
    Column("about", cell=lambda one: visible(one.about or NONE), is_number=False, is_optional=True, folds=30),
    Column("rules", cell=_rules_text, is_number=False, folds=30, sacrifice=1),
)
_SUITES: tuple[Column[Suite], ...] = (
    Column("suite", cell=lambda one: one.name, is_number=False),
    Column("cases", cell=lambda one: str(len(one.cases))),
    Column("description", cell=lambda one: visible(one.description), is_number=False, folds=40),
)


def list_to_json() -> list[dict[str, Any]]:
    """The suites that come with Charkha."""
    return [
        {"name": one.name, "description": one.description, "source": one.source, "cases": [c.name for c in one.cases]}
        for one in map(read_suite, shipped_suites().values())
    ]


def render_list() -> RenderableType:
    """The suites that come with Charkha."""
    return FittedTable(_SUITES, [read_suite(path) for path in shipped_suites().values()])


def render_suite(suite: Suite) -> Sequence[RenderableType]:
    """What a suite plays, and what it does not cover."""
    about = f": {suite.description}" if suite.description else ""
    lines = [f"{suite.name}{about}", f"After: {suite.source}"][: 1 + bool(suite.source)]
    missing = [f"Not covered: {one}" for one in suite.not_covered]
    return [*map(visible, lines), FittedTable(_CASES, suite.cases), *map(visible, missing)]


def read_history(folders: Iterable[Path]) -> list[SuiteRecord]:
    """The results in folders of suites, oldest first.

    Raises:
        InputError: a folder is not that of a suite, or they hold different suites.
    """
    records = sorted(map(read_record, folders), key=lambda one: one.started)
    names = sorted({one.suite for one in records})
    if len(names) > 1:
        raise InputError(f"{count_of(len(names), 'suite')} ({', '.join(names)}): give folders of the same suite")
    return records


def history_to_json(records: Sequence[SuiteRecord]) -> list[dict[str, Any]]:
    """The result of every date, oldest first."""
    return [one.to_plain() for one in records]


def render_history(records: Sequence[SuiteRecord]) -> RenderableType:
    """A row per case, a column per date."""
    names = dict.fromkeys(one.name for record in records for one in record.cases)
    first: Column[str] = Column("case", cell=lambda name: name, is_number=False)
    return FittedTable(
        [first, *(outcome_column(one.started[:16].replace("T", "\n"), one) for one in records)], list(names)
    )


def outcome_column(header: str, record: SuiteRecord) -> Column[str]:
    """Name of a case → its outcome in a suite, with the figure that decides."""
    cases = {one.name: one for one in record.cases}
    return Column(
        header,
        cell=lambda name: history_cell(cases.get(name)),
        is_number=False,
        style=lambda name: STYLES[cases[name].outcome] if name in cases else "",
    )


def history_cell(one: CaseRecord | None) -> str:
    """`PASS 98.1 %`."""
    if one is None:
        return NONE
    return one.outcome.value if one.value is None else f"{one.outcome.value} {deciding_cell(one)}"
