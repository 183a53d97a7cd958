from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import ResultError
from emulator.results.run_folder.manifest import Exclusion, Trials
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import (
    UNKNOWN,
    block_starts,
    labels_and_codes,
    measured_rows,
    moved_bytes,
    read_measured,
    to_ints,
)
from tests.support.runs import collective, manifest, row, table, write_run

TRIALS = Trials(attempted=5, warmup=2, included=2, excluded=(Exclusion(1, "a rank was late"),))
ROWS = [row for iteration in (-2, -1, 0, 1, 2) for row in collective([0, 0], [9, 9], iteration=iteration)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return write_run(tmp_path / "run", ROWS, trials=TRIALS)


def test_warm_up_and_excluded_iterations_do_not_count() -> None:
    found = measured_rows(table(ROWS), manifest(trials=TRIALS))
    assert found["iteration"].to_pylist() == [0, 0, 2, 2]


def test_iteration_zero_counts() -> None:
    assert measured_rows(table(collective([0], [9], iteration=0)), manifest()).num_rows == 1


def test_all_columns_are_read_unless_some_are_named(run: Run) -> None:
    assert read_measured(run, RunTable.SAMPLES).column_names == RunTable.SAMPLES.schema.names
    found = read_measured(run, RunTable.SAMPLES, ["iteration", "rank"])
    assert found.to_pydict() == {"iteration": [0, 0, 2, 2], "rank": [0, 1, 0, 1]}


def test_a_table_without_counted_rows_keeps_its_columns(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [9, 9], iteration=-1))
    found = read_measured(run, RunTable.SAMPLES, ["iteration", "rank"])
    assert (found.num_rows, found.column_names) == (0, ["iteration", "rank"])


def test_a_missing_table_is_an_error_with_its_path(run: Run) -> None:
    (run.folder / RunTable.SAMPLES.file_name).unlink()
    with pytest.raises(ResultError, match=r"samples\.parquet: cannot be read"):
        read_measured(run, RunTable.SAMPLES)


def test_what_a_storage_host_sends_counts_at_the_rank_that_reads_it() -> None:
    stored = {"group_size": 1, "size_bytes": 70}
    rows = [
        *collective([0, 0], [9, 9], bytes_sent=5, bytes_received=5),
        row(kind="storage_write", bytes_sent=70, bytes_received=0, **stored),
        row(kind="storage_read", bytes_sent=0, bytes_received=70, **stored),
    ]
    assert moved_bytes(table(rows)).tolist() == [5, 5, 70, 70]


_DICTIONARY = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None, 3], pa.int32(), [1, UNKNOWN, 3]),
        ([True, None, False], pa.bool_(), [1, UNKNOWN, 0]),
        ([2**62, None], pa.uint64(), [2**62, UNKNOWN]),
        ([], pa.int64(), []),
    ],
)
def test_numbers_become_int64_and_null_becomes_unknown(
    values: list[int], kind: pa.DataType, expected: list[int]
) -> None:
    found = to_ints(pa.chunked_array([values], kind))
    assert found.dtype == np.int64
    assert found.tolist() == expected


def test_another_value_can_stand_for_null() -> None:
    assert to_ints(pa.chunked_array([[None, 5]], pa.int64()), null=0).tolist() == [0, 5]


def test_labels_of_several_chunks_share_one_dictionary() -> None:
    chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", "b"]).dictionary_encode()]
    labels, codes = labels_and_codes(pa.chunked_array(chunks, _DICTIONARY))
    assert [labels[code] for code in codes] == ["b", "a", "c", "b"]
    assert len(set(labels)) == len(labels) == 3


def test_a_label_column_without_chunks_is_empty() -> None:
    labels, codes = labels_and_codes(pa.chunked_array([], _DICTIONARY))
    assert (labels, codes.tolist()) == ((), [])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=60))
def test_blocks_start_where_a_sorted_row_is_new(rows: list[tuple[int, int]]) -> None:
    rows.sort()
    first, second = (np.array([row[n] for row in rows], np.int64) for n in range(2))
    expected = [n for n, row in enumerate(rows) if n == 0 or row != rows[n - 1]]
    assert block_starts(first, second).tolist() == expected
