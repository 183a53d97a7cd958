"""The run folder: written as the run goes, closed by renaming its manifest, read back whole or as far as it came.

While `manifest.partial.json` is there the run is going on, or crashed: the tables are `*.partial.arrows`. Once
`manifest.json` is there the folder is closed and never changes again: the tables are `*.parquet`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from emulator.control.observations import ComputeSpans, FlowCounters, RankSummary
from emulator.errors import EmulatorError, InputError, ResultError, RunAborted
from emulator.run_folder.manifest import (
    ABORTED,
    COMPLETE,
    RUNNING,
    Exclusion,
    Manifest,
    Status,
    Trials,
    read_manifest,
    to_json,
)
from emulator.run_folder.schema import Columns, Part, to_batch
from emulator.run_folder.stream import TableStream, publish, read_stream, to_table, write_parquet, writing

MANIFEST = "manifest.json"
PARTIAL_MANIFEST = "manifest.partial.json"
CRASHED = "the run ended without closing its folder"
BROKEN = "not all ranks completed it"
_BATCH_ROWS = 4096
_BATCH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder that can be read.

    Attributes:
        folder: where it is.
        manifest: its facts; a folder that was never closed has status `aborted`.
        closed: False where the tables are still streams.
    """

    folder: Path
    manifest: Manifest
    closed: bool

    def batches(self, part: Part, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of a table in the order they were measured, all columns or those named.

        Columns that may be null, and that an older Charkha did not write, are null.

        Raises:
            ResultError: the table is missing or damaged.
        """
        names = list(part.schema.names if columns is None else columns)
        if not self.closed and (self.folder / part.stream_name).exists():
            for batch in read_stream(self.folder / part.stream_name):
                yield _with_columns(batch, part, names)
        elif self.closed or (self.folder / part.file_name).exists():
            if part.is_optional and not (self.folder / part.file_name).exists():
                return
            yield from _parquet_batches(self.folder / part.file_name, part, names)

    def table(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        """A table as a whole, each column in one chunk.

        Raises:
            ResultError: the table is missing or damaged.
        """
        names = part.schema.names if columns is None else columns
        schema = pa.schema([part.schema.field(name) for name in names])
        return to_table(list(self.batches(part, columns)), schema)


def _parquet_batches(path: Path, part: Part, names: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        with path.open("rb") as file, pq.ParquetFile(file) as source:
            written = source.schema_arrow
            for field in map(part.schema.field, names):
                is_there = field.name in written.names
                if written.field(field.name) != field if is_there else not field.nullable:
                    raise ResultError(f"lacks column {field.name} as {field.type}", path=path)
            for batch in source.iter_batches(columns=[name for name in names if name in written.names]):
                yield _with_columns(batch, part, names)
    except (pa.ArrowException, OSError) as error:
        raise ResultError(f"cannot be read ({str(error).splitlines()[0]})", path=path) from error


def _with_columns(batch: pa.RecordBatch, part: Part, names: Sequence[str]) -> pa.RecordBatch:
    """A batch with exactly these columns: those that it lacks are null."""
    schema = pa.schema([part.schema.field(name) for name in names])
    there = batch.schema.names
    arrays = [batch[one.name] if one.name in there else pa.nulls(batch.num_rows, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_run(folder: Path) -> Run:
    """Open a run folder, closed or left by a crash.

    Raises:
        ResultError: no run folder, a damaged one, or one of a newer format version.
    """
    try:
        is_closed = (folder / MANIFEST).exists()
        is_there = is_closed or (folder / PARTIAL_MANIFEST).exists()
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})", path=folder) from error
    if is_closed:
        return Run(folder, read_manifest(folder / MANIFEST), closed=True)
    if not is_there:
        raise ResultError(f"is no run folder (no {MANIFEST})", path=folder)
    manifest = read_manifest(folder / PARTIAL_MANIFEST)
    run = Run(folder, replace(manifest, status=ABORTED, reason=manifest.reason or CRASHED), closed=False)
    return replace(run, manifest=replace(run.manifest, trials=_trials_so_far(run)))


def _trials_so_far(run: Run) -> Trials:
    """Which iterations a run counts is in its manifest only once it is closed; until then its tables know."""
    numbers, done = np.unique(run.table(Part.ITERATIONS, ["iteration"])["iteration"].to_numpy(), return_counts=True)
    broken = numbers[(numbers >= 0) & (done < run.manifest.trace.ranks)].tolist()
    return Trials(
        attempted=len(numbers),
        warmup=int(np.count_nonzero(numbers < 0)),
        included=int(np.count_nonzero(numbers >= 0)) - len(broken),
        excluded=tuple(Exclusion(one, BROKEN) for one in broken),
    )


class RunWriter:
    """Writes one run folder; a context manager that closes it, saying how the run ended.

    Leaving without an exception closes as `complete`, with one as `aborted`. Rows are with the operating system at
    the latest half a second after the next call.

    Args:
        folder: to be created; may exist only when empty.
        manifest: the facts known at the start. Assign `manifest` anew when more is known.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self._manifest = replace(manifest, status=RUNNING, reason=None)
        self._streams: dict[Part, TableStream] = {}
        self._opened = ExitStack()
        self._pending: dict[Part, list[pa.RecordBatch]] = {part: [] for part in Part}
        self._written_at = 0.0
        self._closed = False

    def __enter__(self) -> RunWriter:
        """Create the folder.

        Raises:
            InputError: there is something in it already.
            HostError: it cannot be written.
        """
        _create(self.folder)
        self._write_manifest(PARTIAL_MANIFEST)
        with ExitStack() as opened:
            self._opened = opened
            for part in Part:
                if not part.is_optional:
                    self._open(part)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status, reason = _outcome(error)
        try:
            self.close(status, reason=reason)
        except EmulatorError:
            if error is None:
                raise
            # The error that ended the run is the one to tell; what was measured stays readable as streams.

    @property
    def manifest(self) -> Manifest:
        """The facts so far."""
        return self._manifest

    @manifest.setter
    def manifest(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._write_manifest(PARTIAL_MANIFEST)

    def add_samples(self, columns: Columns) -> None:
        """Append completed communication nodes, see `SAMPLES_SCHEMA`.

        Raises:
            HostError: they cannot be written.
        """
        self._add(Part.SAMPLES, columns)

    def add_iteration(self, iteration: int, ranks: Sequence[RankSummary]) -> None:
        """Append how these ranks spent an iteration they completed.

        Raises:
            HostError: it cannot be written.
        """
        self._add(Part.ITERATIONS, {"iteration": iteration} | _columns(RankSummary, ranks))

    def add_compute(self, spans: ComputeSpans) -> None:
        """Append when devices were busy; without any the folder has no such table.

        Raises:
            HostError: they cannot be written.
        """
        columns = {"rank": spans.rank, "start_ns": spans.start_ns, "end_ns": spans.end_ns}
        self._add(Part.COMPUTE, {"iteration": np.full(len(spans.rank), spans.iteration, np.int32), **columns})

    def add_flows(self, flows: Sequence[FlowCounters]) -> None:
        """Append counters of flows, a row each.

        Raises:
            HostError: they cannot be written.
        """
        self._add(Part.FLOWS, _columns(FlowCounters, flows))

    def add_counters(self, columns: Columns) -> None:
        """Append observations of counters of devices, see `COUNTERS_SCHEMA`; without any the folder has no such table.

        Raises:
            HostError: they cannot be written.
        """
        self._add(Part.COUNTERS, columns)

    def flush(self) -> None:
        """Write what is held back.

        Raises:
            HostError: it cannot be written.
        """
        for part, pending in self._pending.items():
            if pending:
                if part not in self._streams:
                    self._open(part)
                self._streams[part].append(to_table(pending, part.schema).to_batches()[0])
                pending.clear()
        self._written_at = time.monotonic()

    def adjust(self, part: Part, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Rewrite a table batch by batch once nothing is added to it any more; the old rows stay until it is whole.

        Raises:
            HostError: it cannot be written.
        """
        self.flush()
        if part not in self._streams:
            return
        path = self.folder / part.stream_name
        self._streams[part].close()
        unfinished = path.with_name(path.name + ".tmp")
        with TableStream(unfinished, part.schema) as stream:
            for batch in read_stream(path):
                stream.append(change(batch))
        with writing(path):
            publish(unfinished, path)

    def run(self) -> Run:
        """The run so far, to be read before the folder is closed: for the summary and the measured trace.

        Raises:
            HostError: what is held back cannot be written.
        """
        if not self._closed:
            self.flush()
        return Run(self.folder, self._manifest, closed=self._closed)

    def close(self, status: Status = COMPLETE, *, reason: str | None = None) -> None:
        """Turn the streams into Parquet and rename the manifest; idempotent.

        Raises:
            HostError: something cannot be written; the streams then stay, and the folder reads as aborted.
        """
        if self._closed:
            return
        self._closed = True
        self._manifest = replace(self._manifest, status=status, reason=reason)
        self._close_streams()
        for part in self._streams:
            write_parquet(self.folder / part.file_name, part.schema, read_stream(self.folder / part.stream_name))
        self._write_manifest(PARTIAL_MANIFEST)
        with writing(self.folder):
            (self.folder / PARTIAL_MANIFEST).rename(self.folder / MANIFEST)
            for part in self._streams:
                (self.folder / part.stream_name).unlink()

    def _open(self, part: Part) -> None:
        self._streams[part] = self._opened.enter_context(TableStream(self.folder / part.stream_name, part.schema))

    def _close_streams(self) -> None:
        with self._opened:
            self.flush()

    def _add(self, part: Part, columns: Columns) -> None:
        batch = to_batch(part.schema, columns)
        if batch.num_rows:
            self._pending[part].append(batch)
        held = sum(one.num_rows for one in self._pending[part])
        if held >= _BATCH_ROWS or time.monotonic() - self._written_at >= _BATCH_SECONDS:
            self.flush()

    def _write_manifest(self, name: str) -> None:
        path = self.folder / name
        unfinished = path.with_name(name + ".tmp")
        with writing(path):
            # A path need not be text: its bytes become JSON's own escapes, which read back as the same path.
            unfinished.write_text(to_json(self._manifest), encoding="utf-8", errors="backslashreplace")
            publish(unfinished, path)


def _columns(kind: type[Any], rows: Sequence[Any]) -> dict[str, list[Any]]:
    return {field.name: [getattr(row, field.name) for row in rows] for field in fields(kind)}


def _create(folder: Path) -> None:
    with writing(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            occupied = any(folder.iterdir())
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"{folder}: is no folder; choose another --out") from None
        if occupied:
            raise InputError(f"{folder}: is not empty; a run folder is written once, choose another --out")


def _outcome(error: BaseException | None) -> tuple[Status, str | None]:
    if error is None:
        return COMPLETE, None
    if isinstance(error, RunAborted):
        return ABORTED, error.reason
    if not isinstance(error, Exception):
        return ABORTED, "interrupted"
    return ABORTED, str(error) or type(error).__name__
