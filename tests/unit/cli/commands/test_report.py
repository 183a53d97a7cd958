"""`charkha report` as a user meets it, in this process."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from tests.support.command import refused
from tests.support.runs import collective, ranks, write_run
from tests.support.sessions import PlayedJob, write_jobs


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder."""
    samples = collective([0, 0], [70, 80])
    return write_run(tmp_path / "one", samples, iterations={0: ranks((0, 100), (5, 110))}).folder


def test_the_page_is_written_into_the_run_folder_again_and_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["report", str(run)]) == 0
        assert capsys.readouterr().out == f"{run / 'report.html'}\n"
    assert "<html" in (run / "report.html").read_text()


def test_the_page_goes_where_the_user_wants_it(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").is_file()
    assert not (run / "report.html").exists()


def test_files_of_others_are_not_replaced(run: Path) -> None:
    (run / "report.html").write_text("mine")
    assert "Charkha did not write it" in refused("report", run)
    assert (run / "report.html").read_text() == "mine"


def test_json_writes_no_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_folder"] == str(run)
    assert not (run / "report.html").exists()


def test_a_session_has_a_page_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = PlayedJob(0, [1_000_000] * 3)
    folder = write_jobs(tmp_path / "both", {"a": job, "b": job}).folder
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    assert "a and b at once" in (folder / "report.html").read_text()
    assert (
        main(["report", str(folder / "job=a")]) == main(["report", str(folder), "--out", str(tmp_path / "x.html")]) == 0
    )
    page = (tmp_path / "x.html").read_text()
    assert '<a href="both/job%3Da/report.html">a</a>' in page
    assert "job%3Db" not in page
    capsys.readouterr()
    assert main(["report", str(folder), "--json"]) == 0
    assert [one["job"] for one in json.loads(capsys.readouterr().out)["interference"]["jobs"]] == ["a", "b"]


def test_other_commands_name_the_jobs_of_a_session(tmp_path: Path) -> None:
    job = PlayedJob(0, [1_000_000] * 3)
    folder = write_jobs(tmp_path / "both", {"a": job, "b": job}).folder
    for command in (("export", folder, "--to", "csv"), ("judge", folder, "example"), ("show", folder)):
        error = refused("runs", *command)
        assert f"give one of its run folders: {folder}/job=a, {folder}/job=b" in error
