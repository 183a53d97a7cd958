"""What every list of runs shows of a run, in the same words, and the checks of its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from emulator.results.run_folder.manifest import Manifest, RunFigures
from emulator.results.run_folder.store import firmware_of
from emulator.results.statistics.metric import IterationKey
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.tester_model import SLOWEST_TESTER
from emulator.results.statistics.traffic.flow_figures import FlowKey
from emulator.results.verdict.judge import Finding, Outcome
from emulator.views.columns.columns import Column, bold, unshown
from emulator.views.columns.figures import NONE, count_cell, duration_cell
from emulator.views.verdict_text import (
    describe_subject,
    network_cell,
    perfect_cell,
    uncertainty_cell,
    value_cell,
)
from emulator.visible import short

Row = TypeVar("Row")
_LONGEST_NAME = 24


@dataclass(frozen=True, slots=True)
class RunResult:
    """What lists show of a run.

    Attributes:
        verdict: None: nothing judged it.
        figures: none of them is known of a run that has not ended.
        profile: firmware of the device under test, its profile, or both; None if neither is named.
        topology: its name; None: not known.
    """

    verdict: Outcome | None = None
    figures: RunFigures = field(default_factory=RunFigures)
    profile: str | None = None
    topology: str | None = None


def _name_cell(name: str | None) -> str:
    return short(name or NONE, _LONGEST_NAME)


def result_of(manifest: Manifest | None) -> RunResult:
    """What the manifest of a run says; nothing of a run whose manifest cannot be read."""
    if manifest is None:
        return RunResult()
    figures, topology = manifest.figures or RunFigures(), manifest.topology.get("name")
    return RunResult(
        verdict=None if figures.verdict is None else Outcome(figures.verdict),
        figures=figures,
        profile=firmware_of(manifest),
        topology=None if topology is None else str(topology),
    )


def result_columns(of: Callable[[Row], RunResult]) -> tuple[Column[Row], ...]:
    """The columns of a list whose rows have a result."""

    def style(row: Row) -> str:
        verdict = of(row).verdict
        return "" if verdict is None else STYLES[verdict]

    def verdict_cell(row: Row) -> str:
        verdict = of(row).verdict
        return NONE if verdict is None else verdict.value

    return (
        Column(
            "verdict",
            "PASS, FAIL, TESTER-LIMITED (the tester determined the value, not the device) or UNDECIDED (not measured); "
            "a dash: no rules",
            key="verdict",
            value=lambda row: of(row).figures.verdict,
            cell=verdict_cell,
            is_number=False,
            is_optional=True,
            sacrifice=-1,
            style=style,
        ),
        Column(
            "JCT\np50",
            "job completion time of an iteration, median",
            key="jct_ns",
            value=lambda row: of(row).figures.jct_ns,
            show=duration_cell,
            is_optional=True,
            style=bold,
        ),
        Column(
            "lost",
            "frames that the device lost, or else packets that did not arrive; a dash: neither is counted",
            key="lost",
            value=lambda row: of(row).figures.lost,
            show=count_cell,
            is_optional=True,
        ),
        Column(
            "profile",
            "firmware of the device under test, its profile, or both",
            key="profile",
            value=lambda row: of(row).profile,
            show=_name_cell,
            is_number=False,
            is_optional=True,
            sacrifice=2,
        ),
        Column(
            "topology",
            "topology of the run",
            key="topology",
            value=lambda row: of(row).topology,
            show=_name_cell,
            is_number=False,
            is_optional=True,
            sacrifice=3,
        ),
    )


RESULT_COLUMNS = result_columns(lambda result: result)
"""Of a list whose rows are the results themselves."""


STYLES = {
    Outcome.PASS: "bold green",
    Outcome.FAIL: "bold red",
    Outcome.TESTER_LIMITED: "bold yellow",
    Outcome.UNDECIDED: "bold yellow",
}
VERDICT_COLUMNS: tuple[Column[Finding], ...] = (
    Column(
        "verdict",
        "PASS, FAIL, TESTER-LIMITED (the tester determined the value, not the device) or UNDECIDED (not known)",
        key="outcome",
        value=lambda one: one.outcome.value,
        is_number=False,
        style=lambda one: STYLES[one.outcome],
    ),
    Column(
        "metric",
        "name of the metric: `charkha runs judge --metrics` explains it",
        key="metric",
        value=lambda one: one.rule.metric.name,
        is_number=False,
    ),
    unshown("unit", lambda one: one.rule.metric.unit.value),
    unshown("device", lambda one: one.subject if isinstance(one.subject, str) else None),
    unshown("iteration", lambda one: one.subject.number if isinstance(one.subject, IterationKey) else None),
    unshown("flow", lambda one: one.subject._asdict() if isinstance(one.subject, FlowKey) else None),
    unshown("class", lambda one: asdict(one.subject) if isinstance(one.subject, ClassKey) else None),
    Column(
        "of",
        "class (collective, ranks, size and algorithm), device, or the worst iteration or flow; a dash: the whole run",
        cell=lambda one: describe_subject(one.subject).removeprefix(" of ") or NONE,
        is_number=False,
        folds=20,
    ),
    Column("value", "what was measured", key="value", cell=value_cell, style=bold),
    Column(
        "± U",
        "expanded uncertainty of the value (k = 2): where the bound lies within value ± U, the check is UNDECIDED; "
        "not stated: the value alone is compared (--json says why); exact: a count",
        key="uncertainty",
        cell=uncertainty_cell,
        sacrifice=3,
    ),
    unshown("uncertainty_why", lambda one: one.no_uncertainty),
    unshown("needs", lambda one: one.needs),
    Column(
        "perfect",
        "what a perfect device would have shown with this tester: the ideal time plus the tester's own, as measured, "
        f"or else {SLOWEST_TESTER:g} times as calibrated",
        key="perfect",
        cell=perfect_cell,
        is_optional=True,
        sacrifice=2,
    ),
    Column(
        "network",
        "the same of the network's part of the time; it decides where the whole time misses the bound",
        key="network",
        cell=network_cell,
        is_optional=True,
        sacrifice=1,
    ),
    Column(
        "rule",
        "the bound",
        key="bound",
        value=lambda one: one.rule.bound.kind,
        cell=lambda one: str(one.rule.bound),
        is_number=False,
    ),
    unshown("limit", lambda one: one.rule.bound.limit),
    Column(
        "reason",
        "why the comparison alone does not decide",
        key="reason",
        is_number=False,
        is_optional=True,
        folds=24,
        sacrifice=1,
    ),
    unshown("broken"),
    unshown("of"),
)
