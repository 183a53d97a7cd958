"""The rows of a run that count, neither warm-up nor excluded iterations, their payload, and columns as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from emulator.host.parquet import to_table
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.trace.meaning.model import CommKind, IntArray

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


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def measured_rows(rows: Rows, manifest: Manifest) -> Rows:
    """The rows of iterations that count."""
    iteration = to_ints(rows["iteration"])
    excluded = [one.iteration for one in manifest.trials.excluded]
    return rows.filter(pa.array((iteration >= 0) & ~np.isin(iteration, excluded)))


def read_measured(run: Run, part: RunTable, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of a table that belong to iterations that count.

    Args:
        columns: names, including `iteration`; None reads all columns.

    Raises:
        ResultError: the table is missing or damaged.
    """
    schema = part.schema if columns is None else pa.schema([part.schema.field(name) for name in columns])
    return to_table([measured_rows(batch, run.manifest) for batch in run.batches(part, columns)], schema)


def moved_bytes(samples: pa.Table) -> IntArray:
    """Payload by row, each byte once: what the rank sent, and what a storage host, which has no rows, sent to it.

    Args:
        samples: with `kind`, `size_bytes` and `bytes_sent`.
    """
    labels, codes = labels_and_codes(samples["kind"])
    is_read = np.array([label == CommKind.STORAGE_READ.label for label in labels], np.bool_)[codes]
    return to_ints(samples["bytes_sent"]) + np.where(is_read, to_ints(samples["size_bytes"]), 0)
