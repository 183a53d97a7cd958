"""Where the report of a run is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import HostError
from emulator.results.run_folder.reader import Run
from emulator.views.html.facts import read_facts
from emulator.views.html.writing import report_html, write_report
from tests.support.runs import collective, ranks, write_run


def played(folder: Path, **fields: object) -> Run:
    return write_run(folder, collective([0, 0], [10, 20]), iterations={0: ranks((0, 30), (0, 25))}, **fields)


def test_the_report_is_in_the_run_folder_unless_a_file_is_named(tmp_path: Path) -> None:
    run = played(tmp_path / "run")
    assert write_report(run) == tmp_path / "run" / "report.html"
    named = write_report(run, tmp_path / "mine.html")
    assert named == tmp_path / "mine.html"
    assert named.read_text() == (tmp_path / "run" / "report.html").read_text() == report_html(read_facts(run))


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
    html = report_html(read_facts(run))
    assert "<img src=x" not in html
    assert "onerror=alert(1)" in html
