"""What the search for the highest load says it found."""

from __future__ import annotations

import pytest

from emulator.experiment.series.suite.document import Case
from emulator.experiment.series.suite.record import CaseRecord, Check, RunRecord
from emulator.experiment.series.suite.search import Search
from emulator.experiment.series.suite.search_record import search_record
from emulator.experiment.spec.spec import Experiment
from emulator.results.verdict.judge import Outcome
from emulator.results.verdict.rules import Rules

PASS, FAIL, LIMITED = Outcome.PASS, Outcome.FAIL, Outcome.TESTER_LIMITED
CASE = Case("load", "highest load", "26.1", Experiment.of_trace("t"), Rules("r", ()), "")


def found(at_least: int = 100_000_000, **loads: Outcome) -> CaseRecord:
    """The record of runs at loads such as `m500` (500 Mbit/s)."""
    search = Search("rate", 100_000_000, 1_000_000_000, resolution=0.05, trials=1, at_least=at_least)
    runs = []
    for name, outcome in loads.items():
        check = Check(
            outcome=outcome, text="3 frames lost", metric="frames_lost", about="", unit="1", value=3, bound="≤ 0"
        )
        runs.append(
            RunRecord(folder=name, run_id=name, outcome=outcome, load=int(name[1:]) * 1_000_000, checks=(check,))
        )
    return search_record(CASE, search, runs)


def test_the_highest_load_and_what_the_next_one_shows() -> None:
    one = found(m1000=FAIL, m100=PASS, m550=PASS, m775=FAIL)
    assert (one.outcome, one.metric, one.value, one.unit) == (PASS, "highest_rate", 550_000_000, "bit/s")
    assert one.text == "highest rate that passes is 550 Mbit/s (at 775 Mbit/s: 3 frames lost)"


def test_the_whole_range_passes() -> None:
    one = found(m1000=PASS)
    assert (one.outcome, one.text) == (PASS, "the highest rate of the range, 1 Gbit/s, passes")


def test_nothing_passes() -> None:
    one = found(m1000=FAIL, m100=FAIL)
    assert (one.outcome, one.value) == (FAIL, None)
    assert one.text == "no rate from 100 Mbit/s to 1 Gbit/s passes (at 100 Mbit/s: 3 frames lost)"


@pytest.mark.parametrize(("outcome", "answer"), [(FAIL, FAIL), (LIMITED, LIMITED)])
def test_a_load_below_the_one_required_is_judged_by_what_stopped_it(outcome: Outcome, answer: Outcome) -> None:
    assert found(800_000_000, m1000=outcome, m100=PASS, m550=PASS, m775=outcome).outcome is answer
