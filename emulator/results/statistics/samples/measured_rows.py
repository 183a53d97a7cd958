"""The rows of a run that count, neither warm-up nor excluded iterations, and the payload of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from emulator.host.parquet import to_table
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.table_columns import labels_and_codes, to_ints
from emulator.trace.meaning.model import CommKind, IntArray

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
