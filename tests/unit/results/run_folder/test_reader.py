import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emulator.control.observations import FlowCounters
from emulator.errors import HostError, ResultError
from emulator.host.files import write_text
from emulator.host.parquet import write_parquet
from emulator.results.run_folder.manifest import PARTIAL_MANIFEST, Exclusion, Trials
from emulator.results.run_folder.reader import TableStream, read_run, read_stream
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from tests.support.runs import Row, collective, columns, manifest, ranks, write_run


def iteration_rows(number: int) -> list[Row]:
    return collective([0, 1], [50, 60], iteration=number)


def crash_after(folder: Path, batches: int) -> None:
    """A folder as a killed process leaves it: the files of a run that is still going on."""
    with RunWriter(folder.parent / "living", manifest()) as writer:
        for number in range(batches):
            writer.add(RunTable.SAMPLES, columns(iteration_rows(number)))
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


@pytest.mark.parametrize("part", [RunTable.SAMPLES, RunTable.FLOWS])
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


def test_a_batch_comes_with_the_texts_of_its_own_rows(tmp_path: Path) -> None:
    """Each comes with all of the file otherwise, and what looks at them takes the square of the time."""
    run = write_run(tmp_path / "run", collective([0], [9]))
    path, rows = run.folder / "samples.parquet", 200_000
    table = run.table(RunTable.SAMPLES).take(pa.array([0] * rows))
    at = table.schema.get_field_index("name")
    names = pa.array(map(str, range(rows))).dictionary_encode()
    pq.write_table(table.set_column(at, table.schema.field(at), names), path)
    batches = list(run.batches(RunTable.SAMPLES, ["name"]))
    assert max(len(one["name"].dictionary) for one in batches) <= 65_536
    assert pa.concat_arrays([one["name"].dictionary_decode() for one in batches]) == names.dictionary_decode()


@pytest.mark.parametrize("part", [RunTable.SAMPLES, RunTable.FLOWS])
def test_more_rows_than_so_few_bytes_can_have_are_not_read(
    part: RunTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.results.run_folder.reader.MOST_ROWS", 1000)
    run = write_run(tmp_path / "run", collective([0], [9]), flows=[FlowCounters(0, 1, bytes=9)])
    row = run.table(part).slice(0, 1)
    pq.write_table(row.take(pa.array([0] * 200_000)), run.folder / part.file_name, compression="zstd")
    with pytest.raises(ResultError, match="has 200,000 rows; so few bytes have"):
        run.table(part)


def test_iterations_of_a_crashed_run_are_counted_even_if_none_is_complete(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 1)
    assert read_run(tmp_path / "run").manifest.trials == Trials()


def iteration_rows_of_stream(number: int) -> list[Row]:
    return collective([0, 1], [50, 60], iteration=number)


def crash_after_of_stream(folder: Path, batches: int) -> None:
    """A folder as a killed process leaves it: the files of a run that is still going on."""
    with RunWriter(folder.parent / "living", manifest()) as writer:
        for number in range(batches):
            writer.add(RunTable.SAMPLES, columns(iteration_rows_of_stream(number)))
            writer.flush()
        shutil.copytree(writer.folder, folder)


def test_a_truncated_stream_gives_every_complete_batch(tmp_path: Path) -> None:
    crash_after_of_stream(tmp_path / "run", 5)
    stream = tmp_path / "run" / RunTable.SAMPLES.stream_name
    data = stream.read_bytes()
    counts = []
    for length in [*range(0, len(data), 97), len(data)]:
        stream.write_bytes(data[:length])
        rows = read_run(tmp_path / "run").table(RunTable.SAMPLES).to_pylist()
        assert rows == [one for n in range(len(rows) // 2) for one in iteration_rows_of_stream(n)]
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert set(counts) == {0, 2, 4, 6, 8, 10}


def test_a_stream_that_ends_in_zeros_reads_up_to_there(tmp_path: Path) -> None:
    crash_after_of_stream(tmp_path / "run", 2)
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


def test_a_stream_whose_names_are_no_text_is_named(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 1)
    path = tmp_path / "run" / RunTable.SAMPLES.stream_name
    path.write_bytes(path.read_bytes().replace(b"post_ns", b"post_\xff\xfe"))
    with pytest.raises(ResultError, match=r"samples\.partial\.arrows: is damaged"):
        read_run(tmp_path / "run").table(RunTable.SAMPLES)


def test_a_stream_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"s.arrows: cannot be read \(No such file"):
        list(read_stream(tmp_path / "s.arrows"))
