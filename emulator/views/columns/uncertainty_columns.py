"""Columns of the table of uncertainties: a row per figure, a column per part of its budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from emulator.results.comparison.uncertainty import readings_over
from emulator.results.comparison.verdicts import PairComparison
from emulator.results.statistics.metric import Subject, Unit
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.uncertainty import CLOCK, COMPONENTS, REFERENCE, REPEAT, STAMP, Budget
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, percent_cell
from emulator.views.verdict_text import metric_cell
from emulator.visible import visible

_SHOWN = ("jct", "cct_p50", "busbw", "busbw_to_ideal")
"""Metrics that the table shows; JSON also has the other figures."""
_MEANINGS = {
    REPEAT: "by chance (A), from blocks of iterations, or from runs",
    CLOCK: "clocks of agents (B): bound of their offset over the run",
    STAMP: "time stamps (B): how late they are",
    REFERENCE: "rates of the ports that ideal % divides by (B); they cancel in a ratio",
}


@dataclass(frozen=True, slots=True)
class StatedFigure:
    """A figure with its budget; `of` is the class, or the iteration, `figure` a name and `unit` its unit."""

    of: str
    figure: str
    budget: Budget
    unit: Unit

    def cell(self, value: float | None) -> str:
        """A value in the unit of the figure."""
        return metric_cell(value, self.unit)

    def standard_cell(self, name: str) -> str:
        """The standard uncertainty by one component; a dash if it is not known, or no part of this budget."""
        return next((self.cell(one.standard) for one in self.budget.components if one.name == name), NONE)


def sources(rows: Sequence[StatedFigure]) -> str:
    """Where the parts of all these figures are from, each source once."""
    found = dict.fromkeys((one.name, one.source) for row in rows for one in row.budget.components if one.standard)
    return "; ".join(f"{name}: {source}" for name, source in found)


def stated_figures(*runs: RunSummary) -> Iterator[StatedFigure]:
    """Those of a run, or over several of the same job: of the iteration, then of the classes in the order of a run."""
    found: dict[Subject, list[StatedFigure]] = {}
    for name in _SHOWN:
        for one in readings_over(METRICS[name], runs) or ():
            if one.budget is not None:
                of = "iteration (JCT)" if one.subject is None else str(one.subject)
                found.setdefault(one.subject, []).append(StatedFigure(of, name, one.budget, METRICS[name].unit))
    yield from chain.from_iterable(found.values())


def compared_figures(pair: PairComparison) -> Iterator[StatedFigure]:
    """Of every class the ratio of two groups, then its time in each of them."""
    for one in pair.classes:
        sides = ((pair.baseline.name, one.baseline.uncertainty), (pair.other.name, one.other.uncertainty))
        for name, budget, unit in (("ratio", one.uncertainty, Unit.RATIO), *((*each, Unit.NS) for each in sides)):
            if budget is not None:
                yield StatedFigure(str(one.key), visible(name), budget, unit)


def _part(name: str) -> Column[StatedFigure]:
    meaning = _MEANINGS.get(name, "time of the cores that the hypervisor took (B)")
    return Column(name, f"standard uncertainty: {meaning}", cell=lambda row: row.standard_cell(name), sacrifice=2)


UNCERTAINTY_COLUMNS: tuple[Column[StatedFigure], ...] = (
    Column("of", "class, or the iteration", cell=lambda row: row.of, is_number=False, folds=24),
    Column("figure", "name of the metric, or the group of a time", cell=lambda row: row.figure, is_number=False),
    Column("value", "what was measured", cell=lambda row: row.cell(row.budget.value), style=bold),
    Column("± U", "expanded uncertainty: 2 × the root of the sum of the squares of the parts; a dash: not stated",  # noqa: RUF001
           cell=lambda row: row.cell(row.budget.expanded), style=bold),
    Column("U %", "the same / value", cell=lambda row: percent_cell(row.budget.relative, digits=2)),
    *map(_part, COMPONENTS),
    Column("tester", "what the tester itself added to the figure, with its sign: beside U, not in it",
           cell=lambda row: NONE if row.budget.bias is None else f"{'−' if row.budget.bias < 0 else '+'}{row.cell(abs(row.budget.bias))}",  # noqa: RUF001, E501
           is_optional=True, sacrifice=3),
    Column("not stated", "why U is not", cell=lambda row: row.budget.why or NONE, is_number=False, is_optional=True,
           folds=30, sacrifice=1),
)  # fmt: skip
