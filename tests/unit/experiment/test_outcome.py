"""What runs and sessions are for machines."""

from pathlib import Path

from emulator.experiment.play.outcome import report_to_json, session_to_json
from emulator.results.run_folder.session import load_session
from emulator.results.verdict.session import judge_session
from tests.unit.views.html.test_writing import session


def test_a_session_has_every_job_as_a_run_with_its_factors(tmp_path: Path) -> None:
    found = report_to_json(session(tmp_path))
    assert [(one["job"], one["start_ns"]) for one in found["jobs"]] == [("a", 1_000), ("b", 3_001_000)]
    job = found["interference"]["jobs"][0]
    assert (job["iterations"], job["iterations_left_out"], job["classes"][0]["collective"]) == (6, 2, "jct")
    assert job["classes"][0]["factor"] == 2.0
    assert job["classes"][0]["interval"] == [2.0, 2.0]
    run = session_to_json(judge_session(load_session(tmp_path / "job=a")))
    assert found["jobs"][0] == {"job": "a", "start_ns": 1_000} | run
    assert [one["run_id"] for one in found["solo"]] == ["a-solo", "b-solo"]
