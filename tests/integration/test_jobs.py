"""Several jobs at once: real agents on loopback, everything else in this process."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator import exit_codes
from emulator.errors import InputError, PlanError
from emulator.experiment.play.play import play
from emulator.experiment.spec.document import experiment_of_run, to_yaml
from emulator.experiment.spec.spec import Experiment
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import load_session
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.schema import decode
from tests.support.command import charkha, here

START_MS = 7


def sweep(ranks: int, *sizes: object, collective: str = "all_reduce") -> dict[str, Any]:
    return {"collective": collective, "ranks": ranks, "sizes": sizes or ("4K",)}


def session(*jobs: dict[str, Any], **parts: Any) -> Experiment:
    common = {"network": {"transport": {"name": "zmq"}}, "agents": {"count": 1}, "observe": {"report": False}}
    return decode({"jobs": list(jobs), **common, **parts}, Experiment)


def windows(run: Run) -> np.ndarray[Any, Any]:
    """First start and last end of each iteration, warm-up included."""
    table = run.table(RunTable.ITERATIONS)
    number, start, end = (to_ints(table[name]) for name in ("iteration", "start_ns", "end_ns"))
    return np.array([(start[number == one].min(), end[number == one].max()) for one in np.unique(number)])


def test_jobs_are_runs_of_their_own_on_one_clock(tmp_path: Path) -> None:
    first = {"name": "a", "sweep": sweep(2), "iterations": 4}
    second = {"name": "b", "sweep": sweep(3, "1K"), "until": "others", "pace": "continuous", "start": f"{START_MS}ms"}
    played = play(session(first, second), tmp_path / "s")

    a, b = played.jobs["a"], played.jobs["b"]
    assert [run.manifest.status for run in (a, b)] == ["complete", "complete"]
    assert played.starts_ns["b"] - played.starts_ns["a"] == START_MS * 1_000_000
    assert [run.manifest.trace.ranks for run in (a, b)] == [2, 3]
    assert set(a.manifest.topology["addresses"]).isdisjoint(b.manifest.topology["addresses"])
    for name, run in played.jobs.items():
        assert 0 <= windows(run)[0, 0] - played.starts_ns[name] < 60 * 10**9
        assert np.all(np.diff(windows(run)[:, 1]) >= 0)
    assert windows(a)[-1, 1] <= windows(b)[-1, 1]

    iterations = b.manifest.trials.included
    assert (a.manifest.trials.included, b.manifest.trials.excluded) == (4, ())
    assert b.manifest.parameters["iterations"].value == iterations > 0
    again = experiment_of_run(b)
    assert len(again.jobs) == 1
    assert (again.job.iterations, again.job.pace, again.job.until) == (iterations, "continuous", None)
    samples = b.table(RunTable.SAMPLES)
    assert samples.num_rows == 3 * (iterations + b.manifest.trials.warmup)


def test_the_command_plays_each_job_alone_first_and_prints_them_all(tmp_path: Path) -> None:
    spec = session({"name": "a", "sweep": sweep(2), "iterations": 1}, {"name": "b", "sweep": sweep(2), "iterations": 1})
    (tmp_path / "s.yaml").write_text(to_yaml(spec))
    (tmp_path / "rules.yaml").write_text("charkha_rules: 1\nrules: [{metric: incomplete, at_least: 1}]\n")

    finished = charkha("run", "-f", "s.yaml", "--solo", "--out", "s", "--expect", "rules.yaml", "--json", cwd=tmp_path)

    assert finished.code == exit_codes.EXPECTATION_FAILED, finished.stderr
    printed = json.loads(finished.stdout)
    assert printed["verdict"] == {"outcome": "FAIL", "job": "a"}
    assert [one["job"] for one in printed["jobs"]] == [one["job"] for one in printed["solo"]] == ["a", "b"]
    assert printed == json.loads(here("report", "s", "--json", cwd=tmp_path).stdout)
    found = load_session(tmp_path / "s")
    assert {job.name: job.solo_run_id for job in found.facts.jobs} == {
        name: run.manifest.run_id for name, run in found.solo.items()
    }
    for name, run in found.solo.items():
        assert run.manifest.parameters == found.jobs[name].manifest.parameters


@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        ([{"sweep": sweep(2)}, {"sweep": sweep(2)}], "jobs a and b both have ranks at 127.77.0.1 of host h0"),
        (
            [{"sweep": sweep(2, *range(4, 4 * 5000, 4)), "pace": "continuous"}, {"sweep": sweep(2)}],
            "pace continuous: rank 0 has 4,999 nodes, but agents hold only 4,096",
        ),
    ],
    ids=["one address", "long programs"],
)
def test_what_cannot_be_done_is_refused_before_any_traffic(
    jobs: list[dict[str, Any]], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "t.yaml").write_text("hosts:\n- {name: h0, address: 127.77.0.1}\n- {name: h1, address: 127.77.0.2}\n")
    network = {"topology": str(tmp_path / "t.yaml"), "transport": {"name": "roce"}}
    named = [{"name": name, **job} for name, job in zip("ab", jobs, strict=True)]
    spec = session(*named, network=network)
    with pytest.raises(PlanError, match=problem):
        play(spec, tmp_path / "s", solo=True)
    assert not (tmp_path / "s").exists()


def test_a_session_is_written_once(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(InputError, match="is not empty; choose a different --out"):
        play(session({"name": "a", "sweep": sweep(2)}, {"name": "b", "sweep": sweep(2)}), tmp_path)
