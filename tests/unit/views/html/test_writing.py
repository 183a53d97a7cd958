"""Where the report of a run is written."""

from pathlib import Path

import pytest

from emulator.errors import HostError
from emulator.results.run_folder.session import StoredSession, session_of
from emulator.results.verdict.session import judge_session
from emulator.views.html.page.document import Facts, Page, render
from emulator.views.html.writing import report_page, session_page, write_report
from emulator.views.terminal.interference_table import render_interference
from tests.support.report import block_of
from tests.support.runs import collective, ranks, write_run
from tests.support.sessions import PlayedJob, write_jobs
from tests.support.terminal import rows_of, shown
from tests.unit.results.comparison.test_interference import ALONE


def played(folder: Path, **fields: object) -> StoredSession:
    run = write_run(folder, collective([0, 0], [10, 20]), iterations={0: ranks((0, 30), (0, 25))}, **fields)
    return session_of(run)


def test_the_report_is_in_the_run_folder_unless_a_file_is_named(tmp_path: Path) -> None:
    run = played(tmp_path / "run")
    assert write_report(run) == tmp_path / "run" / "report.html"
    named = write_report(run, tmp_path / "mine.html")
    assert named == tmp_path / "mine.html"
    assert named.read_text() == (tmp_path / "run" / "report.html").read_text() == render(report_page(run, run.folder))


def test_an_existing_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("x" * 10_000_000)
    write_report(played(tmp_path / "run"), target)
    assert target.read_text().lstrip().lower().startswith("<!doctype html>")
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".charkha")] == []


def test_a_file_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="nowhere"):
        write_report(played(tmp_path / "run"), tmp_path / "nowhere" / "report.html")


def test_what_a_run_is_called_is_text_never_markup(tmp_path: Path) -> None:
    run = played(tmp_path / "run", command_line=("charkha", "run", "<img src=x onerror=alert(1)>"))
    html = render(report_page(run, run.folder))
    assert "<img src=x" not in html
    assert "onerror=alert(1)" in html


def page_of(found: StoredSession) -> Page:
    return session_page(judge_session(found), found.folder)


def session(folder: Path) -> StoredSession:
    """b begins when three iterations of a are over, and goes on when a has ended."""
    a = PlayedJob(1_000, [1_000_000] * 3 + [2_000_000] * 6, ALONE)
    return write_jobs(folder, {"a": a, "b": PlayedJob(3_001_000, [2_000_000] * 7 + [1_000_000] * 2, ALONE)})


def test_the_terminal_has_the_same_table(tmp_path: Path) -> None:
    text = shown(render_interference(judge_session(session(tmp_path)).interference), width=120)
    assert rows_of(text)[0] == ["a", "JCT", "1", "ms", "2", "ms", "2.000", "2.000", "to", "2.000", "8", "/", "6"]
    assert "Fairness" in text


def test_without_a_job_alone_the_page_says_so(tmp_path: Path) -> None:
    one = PlayedJob(0, ALONE)
    page = page_of(write_jobs(tmp_path, {"a": one, "b": one}))
    assert page.sentence == "No job was played alone (--solo), so there is no interference factor."


def test_a_session_that_was_cut_short_has_a_page(tmp_path: Path) -> None:
    page = page_of(write_jobs(tmp_path, {"a": PlayedJob(0, ALONE, ALONE), "b": PlayedJob(0, [])}))
    assert dict(block_of(page.sections[1], "interference-facts", Facts).facts)["Job a"].startswith("0 iterations")
    assert page.sentence.startswith("No iteration of a job with a solo run counts")
