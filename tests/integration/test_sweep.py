"""Sweeps from the command line: over loopback, resumed, refused before any traffic."""

import json
from pathlib import Path

import pytest

from emulator import exit_codes
from tests.integration.test_suite import complete_runs
from tests.support.command import charkha, refused

SPEC = """\
charkha: 1
jobs: [{iterations: 2, warmup: 0, sweep: {collective: all_reduce, ranks: 2, sizes: [1K]}}]
observe: {report: false}
"""


def test_a_sweep_is_resumed_with_a_value_more(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(SPEC)
    sweep = ("sweep", "-f", "run.yaml", "--out", "out", "--json", "--vary")
    assert charkha(*sweep, "qps=1", cwd=tmp_path).code == exit_codes.DONE
    before = complete_runs(tmp_path / "out")
    resumed = charkha(*sweep, "qps=1,2", "--resume", cwd=tmp_path)
    assert resumed.code == exit_codes.DONE, resumed.stderr
    after, result = complete_runs(tmp_path / "out"), json.loads(resumed.stdout)
    assert set(before) == {"qps=1/01"}
    assert set(after) == {"qps=1/01", "qps=2/01"}
    assert before.items() <= after.items()
    assert [one["values"] for one in result["points"]] == [{"qps": "1"}, {"qps": "2"}]
    assert all(one["jct_ns"]["value"] > 0 for one in result["points"])
    assert "charkha sweep" in (tmp_path / "out" / "report.html").read_text()


def test_two_jobs_are_swept_over_the_start_of_the_second(tmp_path: Path) -> None:
    job = "warmup: 1, pace: continuous, sweep: {collective: all_reduce, ranks: 2, sizes: [1K]}"
    jobs = "".join(f"  - {{name: {name}, iterations: 8, {job}}}\n" for name in "ab")
    (tmp_path / "session.yaml").write_text(f"charkha: 1\njobs:\n{jobs}observe: {{report: false}}\n")
    vary = ("--vary", "job.start=0ms,2ms")
    played = charkha("sweep", "-f", "session.yaml", *vary, "--out", "out", "--json", cwd=tmp_path)
    assert played.code == exit_codes.DONE, played.stderr
    points = json.loads(played.stdout)["points"]
    assert [one["values"] for one in points] == [{"job.start": "0ms"}, {"job.start": "2ms"}]
    for point in points:
        assert [one["job"] for one in point["jobs"]] == ["a", "b"]
        assert all(one["covered"] + one["left_out"] == 8 for one in point["jobs"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Interference factor over job.start" in page
    assert set(complete_runs(tmp_path / "out")) == {  # alone once: when they meet does not matter there
        *(f"job.start=0ms/01/solo/job={name}" for name in "ab"),
        *(f"job.start={start}/01/job={name}" for name in "ab" for start in ("0ms", "2ms")),
    }
    again = charkha("sweep", "-f", "session.yaml", *vary, "--out", "out", "--resume", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["points"] == points


def test_jobs_that_a_barrier_would_move_are_not_swept_over_their_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = "".join(f"  - {{name: {name}, sweep: {{collective: all_reduce, ranks: 2, sizes: [1K]}}}}\n" for name in "ab")
    (tmp_path / "session.yaml").write_text(f"charkha: 1\njobs:\n{jobs}")
    monkeypatch.chdir(tmp_path)
    sweep = ("sweep", "-f", "session.yaml", "--vary")
    assert "job a needs `pace: continuous`" in refused(*sweep, "job.start=0ms,2ms")
    assert "this run spec has no such setting" in refused(*sweep, "job.repeats=2,4")
