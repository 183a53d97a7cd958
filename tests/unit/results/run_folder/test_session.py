"""Tests of the folder of a session."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from emulator.errors import ResultError
from emulator.results.run_folder.manifest import SESSION
from emulator.results.run_folder.session import (
    JobFacts,
    SessionFacts,
    is_session,
    job_folder,
    load_session,
    solo_folder,
    write_session,
)
from tests.support.runs import collective, write_run

FACTS = SessionFacts(
    session_id="20260102T030405-s",
    created="2026-01-02T03:04:05+00:00",
    command_line=("charkha", "run", "-f", "session.yaml"),
    spec={"charkha": 1, "jobs": [{"name": "a"}, {"name": "b"}]},
    jobs=(
        JobFacts("a", "run-a", start_ns=1_000, solo_run_id="run-a-solo"),
        JobFacts("b", "run-b", offset_ns=3_000_000, start_ns=3_001_000, pace="continuous", until="others"),
    ),
)


def _session(folder: Path) -> None:
    write_run(job_folder(folder, "a"), collective([0, 0], [100, 110]), run_id="run-a")
    write_run(job_folder(folder, "b"), collective([5, 5], [300, 310]), run_id="run-b")
    write_run(solo_folder(folder, "a"), collective([0, 0], [50, 60]), run_id="run-a-solo")
    write_session(folder, FACTS)


def test_what_was_written_is_read_back_with_the_runs_of_all_jobs(tmp_path: Path) -> None:
    _session(tmp_path)

    session = load_session(tmp_path)

    assert session.facts == FACTS
    assert [run.manifest.run_id for run in session.jobs.values()] == ["run-a", "run-b"]
    assert {name: run.manifest.run_id for name, run in session.solo.items()} == {"a": "run-a-solo"}
    assert session.starts_ns == {"a": 1_000, "b": 3_001_000}


def test_readers_of_parquet_see_the_job_as_a_column(tmp_path: Path) -> None:
    _session(tmp_path)
    files = sorted(map(str, tmp_path.glob("job=*/samples.parquet")))

    rows = ds.dataset(files, partitioning="hive", partition_base_dir=str(tmp_path)).to_table(["job", "done_ns"])

    assert sorted(rows.to_pylist(), key=lambda row: row["done_ns"]) == [
        {"job": "a", "done_ns": 100},
        {"job": "a", "done_ns": 110},
        {"job": "b", "done_ns": 300},
        {"job": "b", "done_ns": 310},
    ]


def test_a_session_that_was_cut_short_has_the_jobs_that_there_are(tmp_path: Path) -> None:
    write_session(tmp_path, replace(FACTS, jobs=(JobFacts("a", "run-a"), JobFacts("b", "run-b"))))

    session = load_session(tmp_path)

    assert (dict(session.jobs), dict(session.starts_ns)) == ({}, {})


def test_a_run_is_a_session_of_one_job(tmp_path: Path) -> None:
    write_run(tmp_path / "run", collective([0, 0], [50, 60]), spec={"charkha": 1, "jobs": [{"name": "a"}]})

    session = load_session(tmp_path / "run")

    assert (session.is_run, session.is_complete, list(session.jobs)) == (True, True, ["a"])
    assert session.run.manifest.run_id == session.facts.session_id
    assert not is_session(tmp_path / "run")
    with pytest.raises(ResultError, match="is not a run folder"):
        load_session(tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"format_version": 2}, "has format version 2"), ({"jobs": 3}, "jobs: expected"), ({"created": None}, "created")],
)
def test_a_description_that_cannot_be_understood_is_refused(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    write_session(tmp_path, FACTS)
    document = json.loads((tmp_path / SESSION).read_text())
    (tmp_path / SESSION).write_text(json.dumps(document | change))

    with pytest.raises(ResultError, match=problem):
        load_session(tmp_path)
