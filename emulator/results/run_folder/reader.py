"""Reading a run folder: complete if it is closed, otherwise up to the last complete batch.

While `manifest.partial.json` exists, the run has not ended or has crashed, and the tables are `*.partial.arrows`. Once
`manifest.json` exists, the folder is closed and never changes again, and the tables are `*.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emulator.errors import ResultError
from emulator.host.parquet import to_table
from emulator.results.run_folder.layout import BROKEN, CRASHED, MANIFEST, PARTIAL_MANIFEST, SESSION
from emulator.results.run_folder.manifest import (
    INTERRUPTED,
    Exclusion,
    Manifest,
    Trials,
    read_manifest,
)
from emulator.results.run_folder.schema import RunTable, limits_of, order_of, words_of
from emulator.results.run_folder.stream import read_stream


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


def _parquet_batches(path: Path, part: RunTable, names: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        with path.open("rb") as file, pq.ParquetFile(file) as source:
            written = source.schema_arrow
            _check_columns(written, part, names, path)
            for batch in source.iter_batches(columns=[name for name in names if name in written.names]):
                yield _with_columns(batch, part, names)
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: of texts in its schema
        raise ResultError(f"cannot be read ({str(error).splitlines()[0]})", path=path) from error


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
