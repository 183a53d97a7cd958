"""Columns of the result of a suite: a row per case; with several firmware profiles, what changes with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from emulator.annexes.series.run_set import stated_cell
from emulator.annexes.series.suite_record import BITS_PER_S, SHARE, CaseRecord, Check, SuiteRecord
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.statistics.metric import Unit
from emulator.results.verdict.judge import Outcome, gravest
from emulator.units import format_size
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, count_of, link_rate_cell
from emulator.views.columns.result_columns import STYLES, RunResult, result_columns
from emulator.views.verdict_text import metric_cell
from emulator.visible import visible


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
    run, as_one = one.decisive, one.as_one
    if run is None:
        return RunResult(verdict=one.outcome)
    figures = run.figures if as_one is None else as_one.figures
    return RunResult(one.outcome, figures or RunFigures(), run.firmware, run.topology)


def uncertainty_cell(one: CaseRecord) -> str:
    """U of the figure that decides, `exact`, or `not stated`; a dash of a load, and if nothing was measured."""
    return check_uncertainty_cell(one.checks[0]) if one.checks else NONE


def check_uncertainty_cell(one: Check) -> str:
    """The same of a check."""
    if one.value is None:
        return NONE
    if one.uncertainty is None and Unit(one.unit) is Unit.COUNT:
        return "exact"
    return (
        stated_cell(one.uncertainty, lambda expanded: metric_cell(expanded, Unit(one.unit)))
        if one.uncertainty
        else "not stated"
    )


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
    Column(
        "± U",
        "expanded uncertainty of the value (k = 2); not stated: suite.json says why; exact: a count",
        cell=uncertainty_cell,
        is_optional=True,
        sacrifice=3,
    ),
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


def outcome_column(header: str, record: SuiteRecord) -> Column[str]:
    """Name of a case → its outcome in a suite, with the figure that decides."""
    cases = {one.name: one for one in record.cases}
    return Column(
        header,
        cell=lambda name: _outcome_cell(cases.get(name)),
        is_number=False,
        style=lambda name: STYLES[cases[name].outcome] if name in cases else "",
    )


def _outcome_cell(one: CaseRecord | None) -> str:
    """`PASS 98.1 %`."""
    if one is None:
        return NONE
    if one.value is None:
        return one.outcome.value
    u = uncertainty_cell(one)
    return f"{one.outcome.value} {deciding_cell(one)}" + (f" ± {u}" if u[0].isdigit() else "")


Records: TypeAlias = Mapping[str, SuiteRecord]
"""Group of a profile → the result of the suite with it, in the folder of this name; "" where there is only one."""


def is_one(records: Records) -> bool:
    """Whether the suite was played once, without other profiles."""
    return list(records) == [""]


def outcome_of(records: Records) -> Outcome:
    """The gravest of all profiles."""
    return gravest(one.outcome for one in records.values())


def results_to_json(records: Records) -> dict[str, Any]:
    """The result; with several profiles the outcome, what changed with the profile by case, and every result."""
    if is_one(records):
        return next(iter(records.values())).to_plain()
    return {
        "outcome": outcome_of(records).value,
        "changes": {name: changes(records, name) for name in cases_of(records)},
        "profiles": {group: one.to_plain() for group, one in records.items()},
    }


def changes(records: Records, case: str) -> list[str]:
    """What another profile changes against the first one: the outcome, or the figure that decides."""
    first, *others = ({one.name: one for one in record.cases}.get(case) for record in records.values())
    groups = list(records)[1:]
    return [
        f"{group}: {text}"
        for group, other in zip(groups, others, strict=True)
        if first is not None and other is not None and (text := _change(first, other))
    ]


def _change(first: CaseRecord, other: CaseRecord) -> str:
    if other.outcome is not first.outcome:
        return f"{first.outcome.value} → {other.outcome.value}"
    if not first.value or other.value is None or first.metric != other.metric or first.value == other.value:
        return ""
    return f"{first.metric} {other.value / first.value - 1:+.1%}"


def text_of(records: Records) -> str:
    """The answer on one line, after the outcome."""
    if is_one(records):
        return next(iter(records.values())).text
    altered = [name for name in cases_of(records) if any(" → " in one for one in changes(records, name))]
    verdicts = f"the verdict of {', '.join(altered)} changes" if altered else "no verdict changes"
    left = sum(one.left for one in records.values())
    missing = f"{count_of(left, 'case')} not played" if left else ""
    return "; ".join(filter(None, [f"{verdicts} with the profile" if cases_of(records) else "", missing]))


def cases_of(records: Records) -> list[str]:
    """Names of the cases, in order."""
    return list(dict.fromkeys(case.name for record in records.values() for case in record.cases))


def columns_of(records: Records) -> list[Column[str]]:
    """Name of a case → its outcome with each profile, and what changed."""
    first: Column[str] = Column("case", "name of the case, and of its folder", cell=lambda name: name, is_number=False)
    change: Column[str] = Column(
        "change",
        "against the first profile: another verdict, or the figure that decides (one run each)",
        cell=lambda name: "; ".join(changes(records, name)) or NONE,
        is_number=False,
        folds=30,
    )
    return [first, *(outcome_column(group, record) for group, record in records.items()), change]
