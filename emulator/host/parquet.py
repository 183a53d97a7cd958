"""Writing tables as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from emulator.host.files import publish, writing

ROW_GROUP_ROWS = 1 << 17


def write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a table in bounded memory; the file gets its name when it is complete.

    Raises:
        HostError: it could not be written.
    """
    unfinished = path.with_name(path.name + ".tmp")
    with writing(path):
        # An open file, because Arrow accepts only paths that are valid text.
        with unfinished.open("wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for group in _row_groups(batches, schema):
                writer.write_table(group, row_group_size=group.num_rows)
        publish(unfinished, path)


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP_ROWS:
            yield to_table(held, schema)
            held, rows = [], 0
    if rows:  # batches may have been emptied
        yield to_table(held, schema)


def to_table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """One table of batches, each column in one chunk with one dictionary."""
    return pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()
