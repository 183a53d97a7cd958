from __future__ import annotations

from pathlib import Path

from emulator.results.run_folder.session import StoredSession
from emulator.results.verdict.session import judge_session
from emulator.views.as_json.interference import session_to_json
from emulator.views.html.page.document import Chart, Facts, Table
from emulator.views.html.session_page import session_page
from emulator.views.terminal.interference_table import render_interference
from tests.support.report import block_of, drawn, records
from tests.support.sessions import PlayedJob, write_jobs
from tests.support.terminal import rows_of, shown
from tests.unit.results.comparison.test_interference import ALONE


def session(folder: Path) -> StoredSession:
    """b begins when three iterations of a are over, and goes on when a has ended."""
    a = PlayedJob(1_000, [1_000_000] * 3 + [2_000_000] * 6, ALONE)
    return write_jobs(folder, {"a": a, "b": PlayedJob(3_001_000, [2_000_000] * 7 + [1_000_000] * 2, ALONE)})


def test_the_page_says_what_the_jobs_do_to_each_other(tmp_path: Path) -> None:
    page = session_page(judge_session(session(tmp_path)))
    assert page.sentence.startswith(
        "a takes 2.000 times as long as alone (2.000 to 2.000), b takes 2.000 times as long as alone"
    )
    assert "fairness 1.0000" in page.sentence
    assert page.answer is not None
    assert page.answer.word == "Played"
    jobs, interference, time_line = page.sections
    assert [(one["job"], one["began"]) for one in records(block_of(jobs, "job-table", Table))] == [
        ("a", "0 ns"),
        ("b", "3 ms"),
    ]
    row = records(block_of(interference, "factors", Table))[0]
    assert (row["job"], row["class"], row["alone"], row["shared"], row["factor"]) == (
        "a",
        "JCT",
        "1 ms",
        "2 ms",
        "2.000",
    )
    facts = dict(block_of(interference, "interference-facts", Facts).facts)
    assert facts["Job a"].startswith("6 iterations covered by the other jobs; 2 excluded")
    bars = drawn(block_of(time_line, "session-line", Chart), "bars")
    assert [one["what"] for one in bars if one["job"] == "a"] == ["warm-up", *["not covered"] * 2, *["counts"] * 6]
    assert (bars[0]["begin_ns"], bars[0]["end_ns"]) == (0, 1_000_000)


def test_the_terminal_has_the_same_table(tmp_path: Path) -> None:
    text = shown(render_interference(judge_session(session(tmp_path)).interference), width=120)
    assert rows_of(text)[0] == ["a", "JCT", "1", "ms", "2", "ms", "2.000", "2.000", "to", "2.000", "8", "/", "6"]
    assert "Fairness" in text


def test_json_has_every_job_with_its_factors(tmp_path: Path) -> None:
    found = session_to_json(judge_session(session(tmp_path)))
    assert [one["job"] for one in found["jobs"]] == ["a", "b"]
    job = found["interference"]["jobs"][0]
    assert (job["iterations"], job["iterations_left_out"], job["classes"][0]["collective"]) == (6, 2, "jct")
    assert job["classes"][0]["factor"] == 2.0
    assert job["classes"][0]["interval"] == [2.0, 2.0]


def test_without_a_job_alone_the_page_says_so(tmp_path: Path) -> None:
    one = PlayedJob(0, ALONE)
    page = session_page(judge_session(write_jobs(tmp_path, {"a": one, "b": one})))
    assert page.sentence == "No job was played alone (--solo), so there is no interference factor."


def test_a_session_that_was_cut_short_has_a_page(tmp_path: Path) -> None:
    page = session_page(judge_session(write_jobs(tmp_path, {"a": PlayedJob(0, ALONE, ALONE), "b": PlayedJob(0, [])})))
    assert dict(block_of(page.sections[1], "interference-facts", Facts).facts)["Job a"].startswith("0 iterations")
    assert page.sentence.startswith("No iteration of a job with a solo run counts")
