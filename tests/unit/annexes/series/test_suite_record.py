"""The result of a suite: its answer, and its file."""

from pathlib import Path

import pytest

from emulator.annexes.series.suite_document import Case
from emulator.annexes.series.suite_record import (
    CaseRecord,
    Check,
    RunRecord,
    SuiteRecord,
    case_record,
)
from emulator.errors import InputError
from emulator.experiment.spec.spec import Experiment
from emulator.results.verdict.judge import Outcome
from emulator.results.verdict.rules import Rules

PASS, FAIL, LIMITED, UNDECIDED = Outcome.PASS, Outcome.FAIL, Outcome.TESTER_LIMITED, Outcome.UNDECIDED


def case(name: str, outcome: Outcome, *, calibrated: bool = True) -> CaseRecord:
    run = RunRecord(folder=name, run_id=name, outcome=outcome, is_calibrated=calibrated)
    return CaseRecord(name=name, outcome=outcome, text=f"{name} it is", runs=(run,))


def record(*cases: CaseRecord, planned: int | None = None) -> SuiteRecord:
    count = len(cases) if planned is None else planned
    return SuiteRecord(suite="s", digest="d", started="2026-01-02T03:04:05+00:00", planned=count, cases=cases)


def check(outcome: Outcome = FAIL) -> Check:
    return Check(outcome=outcome, text="busbw is low", metric="busbw", about="", unit="By/s", value=1.0, bound="≥ 2")


@pytest.mark.parametrize(
    ("outcomes", "planned", "answer"),
    [
        ((PASS, PASS), 2, PASS),
        ((PASS, FAIL), 2, FAIL),
        ((PASS, LIMITED), 2, LIMITED),
        ((PASS,), 2, UNDECIDED),  # not finished
        ((FAIL,), 2, FAIL),  # what failed has failed
        ((), 2, UNDECIDED),
    ],
)
def test_the_gravest_case_decides_and_an_unfinished_suite_never_passes(
    outcomes: tuple[Outcome, ...], planned: int, answer: Outcome
) -> None:
    assert record(*(case(f"c{n}", one) for n, one in enumerate(outcomes)), planned=planned).outcome is answer


def test_the_answer_says_why_and_how_many() -> None:
    assert record(case("a", PASS)).text == "its only case passed; s"
    assert record(case("a", PASS), case("b", PASS)).text == "all 2 cases passed; s"
    assert record(case("a", PASS), planned=3).text == "2 of 3 cases not played; s"
    assert record(case("a", PASS), case("b", FAIL), case("c", FAIL)).text == "b: b it is; 2 of 3 cases are FAIL; s"


def test_the_answer_says_that_the_tester_was_not_calibrated() -> None:
    assert record(case("a", PASS, calibrated=False)).text.endswith("; s; tester not calibrated")


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    whole = record(case("a", PASS), case("b", LIMITED), planned=3)
    whole.write(tmp_path)
    assert SuiteRecord.read(tmp_path) == whole


def test_the_file_begins_with_the_answer() -> None:
    assert list(record(case("a", PASS)).to_plain())[:2] == ["outcome", "text"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "not the folder of a suite"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"charkha_suite_result": 2}', "charkha_suite_result"),
    ],
)
def test_what_is_no_result_is_refused_by_name(content: str | None, problem: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / SuiteRecord.FILE).write_text(content)
    with pytest.raises(InputError, match=problem) as refused:
        SuiteRecord.read(tmp_path)
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    ("outcome", "problem", "checks", "text"),
    [
        (FAIL, "", (check(),), "busbw is low"),
        (UNDECIDED, "agent lost", (), "the run failed: agent lost"),
        (UNDECIDED, "agent lost", (check(PASS),), "the run failed: agent lost"),
        (FAIL, "agent lost", (check(),), "busbw is low; the run failed: agent lost"),
    ],
)
def test_a_case_says_what_decided_it(outcome: Outcome, problem: str, checks: tuple[Check, ...], text: str) -> None:
    run = RunRecord(folder="f", run_id="r", outcome=outcome, problem=problem, checks=checks)
    one = case_record(Case("c", "", None, Experiment.of_trace("t"), Rules("r", ()), ""), [run])
    assert (one.outcome, one.text) == (outcome, text)
    assert one.value == (1.0 if checks else None)
