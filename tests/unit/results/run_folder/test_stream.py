from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emulator.errors import HostError, ResultError
from emulator.host.files import write_text
from emulator.host.parquet import write_parquet
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.stream import TableStream, read_stream
from emulator.results.run_folder.writer import RunWriter
from tests.support.runs import Row, collective, columns, manifest


def iteration_rows(number: int) -> list[Row]:
    return collective([0, 1], [50, 60], iteration=number)


def crash_after(folder: Path, batches: int) -> None:
    """A folder as a killed process leaves it: the files of a run that is still going on."""
    with RunWriter(folder.parent / "living", manifest()) as writer:
        for number in range(batches):
            writer.add_samples(columns(iteration_rows(number)))
            writer.flush()
        shutil.copytree(writer.folder, folder)


def test_a_truncated_stream_gives_every_complete_batch(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 5)
    stream = tmp_path / "run" / RunTable.SAMPLES.stream_name
    data = stream.read_bytes()
    counts = []
    for length in [*range(0, len(data), 97), len(data)]:
        stream.write_bytes(data[:length])
        rows = read_run(tmp_path / "run").table(RunTable.SAMPLES).to_pylist()
        assert rows == [one for n in range(len(rows) // 2) for one in iteration_rows(n)]
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert set(counts) == {0, 2, 4, 6, 8, 10}


def test_a_stream_that_ends_in_zeros_reads_up_to_there(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 2)
    with (tmp_path / "run" / RunTable.SAMPLES.stream_name).open("ab") as stream:
        stream.write(bytes(4096))
    assert read_run(tmp_path / "run").table(RunTable.SAMPLES).num_rows == 4


def test_a_text_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    write_text(tmp_path / "a.html", "one")
    write_text(tmp_path / "a.html", "two")
    assert (tmp_path / "a.html").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_file_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(
        HostError, match=r"no/a.html: cannot write results \(No such file or directory\); choose another"
    ):
        write_text(tmp_path / "no" / "a.html", "text")


def test_a_parquet_file_holds_all_batches_in_order(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64())])
    batches = [pa.RecordBatch.from_pydict({"n": [k, k + 1]}, schema=schema) for k in range(0, 10, 2)]
    write_parquet(tmp_path / "t.parquet", schema, iter(batches))
    assert pq.read_table(tmp_path / "t.parquet")["n"].to_pylist() == list(range(10))
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_row_groups_are_large_however_small_the_batches(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64())])
    batch = pa.RecordBatch.from_pydict({"n": list(range(1000))}, schema=schema)
    write_parquet(tmp_path / "t.parquet", schema, [batch] * 300)
    found = pq.ParquetFile(tmp_path / "t.parquet")
    assert found.metadata.num_rows == 300_000
    assert found.metadata.num_row_groups == 3


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64())])
    write_parquet(tmp_path / "t.parquet", schema, [])
    assert pq.read_table(tmp_path / "t.parquet").schema == schema


def test_closing_a_stream_twice_is_harmless(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64())])
    stream = TableStream(tmp_path / "s.arrows", schema)
    stream.append(pa.RecordBatch.from_pydict({"n": [1]}, schema=schema))
    stream.close()
    stream.close()
    assert [batch["n"].to_pylist() for batch in read_stream(tmp_path / "s.arrows")] == [[1]]


def test_a_stream_never_overwrites_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.arrows").touch()
    with pytest.raises(HostError, match=r"cannot write results \(File exists\)"):
        TableStream(tmp_path / "s.arrows", pa.schema([]))


def test_a_stream_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"s.arrows: cannot be read \(No such file"):
        list(read_stream(tmp_path / "s.arrows"))
