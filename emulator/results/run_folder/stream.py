"""A table on disk: appended to during the run, readable after a crash, rewritten as Parquet at the end.

The append-only form is an Arrow IPC stream: a schema, then self-contained batches. A file that ends in the middle of a
batch loses that batch only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from emulator.errors import FULL, HostError, ResultError
from emulator.host.resources import exhausted

ROW_GROUP_ROWS = 1 << 17
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write into an error for the user.

    Raises:
        HostError: the body raised an OSError.
    """
    try:
        yield
    except OSError as error:
        if (lack := exhausted(error)) is not None:
            raise HostError(f"{path}: cannot write results: {lack}") from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedy = "free some space, or choose a different place" if error.errno in FULL else "choose another place"
        raise HostError(f"{path}: cannot write results ({reason}); {remedy}") from error


class TableStream:
    """A table that is appended to; a context manager that closes the file.

    Args:
        path: of the stream; must not exist.
        schema: of every batch.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.schema = schema
        with writing(path):
            # Unbuffered: when `append` returns, the kernel has the batch, so a killed process loses nothing.
            self._file = path.open("xb", buffering=0)
            self._writer = pa.ipc.new_stream(self._file, schema, options=_OPTIONS)

    def __enter__(self) -> TableStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, batch: pa.RecordBatch) -> None:
        """Write a batch.

        Raises:
            HostError: it could not be written; the stream stays readable up to the previous batch.
        """
        with writing(self.path):
            self._writer.write_batch(batch)

    def close(self) -> None:
        """End the stream; idempotent.

        Raises:
            HostError: it could not be written.
        """
        if self._file.closed:
            return
        with writing(self.path):
            try:
                self._writer.close()
            finally:
                self._file.close()


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Every complete batch of a stream, closed or truncated.

    Raises:
        ResultError: the file cannot be read at all.
    """
    try:
        source = path.open("rb")
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})", path=path) from error
    with source:
        yield from _whole_batches(source, path)


def _whole_batches(source: BufferedReader, path: Path) -> Iterator[pa.RecordBatch]:
    try:
        reader = pa.ipc.open_stream(source)
        while True:
            batch = reader.read_next_batch()
            batch.validate(full=True)
            yield batch
    except StopIteration:
        return
    except (pa.ArrowInvalid, OSError) as error:
        # For a truncated stream Arrow raises an OSError without errno; one with errno comes from the disk.
        if getattr(error, "errno", None):
            raise ResultError(f"cannot be read ({error})", path=path) from error


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


def write_text(path: Path, text: str) -> None:
    """Write a file of text; it appears under its name only when it is whole.

    Raises:
        HostError: it cannot be written.
    """
    unfinished = path.with_name(f".charkha-{os.getpid()}.tmp")
    with writing(path):
        try:
            # A path need not be text, and may be shown: what is not a character becomes XML's reference to none.
            unfinished.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
            publish(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)


def publish(unfinished: Path, path: Path) -> None:
    """Give a written file its name, after its bytes are on the disk."""
    with unfinished.open("rb") as written:
        os.fsync(written.fileno())
    unfinished.replace(path)


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
