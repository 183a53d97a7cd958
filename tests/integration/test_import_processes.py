"""Ranks read by several processes at a time give what one process gives."""

from pathlib import Path

import pytest

from emulator.annexes.importers import writing
from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.importers.writing import write_imported
from emulator.errors import TraceError
from tests.support.pytorch_traces import data_parallel_rank, write


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for rank in range(3):
        write(data_parallel_rank(rank, 3), tmp_path / "job" / f"{rank}.json")
    return tmp_path / "job"


def converted(job: Path, target: Path) -> tuple[list[bytes], list[tuple[int, int]]]:
    steps: list[tuple[int, int]] = []
    trace = import_trace(importer_named("pytorch"), job, on_rank=lambda done, ranks: steps.append((done, ranks)))
    return [path.read_bytes() for path in write_imported(trace, target)], steps


def test_the_files_and_the_progress_are_the_same(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = converted(job, job.parent / "alone")
    monkeypatch.setattr(writing, "WORTH_BYTES", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert converted(job, job.parent / "together") == alone
    assert alone[1] == [(1, 3), (2, 3), (3, 3)]


def test_an_error_of_a_process_is_that_of_the_command(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "WORTH_BYTES", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    document = data_parallel_rank(1, 3)
    document.collective("allreduce", -7, 900, (930, 10))
    write(document, job / "1.json")
    with pytest.raises(TraceError, match=r"1.json, .* at 901.000 us: size -28 of a"):
        import_trace(importer_named("pytorch"), job)
