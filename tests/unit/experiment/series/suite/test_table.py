from __future__ import annotations

from pathlib import Path

import pytest

from emulator.cli.output import print_tables
from emulator.experiment.series.suite.record import CaseRecord, SuiteRecord
from emulator.experiment.series.suite.table import RESULTS, deciding_cell, render_result
from emulator.results.verdict.judge import Outcome
from emulator.views.terminal.table import FittedTable
from tests.support.terminal import rows_of, shown


def case(name: str, outcome: Outcome, metric: str, value: float | None, unit: str) -> CaseRecord:
    text = f"{metric} is {value}"
    return CaseRecord(name=name, outcome=outcome, text=text, metric=metric, value=value, unit=unit, runs=())


RECORD = SuiteRecord(
    suite="three",
    digest="0",
    started="2026-01-02T03:04:05+00:00",
    planned=3,
    cases=(
        case("first", Outcome.PASS, "busbw_to_ideal", 97.3, "%"),
        case("second", Outcome.FAIL, "frames_lost", 15, "{count}"),
    ),
)


def test_the_outcome_is_the_last_column_to_go() -> None:
    text = shown(
        FittedTable(RESULTS, [case("a_case_with_a_long_name", Outcome.FAIL, "frames_lost", 15, "{count}")]), width=24
    )
    assert rows_of(text)[0] == ["FAIL"]


def test_the_answer_is_the_first_line_and_every_case_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables(*render_result(RECORD, Path("suites/x")))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAIL: second: frames_lost is 15; 1 of 3 cases like it; three")
    assert [line.split()[:5] for line in lines if line.startswith(("first", "second"))] == [
        ["first", "PASS", "busbw_to_ideal", "97.3", "%"],
        ["second", "FAIL", "frames_lost", "15", "frames_lost"],
    ]
    assert lines[-1] == "Folder of the suite: suites/x"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (25e6, "ns", "25 ms"),
        (381_250_000, "bit/s", "381.2 Mbit/s"),
        (1 << 20, "By", "1 MiB"),
        (1.05, "1", "1.05"),
        (None, "ns", "–"),  # noqa: RUF001 (what tables show for an unknown value)
    ],
)
def test_a_figure_has_its_unit(value: float | None, unit: str, text: str) -> None:
    assert deciding_cell(case("a", Outcome.PASS, "m", value, unit)) == text
