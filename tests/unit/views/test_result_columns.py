"""Columns of the table of checks."""

from pathlib import Path

import pytest

from emulator.results.verdict.judge import Finding, Outcome
from emulator.views.columns.figures import NONE
from emulator.views.columns.result_columns import STYLES, VERDICT_COLUMNS
from tests.unit.views.terminal.test_verdict_table import rule, verdict


def cells(one: Finding) -> dict[str, str]:
    return {column.header: column.cell(one) for column in VERDICT_COLUMNS}


def test_a_check_of_a_class_shows_value_bound_and_class(tmp_path: Path) -> None:
    [finding] = verdict(tmp_path, rule("cct_p50", 10)).findings
    found = cells(finding)
    assert (found["verdict"], found["metric"], found["value"], found["rule"]) == (
        "FAIL",
        "cct_p50",
        "100 ns",
        "at most 10",
    )
    assert found["of"].startswith("all_reduce 2 ranks 1000 B")


def test_a_check_of_the_run_has_a_dash_for_the_class_and_for_no_reason(tmp_path: Path) -> None:
    [finding] = verdict(tmp_path, rule("jct", 900)).findings
    found = cells(finding)
    assert found["of"] == found["reason"] == NONE


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_a_style(outcome: Outcome) -> None:
    assert STYLES[outcome].startswith("bold ")
