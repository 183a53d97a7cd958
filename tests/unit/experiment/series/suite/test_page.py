from __future__ import annotations

from msgspec.structs import replace

from emulator.experiment.series.suite.page import suite_page
from emulator.experiment.series.suite.record import CaseRecord, Check, RunRecord
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.verdict.judge import Outcome
from emulator.views.html.page.document import Facts, Page, Table, render
from tests.unit.experiment.series.suite.test_table import RECORD

LOST = Check(
    outcome=Outcome.FAIL,
    text="frames_lost of sw0 is 15 (at most 0)",
    metric="frames_lost",
    about="sw0",
    unit="{count}",
    value=15,
    bound="at most 0",
)
RUN = RunRecord(folder="second", run_id="r1", outcome=Outcome.FAIL, firmware="2.1", checks=(LOST,))


def tables(page: Page) -> dict[str, Table]:
    return {one.identifier: one for section in page.sections for one in section.blocks if isinstance(one, Table)}


def test_the_answer_is_on_top_and_cases_that_were_not_played_are_a_warning() -> None:
    page = suite_page(RECORD)
    assert (page.answer.word, page.answer.tone) == ("FAIL", "bad")
    assert page.answer.text.startswith("second: frames_lost is 15; 1 of 3 cases like it")
    assert page.warnings == ["1 of 3 cases not played."]
    assert page.sentence.endswith("3 cases: 1 FAIL, 1 PASS.")
    assert not suite_page(replace(RECORD, planned=2)).warnings


def test_every_case_has_a_row_and_its_checks() -> None:
    record = replace(RECORD, cases=(RECORD.cases[0], replace(RECORD.cases[1], runs=(RUN,), clause="4.1")))
    page = suite_page(record)
    found = tables(page)
    assert [row[0] for row in found["results"].rows] == ["first", "second"]
    assert found["second-checks"].rows == [["FAIL", "frames_lost", "sw0", "15", "at most 0"]]
    assert found["second-checks"].about == "Run r1 in second"
    assert "2.1" in page.labels
    assert next(one for one in page.sections if one.title == "second").about == "Clause 4.1."


def test_a_session_has_the_checks_of_every_job_and_its_row_names_them() -> None:
    runs = tuple(replace(RUN, folder=f"second/job={job}", job=job) for job in "ab")
    found = tables(suite_page(replace(RECORD, cases=(RECORD.cases[0], replace(RECORD.cases[1], runs=runs)))))
    results = found["results"]
    jobs = [header.name for header in results.columns].index("jobs")
    assert [row[jobs] for row in results.rows][1] == "a, b"
    assert [found[f"second-checks-{job}"].caption for job in "ab"] == ["Checks of job a", "Checks of job b"]


def test_a_search_has_a_row_per_trial_with_its_load() -> None:
    runs = (
        replace(RUN, folder="load/2000000-1", load=2_000_000),
        RunRecord(folder="load/1000000-1", run_id=None, outcome=Outcome.UNDECIDED, load=1_000_000, problem="lost"),
    )
    case = CaseRecord(
        name="load",
        outcome=Outcome.FAIL,
        text="none",
        metric="highest_rate",
        value=None,
        unit="bit/s",
        runs=runs,
    )
    rows = tables(suite_page(replace(RECORD, cases=(case,))))["load-trials"].rows
    assert rows == [
        ["2 Mbit/s", "FAIL", "frames_lost of sw0 is 15 (at most 0)", "load/2000000-1"],
        ["1 Mbit/s", "UNDECIDED", "lost", "load/1000000-1"],
    ]


def test_what_is_not_covered_is_in_the_method() -> None:
    page = suite_page(replace(RECORD, source="a plan", not_covered=("multicast", "storage")))
    (facts,) = (one for section in page.sections for one in section.blocks if isinstance(one, Facts))
    assert [one for one in facts.facts if one[0] == "Not covered"] == [
        ("Not covered", "multicast"),
        ("Not covered", "storage"),
    ]
    assert ("Source", "a plan") in facts.facts
    assert ("Topology", "loopback") in facts.facts


def test_a_row_has_the_figures_of_its_run_the_limit_and_a_link_to_its_report() -> None:
    run = replace(RUN, topology="lab", figures=RunFigures(verdict="FAIL", jct_ns=5_000_000, lost=15))
    case = replace(RECORD.cases[1], runs=(run,), limit="at most 0")
    results = tables(suite_page(replace(RECORD, cases=(case,)), reports={"second": "a case/report.html"}))["results"]
    row = dict(zip((one.name for one in results.columns), results.rows[0], strict=True))
    names = ("verdict", "JCT p50", "lost", "profile", "topology", "value", "limit")
    assert [row[name] for name in names] == ["FAIL", "5 ms", "15", "2.1", "lab", "15", "at most 0"]
    page = render(suite_page(replace(RECORD, cases=(case,)), reports={"second": "a case/report.html"}))
    assert '<a href="a%20case/report.html">second</a>' in page
    assert (
        "<a href"
        not in render(suite_page(replace(RECORD, cases=(case,)))).partition('id="results"')[2].partition("</table>")[0]
    )
