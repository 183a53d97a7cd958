from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from emulator.control.observations import FlowCounters
from emulator.errors import ResultError
from emulator.results.run_folder.layout import PARTIAL_MANIFEST
from emulator.results.run_folder.manifest import Exclusion, Trials
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from tests.support.runs import Row, collective, columns, manifest, ranks, write_run


def iteration_rows(number: int) -> list[Row]:
    return collective([0, 1], [50, 60], iteration=number)


def crash_after(folder: Path, batches: int) -> None:
    """A folder as a killed process leaves it: the files of a run that is still going on."""
    with RunWriter(folder.parent / "living", manifest()) as writer:
        for number in range(batches):
            writer.add_samples(columns(iteration_rows(number)))
            writer.flush()
        shutil.copytree(writer.folder, folder)


def test_columns_that_an_older_charkha_did_not_write_are_null(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0), flows=[FlowCounters(0, 1, bytes=9, retransmits=1, qpn=17)])
    path = tmp_path / "run" / RunTable.FLOWS.file_name
    pq.write_table(pq.read_table(path).drop_columns(["qpn", "timeouts"]), path)
    (flow,) = run.table(RunTable.FLOWS).to_pylist()
    assert (flow["bytes"], flow["retransmits"], flow["qpn"], flow["timeouts"]) == (9, 1, None, None)
    pq.write_table(pq.read_table(path).drop_columns(["bytes"]), path)
    with pytest.raises(ResultError, match="lacks column bytes as int64"):
        run.table(RunTable.FLOWS)


def test_a_crashed_run_reads_as_interrupted_with_its_samples(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 3)
    run = read_run(tmp_path / "run")
    assert (run.closed, run.manifest.status) == (False, "interrupted")
    assert run.manifest.reason == "the run ended without closing its folder"
    assert run.table(RunTable.SAMPLES).to_pylist() == [one for n in range(3) for one in iteration_rows(n)]
    assert run.table(RunTable.FLOWS).num_rows == 0


def test_a_crashed_run_counts_the_iterations_that_every_rank_completed(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "living", manifest(trials=Trials())) as writer:
        for number in (-1, 0, 1):
            writer.add_iteration(number, ranks((0, 70), (1, 80)))
        writer.add_iteration(2, ranks((0, 70)))
        writer.flush()
        shutil.copytree(writer.folder, tmp_path / "run")
    excluded = (Exclusion(2, "not all ranks completed it"),)
    found = read_run(tmp_path / "run").manifest.trials
    assert found == Trials(attempted=4, warmup=1, included=2, excluded=excluded)


def test_a_folder_that_cannot_be_opened_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"aaa: cannot be read \(File name too long\)"):
        read_run(tmp_path / ("a" * 300))


def test_a_folder_without_manifest_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="not a run folder"):
        read_run(tmp_path)


@pytest.mark.parametrize("content", [None, b"", b"PAR1 junk PAR1"])
def test_a_damaged_table_is_named(tmp_path: Path, content: bytes | None) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    path = tmp_path / "run" / "samples.parquet"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ResultError, match=r"samples.parquet: cannot be read"):
        run.table(RunTable.SAMPLES)


def test_a_table_with_other_columns_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    (tmp_path / "run" / "samples.parquet").write_bytes((tmp_path / "run" / "flows.parquet").read_bytes())
    with pytest.raises(ResultError, match="lacks column iteration as int32"):
        run.table(RunTable.SAMPLES)


def test_a_run_without_counters_reads_as_an_empty_table(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    assert run.table(RunTable.COUNTERS).num_rows == 0


def test_a_truncated_parquet_file_is_named_wherever_it_ends(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    path = tmp_path / "run" / "samples.parquet"
    data = path.read_bytes()
    for length in range(0, len(data), 257):
        path.write_bytes(data[:length])
        with pytest.raises(ResultError, match=r"samples.parquet: cannot be read"):
            run.table(RunTable.SAMPLES)


@pytest.mark.parametrize("part", [RunTable.SAMPLES, RunTable.ITERATIONS, RunTable.FLOWS])
def test_a_closed_run_needs_every_table_that_is_not_optional(tmp_path: Path, part: RunTable) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    (run.folder / part.file_name).unlink()
    with pytest.raises(ResultError, match=rf"{part.file_name}: cannot be read .*No such file"):
        run.table(part)


def test_a_stream_that_is_left_in_a_closed_folder_is_ignored(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    (run.folder / RunTable.SAMPLES.stream_name).write_bytes(b"left over")
    assert read_run(run.folder).table(RunTable.SAMPLES).num_rows == 2


def test_a_crash_between_the_two_names_of_the_manifest_reads_as_closed(tmp_path: Path) -> None:
    """Parquet is written, the manifest is renamed, a stream is not removed yet."""
    run = write_run(tmp_path / "run", iteration_rows(0))
    (run.folder / PARTIAL_MANIFEST).write_text("{")
    assert read_run(run.folder).closed


def test_a_crash_after_the_streams_became_parquet_reads_the_streams(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 1)
    (tmp_path / "run" / RunTable.SAMPLES.file_name).write_bytes(b"half written")
    assert read_run(tmp_path / "run").table(RunTable.SAMPLES).num_rows == 2


def test_columns_come_in_the_order_of_the_request(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    assert run.table(RunTable.SAMPLES, ["done_ns", "rank"]).to_pydict() == {"done_ns": [50, 60], "rank": [0, 1]}


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    path = run.folder / RunTable.ITERATIONS.file_name
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "iteration", table["iteration"].cast("int64")), path)
    with pytest.raises(ResultError, match="lacks column iteration as int32"):
        run.table(RunTable.ITERATIONS)


def test_iterations_of_a_crashed_run_are_counted_even_if_none_is_complete(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 1)
    assert read_run(tmp_path / "run").manifest.trials == Trials()
