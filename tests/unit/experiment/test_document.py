from pathlib import Path

import pytest

from emulator.errors import InputError, PlanError
from emulator.experiment.spec.document import experiment_of_run, name_of, read_experiment, to_yaml, with_absolute_paths
from emulator.experiment.spec.readers import is_algorithm_file
from emulator.experiment.spec.spec import Agents, Campaign, Experiment, Job, Network, Observe, Trace
from emulator.planner.algorithms import algorithm_names, choose, loaded_algorithms, parse_overrides
from emulator.results.run_folder.manifest import TraceFacts
from emulator.trace.files.files import find_trace
from emulator.trace.files.load import digest
from emulator.trace.meaning.model import CommKind
from tests.support.msccl_files import ring_all_reduce
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
        ("jobs: []\n", "jobs: list at least one"),
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
    job = Job(trace=Trace(path="t"), algorithms={"all_reduce": "ring", "all_gather": "a.xml"})
    made = Experiment(jobs=(job,), agents=Agents(tls_ca="ca.pem"), campaign=Campaign(repeat=2))
    found = with_absolute_paths(made)
    assert found.job.trace == Trace(path=f"{tmp_path}/t")
    assert found.job.algorithms == {"all_reduce": "ring", "all_gather": f"{tmp_path}/a.xml"}
    assert found.agents.tls_ca == f"{tmp_path}/ca.pem"
    assert found.campaign is None


def test_a_name_stays_and_a_file_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_all_reduce(3))
    assert name_of("ring") == "ring"
    name = name_of(str(path))
    assert name.startswith("msccl:allreduce-by-hand-")
    assert (is_algorithm_file("ring"), is_algorithm_file("a/ring.xml")) == (False, True)
    assert name in algorithm_names(CommKind.ALL_REDUCE)
    assert name not in algorithm_names(CommKind.ALL_GATHER)


def test_other_content_is_another_algorithm(tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_all_reduce(3))
    first = name_of(str(path))
    assert name_of(str(path)) == first
    path.write_text(ring_all_reduce(3, channels=2))
    second = name_of(str(path))
    assert first != second
    assert {first, second} <= set(loaded_algorithms())


def test_it_is_chosen_where_it_fits(tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_all_reduce(3).replace('minBytes="0" maxBytes="0"', 'minBytes="100" maxBytes="1000"'))
    name = name_of(str(path))
    overrides = parse_overrides([f"all_reduce={name}"])
    chosen = {
        (members, size): choose(CommKind.ALL_REDUCE, members=members, size_bytes=size, overrides=overrides) == name
        for members, size in ((3, 500), (3, 99), (3, 1001), (4, 500))
    }
    assert chosen == {(3, 500): True, (3, 99): False, (3, 1001): False, (4, 500): False}
    with pytest.raises(PlanError, match=r"ring.xml: computes all_reduce, not all_gather"):
        parse_overrides([f"all_gather={name}"])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"none.xml: cannot be read \(No such file or directory\)"):
        name_of(str(tmp_path / "none.xml"))
    (tmp_path / "bad.xml").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match=r"bad.xml: is not UTF-8 text"):
        name_of(str(tmp_path / "bad.xml"))
