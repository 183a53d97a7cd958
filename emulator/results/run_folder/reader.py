"""Reading a run folder: complete if it is closed, otherwise up to the last complete batch.

While `manifest.partial.json` exists, the run has not ended or has crashed, and the tables are `*.partial.arrows`. Once
`manifest.json` exists, the folder is closed and never changes again, and the tables are `*.parquet`.

The append-only form is an Arrow IPC stream: a schema, then self-contained batches. A file that ends in the middle of a
batch loses that batch only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emulator.errors import ResultError
from emulator.host.files import open_at_once, writing
from emulator.host.parquet import to_table
from emulator.results.run_folder.manifest import (
    BROKEN,
    CRASHED,
    INTERRUPTED,
    MANIFEST,
    PARTIAL_MANIFEST,
    SESSION,
    Exclusion,
    Manifest,
    Trials,
    read_manifest,
)
from emulator.results.run_folder.schema import RunTable, limits_of, order_of, words_of


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder that can be read.

    Attributes:
        folder: its path.
        manifest: a folder that was never closed has status `aborted`.
        closed: False if the tables are still streams.
    """

    folder: Path
    manifest: Manifest
    closed: bool

    def batches(self, part: RunTable, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a table in the order of measurement, with all columns or the named ones.

        Nullable columns that an older Charkha did not write are null.

        Raises:
            ResultError: the table is missing or damaged.
        """
        names = list(part.schema.names if columns is None else columns)
        if not self.closed and (self.folder / part.stream_name).exists():
            path = self.folder / part.stream_name
            for batch in read_stream(path):
                _check_columns(batch.schema, part, names, path)
                yield self._checked(_with_columns(batch, part, names), part, path)
        elif self.closed or (self.folder / part.file_name).exists():
            if part.is_optional and not (self.folder / part.file_name).exists():
                return
            path = self.folder / part.file_name
            for batch in _parquet_batches(path, part, names):
                yield self._checked(batch, part, path)

    def _checked(self, batch: pa.RecordBatch, part: RunTable, path: Path) -> pa.RecordBatch:
        """A batch whose text is text, and whose numbers are in the ranges that all other rooms rely on.

        Raises:
            ResultError: it has others; the message names the column.
        """
        places = len(self.manifest.topology.get("host_index") or ()) or None
        places = places and max(places, self.manifest.trace.ranks)
        for field, column in zip(batch.schema, batch.columns, strict=True):
            try:
                column.validate(full=True)
            except (pa.ArrowException, ValueError) as error:
                problem = f"column {field.name} is damaged ({str(error).splitlines()[0]})"
                raise ResultError(problem, path=path) from error
            if (words := words_of(part, field.name)) is not None:
                for word in column.dictionary.to_pylist():
                    if word not in words:
                        problem = f"column {field.name} has {word!r}, which is none of {', '.join(sorted(words))}"
                        raise ResultError(problem, path=path)
            elif (limits := limits_of(field, places=places)) is not None:
                found = pc.min_max(column)
                for value in (found["min"].as_py(), found["max"].as_py()):
                    if value is not None and not limits[0] <= value <= limits[1]:
                        problem = f"column {field.name} has {value}, which is not from {limits[0]} to {limits[1]}"
                        raise ResultError(problem, path=path)
        order = order_of(part)
        if order is not None and set(order) <= set(batch.schema.names):
            first, second = (batch[name] for name in order)
            if pc.any(pc.greater(first, second)).as_py():
                raise ResultError(f"has a {order[0]} after its {order[1]}", path=path)
        return batch

    def table(self, part: RunTable, columns: Sequence[str] | None = None) -> pa.Table:
        """A whole table, each column in one chunk.

        Raises:
            ResultError: the table is missing or damaged.
        """
        names = part.schema.names if columns is None else columns
        schema = pa.schema([part.schema.field(name) for name in names])
        return to_table(list(self.batches(part, columns)), schema)


MOST_ROWS, LEAST_ROW_BYTES = 1_000_000, 1
"""Of a table: equal rows would fit in less, and no run has only such."""
LEAST_SAMPLE_BYTES = 4
"""No clock gives all samples the same times (measured: 24)."""


def _parquet_batches(path: Path, part: RunTable, names: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        with open_at_once(path) as file, pq.ParquetFile(file) as source:
            written = source.schema_arrow
            _check_columns(written, part, names, path)
            row_bytes = LEAST_SAMPLE_BYTES if part is RunTable.SAMPLES else LEAST_ROW_BYTES
            most_rows = MOST_ROWS + path.stat().st_size // row_bytes
            if source.metadata.num_rows > most_rows:
                raise ResultError(f"has {source.metadata.num_rows:,} rows; so few bytes have {most_rows:,}", path=path)
            for batch in source.iter_batches(columns=[name for name in names if name in written.names]):
                yield _with_columns(_with_own_words(batch), part, names)
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: of texts in its schema
        raise ResultError(f"cannot be read ({str(error).splitlines()[0]})", path=path) from error


def _with_own_words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same with texts that its rows have; each batch comes with all texts of the file, however many there are."""
    for at, column in enumerate(batch.columns):
        if pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
            used = pc.unique(column.indices).drop_null()
            indices = pc.index_in(column.indices, used)
            own = pa.DictionaryArray.from_arrays(indices, column.dictionary.take(used))
            batch = batch.set_column(at, batch.schema.field(at), own)
    return batch


def _check_columns(written: pa.Schema, part: RunTable, names: Sequence[str], path: Path) -> None:
    """Refuse a table without a column that has no null, or with one that is there twice or of another type."""
    for field in map(part.schema.field, names):
        found = [written.field(at) for at in written.get_all_field_indices(field.name)]
        if found != [field] if found else not field.nullable:
            raise ResultError(f"lacks column {field.name} as {field.type}", path=path)


def _with_columns(batch: pa.RecordBatch, part: RunTable, names: Sequence[str]) -> pa.RecordBatch:
    """A batch with exactly these columns; missing ones are null."""
    schema = pa.schema([part.schema.field(name) for name in names])
    present = batch.schema.names
    arrays = [batch[one.name] if one.name in present else pa.nulls(batch.num_rows, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_run(folder: Path) -> Run:
    """Open a run folder, closed or left by a crash.

    Raises:
        ResultError: not a run folder, or a damaged one, or one of a newer format version.
    """
    try:
        is_closed = (folder / MANIFEST).exists()
        is_run = is_closed or (folder / PARTIAL_MANIFEST).exists()
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})", path=folder) from error
    if is_closed:
        return Run(folder, read_manifest(folder / MANIFEST), closed=True)
    if not is_run and (folder / SESSION).is_file():
        raise ResultError(of_session(folder), path=folder)
    if not is_run:
        raise ResultError(f"is not a run folder (no {MANIFEST})", path=folder)
    manifest = read_manifest(folder / PARTIAL_MANIFEST)
    run = Run(folder, replace(manifest, status=INTERRUPTED, reason=manifest.reason or CRASHED), closed=False)
    return replace(run, manifest=replace(run.manifest, trials=_trials_so_far(run)))


def of_session(folder: Path) -> str:
    """Why the folder of a session is no run folder, and which ones there are in it."""
    jobs = ", ".join(str(path) for path in sorted(folder.glob("job=*")))
    return f"contains the jobs of a session, not a run; give one of its run folders: {jobs or 'there is none'}"


def _trials_so_far(run: Run) -> Trials:
    """Numbers of iterations from the tables: the manifest has them only once the folder is closed."""
    numbers, done = np.unique(run.table(RunTable.ITERATIONS, ["iteration"])["iteration"].to_numpy(), return_counts=True)
    broken = numbers[(numbers >= 0) & (done < run.manifest.trace.ranks)].tolist()
    return Trials(
        attempted=len(numbers),
        warmup=int(np.count_nonzero(numbers < 0)),
        included=int(np.count_nonzero(numbers >= 0)) - len(broken),
        excluded=tuple(Exclusion(one, BROKEN) for one in broken),
    )


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # threads for a small batch cost more


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
            self._file = path.open("xb", buffering=0)
            self._pieces = BytesIO()  # Arrow writes a batch in a hundred pieces
            self._writer = pa.ipc.new_stream(self._pieces, schema, options=_OPTIONS)
            self._pass_on()

    def __enter__(self) -> TableStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, batch: pa.RecordBatch) -> None:
        """Write a batch; the kernel has it on return, so that a killed process loses nothing.

        Raises:
            HostError: it could not be written; the stream stays readable up to the previous batch.
        """
        with writing(self.path):
            self._writer.write_batch(batch)
            self._pass_on()

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
                self._pass_on()
            finally:
                self._file.close()

    def _pass_on(self) -> None:
        rest = memoryview(self._pieces.getvalue())
        self._pieces.seek(0)
        self._pieces.truncate()
        while rest:
            rest = rest[self._file.write(rest) :]


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Every complete batch of a stream, closed or truncated.

    Raises:
        ResultError: the file cannot be read at all.
    """
    try:
        source = open_at_once(path)
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})", path=path) from error
    with source:
        yield from _whole_batches(source, path)


def _whole_batches(source: BufferedReader, path: Path) -> Iterator[pa.RecordBatch]:
    try:
        reader = pa.ipc.open_stream(source)
        list(reader.schema.names)  # they may be no text
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
    except (pa.ArrowException, ValueError, MemoryError) as error:  # MemoryError: of a length in it
        reason = str(error).splitlines() or ["a length that cannot be"]
        raise ResultError(f"is damaged ({reason[0]})", path=path) from error
