"""A trace set that was drawn from the statistics of another, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType

from emulator.annexes.sharing.distance import Distance, SampledTrace
from emulator.units import format_duration, format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import count_of, number_cell
from emulator.views.terminal.table import FittedTable, facts_grid


def _sum(value: Callable[[Distance], int]) -> Callable[[Distance], str]:
    return lambda one: format_size(value(one)) if one.what == "size" else format_duration(value(one))


_COLUMNS: tuple[Column[Distance], ...] = (
    Column(
        "",
        "sizes of a kind of communication, or gaps of a role",
        title="what",
        cell=lambda one: one.what,
        is_number=False,
    ),
    Column(
        "of",
        "kind of communication; role: ranks that perform the same operations. A gap is the compute time before one",
        cell=lambda one: one.name,
        is_number=False,
    ),
    Column("n\nsource", "number of values in the source", cell=lambda one: f"{one.source_count:,}"),
    Column("n\nsample", "number of values in the sample", cell=lambda one: f"{one.sample_count:,}"),
    Column("sum\nsource", "sum of the values in the source", cell=_sum(lambda one: one.source_sum)),
    Column("sum\nsample", "sum of the values in the sample", cell=_sum(lambda one: one.sample_sum)),
    Column(
        "KS",
        "Kolmogorov-Smirnov statistic: largest difference between the two distribution functions, 0 (equal) to 1",
        cell=lambda one: number_cell(one.kolmogorov_smirnov),
    ),
)
EXPLAIN = explain(_COLUMNS, title="Distances between source and sample:")


def render(made: SampledTrace) -> RenderableType:
    """The report of `charkha trace synth`."""
    return Group(FittedTable(_COLUMNS, made.distances), "", facts_grid(_lines(made)))


def _lines(made: SampledTrace) -> Iterator[tuple[str, str]]:
    counted = [
        count_of(made.ranks, "rank"),
        f"in {count_of(made.roles, 'role')}",
        count_of(made.steps, "step"),
        f"of {count_of(made.families, 'family', 'families')} of process groups and pairs",
    ]
    yield "sample", f"{', '.join(counted)}; seed {made.seed}"
    yield "can finish", "proven"
    for title, texts in (("modelled", made.modelled), ("not modelled", made.not_modelled)):
        for number, text in enumerate(texts):
            yield ("" if number else title), text
