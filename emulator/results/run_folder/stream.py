"""A table on disk: appended to during the run, readable after a crash, rewritten as Parquet at the end.

The append-only form is an Arrow IPC stream: a schema, then self-contained batches. A file that ends in the middle of a
batch loses that batch only.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from emulator.errors import ResultError
from emulator.host.files import writing

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


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
