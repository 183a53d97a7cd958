"""What every list of runs shows of a run, in the same words: `runs list`, a suite, the list of a service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from emulator.results.run_folder.manifest import Manifest, RunFigures
from emulator.results.run_folder.store import firmware_of
from emulator.results.verdict.judge import Outcome
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, count_cell, duration_cell
from emulator.views.columns.verdict_columns import STYLES
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
