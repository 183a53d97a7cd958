from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.experiment.absolute_paths import with_absolute_paths
from emulator.experiment.document import experiment_of_run, read_experiment, to_yaml
from emulator.experiment.spec import Agents, Campaign, Experiment, Job, Network, Observe, Trace
from emulator.run_folder.manifest import TraceFacts
from emulator.wire.trace.files import find_trace
from emulator.wire.trace.load import digest
from tests.support.runs import write_run

EXAMPLE = Path(__file__).parents[3] / "lab" / "examples" / "transformer-8r"


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def test_paths_in_a_file_count_from_its_folder(tmp_path: Path) -> None:
    text = "jobs: [{trace: {path: traces/a, groups: /g.json}}]\nnetwork: {topology: t.yaml}\nagents: {token_file: k}\n"
    found = read_experiment(write(tmp_path, text))
    assert found.job.trace == Trace(path=f"{tmp_path}/traces/a", groups="/g.json")
    assert found.network.topology == f"{tmp_path}/t.yaml"
    assert found.agents.token_file == f"{tmp_path}/k"
    assert found.observe.calibration is None


def test_a_written_run_spec_reads_as_it_was(tmp_path: Path) -> None:
    made = Experiment(
        jobs=(Job(trace=Trace(path="/t", scale_bytes="1/64"), algorithms={"all_reduce": "ring"}, compute="skip"),),
        network=Network(topology="/t.yaml", allow_networks=("192.0.2.0/24",)),
        observe=Observe(report=False),
        campaign=Campaign(repeat=3, profiles=("fw-a", "fw-b")),
        seed=7,
    )
    assert read_experiment(write(tmp_path, to_yaml(made))) == made


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("jobs:\n- trace: {path: t}\n  iteratons: 3\n", "run.yaml:2, jobs[0]: unknown key 'iteratons'"),
        ("jobs:\n- trace: {path: t}\n  iterations: many\n", "run.yaml:3, jobs[0].iterations: expected int"),
        ("jobs: []\n", "jobs: name at least one"),
        ("a: 1\na: 2\n", "twice"),
        ("[1, 2", "run.yaml:1: is"),
    ],
)
def test_what_is_wrong_is_named_by_file_line_and_key(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_experiment(write(tmp_path, text))
    assert problem in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.yaml"):
        read_experiment(tmp_path / "missing.yaml")


def test_a_stored_run_gives_its_run_spec(tmp_path: Path) -> None:
    made = with_absolute_paths(Experiment(jobs=(Job(trace=Trace(path=str(EXAMPLE)), iterations=2),)))
    facts = TraceFacts(str(EXAMPLE), digest(find_trace(EXAMPLE, ranks=None)), 8, 0, 0)
    run = write_run(tmp_path / "run", [], spec=made.to_plain(), trace=facts)
    assert experiment_of_run(run) == made


def test_a_run_whose_trace_has_changed_is_not_repeated(tmp_path: Path) -> None:
    made = Experiment(jobs=(Job(trace=Trace(path=str(EXAMPLE))),))
    run = write_run(tmp_path / "run", [], spec=made.to_plain())
    with pytest.raises(InputError, match="the trace has changed since"):
        experiment_of_run(run)


def test_a_run_without_a_spec_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be repeated"):
        experiment_of_run(write_run(tmp_path / "run", []))


def test_absolute_paths_leave_the_campaign_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    made = Experiment(jobs=(Job(trace=Trace(path="t")),), agents=Agents(tls_ca="ca.pem"), campaign=Campaign(repeat=2))
    found = with_absolute_paths(made)
    assert found.job.trace == Trace(path=f"{tmp_path}/t")
    assert found.agents.tls_ca == f"{tmp_path}/ca.pem"
    assert found.campaign is None
