"""Columns of Arrow tables as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from emulator.trace.meaning.model import IntArray

UNKNOWN = -1
"""Replaces null in columns whose values cannot be negative."""


def to_ints(column: Any, *, null: int = UNKNOWN) -> IntArray:
    """A numeric or bool column as int64, with `null` in place of missing values."""
    return np.asarray(column.cast(pa.int64()).fill_null(null).to_numpy(), np.int64)


def labels_and_codes(column: Any) -> tuple[tuple[str, ...], IntArray]:
    """A dictionary column as its distinct labels, and an index into them per row."""
    if column.num_chunks == 0:
        return (), np.empty(0, np.int64)
    chunk = column.unify_dictionaries().combine_chunks()
    return tuple(chunk.dictionary.to_pylist()), np.asarray(chunk.indices.to_numpy(zero_copy_only=False), np.int64)


def block_starts(*columns: IntArray) -> IntArray:
    """Index of the first row of each block of equal rows.

    Args:
        columns: keys of equal length, sorted so that equal rows are adjacent.
    """
    changed = np.any([np.diff(column) != 0 for column in columns], axis=0)
    return np.flatnonzero(np.concatenate(([len(columns[0]) > 0], changed)))
