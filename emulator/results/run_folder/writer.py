"""Writing a run folder: appended to during the run, closed by renaming its manifest. See reader.py for its states."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from emulator.control.observations import EVENTS, ComputeSpans, FlowCounters, RankSummary
from emulator.errors import EmulatorError, HostError, InputError, RunAborted
from emulator.host.files import publish, write_text, writing
from emulator.host.parquet import to_table, write_parquet
from emulator.results.run_folder.manifest import (
    ABORTED,
    COMPLETE,
    MANIFEST,
    PARTIAL_MANIFEST,
    RUNNING,
    Manifest,
    RunFigures,
    Status,
    to_json,
)
from emulator.results.run_folder.places import hold
from emulator.results.run_folder.reader import Run, TableStream, read_stream
from emulator.results.run_folder.schema import Columns, RunTable, to_batch

_BATCH_ROWS = 4096
_BATCH_SECONDS = 0.5


class RunWriter:
    """Writes one run folder; a context manager that closes it as `complete`, or after an exception as `aborted`.

    Rows are passed to the kernel at most half a second after the next call.

    Args:
        folder: is created; it must be empty if it exists.
        manifest: the facts known at the start. Assign `manifest` when more is known.
        figures_of: called with the run when it is closed, for lists.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, *, figures_of: Callable[[Run], RunFigures | None] | None = None
    ) -> None:
        self.folder, self._figures_of = folder, figures_of
        self._manifest = replace(manifest, status=RUNNING, reason=None)
        self._streams: dict[RunTable, TableStream] = {}
        self._opened = ExitStack()
        self._pending: dict[RunTable, list[pa.RecordBatch]] = {part: [] for part in RunTable}
        self._spent: list[tuple[int, RankSummary]] = []
        self._written_at = 0.0
        self._closed = False
        self._hold: int | None = None

    def __enter__(self) -> RunWriter:
        """Create the folder.

        Raises:
            InputError: it is not empty.
            HostError: it cannot be written.
        """
        require_new(self.folder)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._hold = hold(self.folder)
        with ExitStack() as undo:
            undo.callback(self._release)
            undo.callback(self._opened.close)
            self._write_manifest(PARTIAL_MANIFEST)
            for part in RunTable:
                if not part.is_optional:
                    self._open(part)
            undo.pop_all()
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
            # Report the error that ended the run; what was measured stays readable as streams.
        finally:
            self._release()

    @property
    def manifest(self) -> Manifest:
        """The facts so far."""
        return self._manifest

    @manifest.setter
    def manifest(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._write_manifest(PARTIAL_MANIFEST)

    def add(self, part: RunTable, columns: Columns) -> None:
        """Append rows to a table, with the columns of its schema; a table that is optional begins with its first row.

        Raises:
            HostError: they cannot be written.
        """
        batch = to_batch(part.schema, columns)
        if batch.num_rows:
            self._pending[part].append(batch)
        self._flush_if_due(sum(one.num_rows for one in self._pending[part]))

    def add_iteration(self, iteration: int, ranks: Sequence[RankSummary]) -> None:
        """Append how these ranks spent an iteration that they completed.

        Raises:
            HostError: it cannot be written.
        """
        self._spent += [(iteration, one) for one in ranks]  # a batch of its own for each would cost 0.1 ms
        self._flush_if_due(len(self._spent))

    def add_compute(self, spans: ComputeSpans) -> None:
        """Append the times when devices were busy; without any, the folder has no such table.

        Raises:
            HostError: they cannot be written.
        """
        columns = {"rank": spans.rank, "start_ns": spans.start_ns, "end_ns": spans.end_ns}
        self.add(RunTable.COMPUTE, {"iteration": np.full(len(spans.rank), spans.iteration, np.int32), **columns})

    def add_flows(self, flows: Sequence[FlowCounters]) -> None:
        """Append counters of flows, one row each.

        Raises:
            HostError: they cannot be written.
        """
        self.add(RunTable.FLOWS, _columns(FlowCounters, flows))

    def add_flow_events(self, iteration: int, flows: Sequence[FlowCounters]) -> None:
        """Append what happened to flows in an iteration; without any, the folder has no such table.

        Raises:
            HostError: they cannot be written.
        """
        names = ("src", "dst", "qpn", "source_port", *EVENTS)
        columns = {name: [getattr(flow, name) for flow in flows] for name in names}
        self.add(RunTable.FLOW_EVENTS, {"iteration": iteration} | columns)

    def flush(self) -> None:
        """Write the rows that are still in memory.

        Raises:
            HostError: it cannot be written, or the folder is gone.
        """
        if not self._closed and not (self.folder / PARTIAL_MANIFEST).exists():  # the kernel would not mind
            raise HostError(f"{self.folder}: the run folder was deleted or moved during the run")
        if self._spent:
            iterations, ranks = zip(*self._spent, strict=True)
            self._spent.clear()
            columns = {"iteration": list(iterations)} | _columns(RankSummary, ranks)
            self._pending[RunTable.ITERATIONS].append(to_batch(RunTable.ITERATIONS.schema, columns))
        for part, pending in self._pending.items():
            if pending:
                if part not in self._streams:
                    self._open(part)
                self._streams[part].append(to_table(pending, part.schema).to_batches()[0])
                pending.clear()
        self._written_at = time.monotonic()

    def adjust(self, part: RunTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Rewrite a table batch by batch, after its last row; the old rows stay until the new ones are complete.

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
        """The run so far, readable before the folder is closed: for the summary and the measured trace.

        Raises:
            HostError: rows in memory cannot be written.
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
        if self._figures_of is not None:
            figures = self._figures_of(Run(self.folder, self._manifest, closed=False))
            self._manifest = replace(self._manifest, figures=figures)
        for part in self._streams:
            write_parquet(self.folder / part.file_name, part.schema, read_stream(self.folder / part.stream_name))
        self._write_manifest(PARTIAL_MANIFEST)
        with writing(self.folder):
            (self.folder / PARTIAL_MANIFEST).rename(self.folder / MANIFEST)
            for part in self._streams:
                (self.folder / part.stream_name).unlink()

    def _release(self) -> None:
        """Nobody writes the folder any more."""
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None

    def _open(self, part: RunTable) -> None:
        self._streams[part] = self._opened.enter_context(TableStream(self.folder / part.stream_name, part.schema))

    def _close_streams(self) -> None:
        with self._opened:
            self.flush()

    def _flush_if_due(self, held: int) -> None:
        if held >= _BATCH_ROWS or time.monotonic() - self._written_at >= _BATCH_SECONDS:
            self.flush()

    def _write_manifest(self, name: str) -> None:
        write_text(self.folder / name, to_json(self._manifest), errors="backslashreplace")


def _columns(kind: type[Any], rows: Sequence[Any]) -> dict[str, Sequence[Any]]:
    names = [field.name for field in fields(kind)]
    columns = zip(*map(attrgetter(*names), rows), strict=True) if rows else ([] for _ in names)
    return dict(zip(names, columns, strict=True))


def require_new(folder: Path, *inside: str) -> None:
    """Refuse a folder that holds something besides the names `inside`; it need not exist.

    Raises:
        InputError: it does, or is not a folder.
        HostError: it cannot be read.
    """
    with writing(folder):
        try:
            is_used = any(one.name not in inside for one in folder.iterdir())
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise InputError(f"{folder}: is not a folder; choose a different --out") from None
        if is_used:
            raise InputError(f"{folder}: is not empty; choose a different --out")


def _outcome(error: BaseException | None) -> tuple[Status, str | None]:
    if error is None:
        return COMPLETE, None
    if isinstance(error, RunAborted):
        return ABORTED, error.reason
    if not isinstance(error, Exception):
        return ABORTED, "interrupted"
    return ABORTED, str(error) or type(error).__name__
