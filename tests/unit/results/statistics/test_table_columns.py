from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.results.statistics.samples.table_columns import UNKNOWN, block_starts, labels_and_codes, to_ints

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
