import re
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import PlanError, TraceError
from emulator.experiment.settle.workload import load_from_files, load_job, planned_sweep
from emulator.experiment.spec.spec import Job, Pairs, Sweep, Trace
from emulator.trace.meaning.model import CommKind
from tests.support.trace_files import write

EXAMPLE = str(Path(__file__).parents[3] / "lab" / "examples" / "transformer-8r")


def test_a_trace_is_read_with_its_groups_and_every_step_is_announced() -> None:
    steps: list[str] = []
    with load_job(Job(trace=Trace(path=EXAMPLE)), on_step=steps.append) as job:
        assert job.ranks == 8
        assert str(job.loaded.path) == EXAMPLE
        assert len(job.workload.groups) > 1
    assert steps[0] == "reading the trace"
    assert steps[-1] == "proving that the run can finish"
    assert "reading the trace: 8 of 8 ranks" in steps


def test_payload_is_scaled_and_elements_are_counted_as_bytes() -> None:
    def payload(trace: Trace) -> int:
        workload = load_from_files(trace).workload
        return sum(node.size_bytes for program in workload.programs for node in program.communications.values())

    whole = payload(Trace(path=EXAMPLE))
    assert payload(Trace(path=EXAMPLE, scale_bytes="1/4")) == pytest.approx(whole / 4, rel=0.01)
    assert payload(Trace(path=EXAMPLE, element_bytes=4)) == 4 * whole


def test_a_trace_with_another_number_of_ranks_is_refused() -> None:
    with pytest.raises(TraceError), load_job(Job(trace=Trace(path=EXAMPLE, ranks=4))):
        pass


def test_a_sweep_becomes_one_collective_per_size() -> None:
    sweep = Sweep(collective="all_reduce", ranks=2, min_bytes="1K", max_bytes="4K")
    assert list(planned_sweep(sweep).sizes) == [1024, 2048, 4096]
    with load_job(Job(sweep=sweep)) as job:
        sizes = [node.size_bytes for node in job.workload.programs[0].communications.values()]
        assert sorted(sizes) == [1024, 2048, 4096]
        assert {node.kind for node in job.workload.programs[0].communications.values()} == {CommKind.ALL_REDUCE}
        assert str(job.loaded.path) == "bench all_reduce"


@pytest.mark.parametrize(
    ("parts", "sizes"),
    [
        ({"min_bytes": "1K", "max_bytes": "3K", "factor": 1.5}, [1024, 1536, 2304]),
        ({"min_bytes": "1K", "max_bytes": "3K", "step_bytes": "1K"}, [1024, 2048, 3072]),
        ({"sizes": ["1M", "4K", "64KB"]}, [4096, 64_000, 1 << 20]),
        ({"min_bytes": "128M"}, [128 << 20]),
    ],
)
def test_sizes_grow_by_a_factor_or_a_step_or_are_listed(parts: dict[str, Any], sizes: list[int]) -> None:
    assert list(planned_sweep(Sweep(collective="all_reduce", ranks=2, **parts)).sizes) == sizes


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_trace_without_nodes_is_refused(ranks: int, tmp_path: Path) -> None:
    for rank in range(ranks):
        write(tmp_path / f"trace.{rank}.et", [])
    problem = f"{tmp_path}: none of the {ranks} ranks has a node, so there is nothing to play"
    with pytest.raises(TraceError, match=re.escape(problem)):
        load_from_files(Trace(path=str(tmp_path), ranks=ranks))


def test_generated_files_are_deleted_when_the_job_is_done() -> None:
    with load_job(Job(sweep=Sweep(collective="broadcast", ranks=2, max_bytes="1K"))) as job:
        files = list(job.loaded.files.paths)
        assert files
        assert all(file.exists() for file in files)
    assert not any(file.exists() for file in files)


def test_a_sweep_without_sizes_is_refused() -> None:
    with pytest.raises(PlanError):
        planned_sweep(Sweep(collective="all_reduce", ranks=2, min_bytes="2K", max_bytes="1K"))


def test_pairs_play_all_reduces_of_two_ranks_each() -> None:
    with load_job(Job(pairs=Pairs(ranks=4, counts=((16, 2), (1024, 1))))) as job:
        assert [sorted(group.ranks) for group in job.workload.groups if len(group.ranks) == 2] == [[0, 1], [2, 3]]
        sizes = [node.size_bytes for node in job.workload.programs[3].communications.values()]
        assert sorted(sizes) == [16, 16, 1024]


def test_an_odd_number_of_ranks_cannot_form_pairs() -> None:
    with pytest.raises(PlanError), load_job(Job(pairs=Pairs(ranks=3, counts=((16, 1),)))):
        pass
