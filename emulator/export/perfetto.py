"""A run as a timeline for Perfetto (ui.perfetto.dev, trace_processor): a process per rank, and one for the job.

A rank has its iterations, the spans in which its device was busy, and a track per process group (more if its
communications overlap). The job has a slice per iteration, from the first start to the last end: its duration is the
JCT. Timestamps are those of the run folder, ns of the run's clock. The arguments of a slice, under `debug`, hold its
figures.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from emulator.errors import HostError
from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.run_folder.stream import writing
from emulator.statistics.table_columns import to_ints

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

_SEQUENCE = 1
_JOB = "job"
_ARGUMENTS = (
    "node_id",
    "index_in_group",
    "group_size",
    "size_bytes",
    "algorithm",
    "bytes_sent",
    "bytes_received",
    "early",
)
_USAGE = ("compute_ns", "communication_ns", "overlap_ns")


def write(run: Run, target: Path) -> Sequence[str]:
    """Write the timeline.

    Raises:
        HostError: it cannot be written.
        ResultError: a table of the run is missing or damaged.
    """
    with writing(target), target.open("wb") as file:
        line = _TimeLine(_builder(file))
        _add_iterations(line, run)
        _add_compute(line, run)
        _add_communications(line, run)
    return ()


def require() -> None:
    """Check that the perfetto package is installed.

    Raises:
        HostError: it is missing.
    """
    try:
        import perfetto.trace_builder.proto_builder  # noqa: F401
    except ImportError as error:
        raise HostError("a time line needs the perfetto package: pip install 'charkha[export]'") from error


def _builder(file: IO[bytes]) -> StreamingTraceProtoBuilder:
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

    return StreamingTraceProtoBuilder(file)


class _TimeLine:
    """Writes slices, and each track before its first slice."""

    def __init__(self, builder: StreamingTraceProtoBuilder) -> None:
        self._builder = builder
        self._numbers = count(1)
        self._tracks: dict[tuple[str, ...], int] = {}

    def slice(
        self, path: tuple[str, ...], name: str, start_ns: int, end_ns: int, arguments: Mapping[str, Any], category: str
    ) -> None:
        """A slice on the track `path` = (process, track)."""
        track = self._track(path)
        begin = self._packet(start_ns)
        begin.track_event.type = begin.track_event.TYPE_SLICE_BEGIN
        begin.track_event.track_uuid = track
        begin.track_event.name = name
        begin.track_event.categories.append(category)
        for key, value in arguments.items():
            _set(begin.track_event.debug_annotations.add(), key, value)
        self._builder.write_packet(begin)
        end = self._packet(end_ns)
        end.track_event.type = end.track_event.TYPE_SLICE_END
        end.track_event.track_uuid = track
        self._builder.write_packet(end)

    def _packet(self, time_ns: int) -> TracePacket:
        packet = self._builder.create_packet()
        packet.timestamp = time_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _track(self, path: tuple[str, ...]) -> int:
        if path not in self._tracks:
            parent = self._track(path[:-1]) if len(path) > 1 else None
            number = self._tracks[path] = next(self._numbers)
            packet = self._builder.create_packet()
            packet.track_descriptor.uuid = number
            if parent is None:
                packet.track_descriptor.process.pid = number
                packet.track_descriptor.process.process_name = path[-1]
            else:
                packet.track_descriptor.parent_uuid = parent
                packet.track_descriptor.name = path[-1]
            self._builder.write_packet(packet)
        return self._tracks[path]


def _set(annotation: Any, name: str, value: Any) -> None:
    annotation.name = name
    if isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int):
        annotation.uint_value = value
    else:
        annotation.string_value = str(value)


def _add_iterations(line: _TimeLine, run: Run) -> None:
    """Slices of the ranks, and of the job for iterations that every rank completed."""
    table = run.table(Part.ITERATIONS)
    columns = {name: to_ints(table[name]) for name in table.column_names}
    for iteration in np.unique(columns["iteration"]).tolist():
        rows = np.flatnonzero(columns["iteration"] == iteration)
        start, end = columns["start_ns"][rows], columns["end_ns"][rows]
        if len(rows) == run.manifest.trace.ranks:
            name, category = _name(iteration)
            line.slice((_JOB, "iterations"), name, int(start.min()), int(end.max()), {"iteration": name}, category)
        for row in rows.tolist():
            _add_rank_iteration(line, {name: int(column[row]) for name, column in columns.items()})


def _add_rank_iteration(line: _TimeLine, row: Mapping[str, int]) -> None:
    name, category = _name(row["iteration"])
    usage = {key: row[key] for key in _USAGE} | {"exposed_ns": row["communication_ns"] - row["overlap_ns"]}
    line.slice((f"rank {row['rank']}", "iterations"), name, row["start_ns"], row["end_ns"], usage, category)


def _name(iteration: int) -> tuple[str, str]:
    """(name, category) of an iteration's slice."""
    return (f"iteration {iteration}", "iteration") if iteration >= 0 else (f"warm-up {iteration}", "warm-up")


def _add_compute(line: _TimeLine, run: Run) -> None:
    for batch in run.batches(Part.COMPUTE):
        for span in batch.to_pylist():
            category = "compute" if span["iteration"] >= 0 else "warm-up"
            line.slice((f"rank {span['rank']}", "compute"), "compute", span["start_ns"], span["end_ns"], {}, category)


def _add_communications(line: _TimeLine, run: Run) -> None:
    lanes: dict[tuple[int, str], _Lanes] = {}
    for sample in _samples(run):
        key = sample["rank"], sample["group"]
        lane = lanes.setdefault(key, _Lanes()).place(sample["post_ns"], sample["done_ns"])
        track = sample["group"] if lane == 0 else f"{sample['group']} ({lane + 1})"
        facts = {name: sample[name] for name in _ARGUMENTS} | {"kind": sample["kind"]}
        category = "communication" if sample["iteration"] >= 0 else "warm-up"
        line.slice(
            (f"rank {sample['rank']}", track), sample["name"], sample["post_ns"], sample["done_ns"], facts, category
        )


def _samples(run: Run) -> Iterator[dict[str, Any]]:
    """Rows in the order of their post, as the lanes need them."""
    table = run.table(Part.SAMPLES, ["iteration", "rank", "group", "name", "kind", "post_ns", "done_ns", *_ARGUMENTS])
    order = np.argsort(to_ints(table["post_ns"]), kind="stable")
    for batch in table.take(order).to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


class _Lanes:
    """Assigns intervals, in the order of their starts, to lanes so that the intervals of a lane do not overlap."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._busy: list[tuple[int, int]] = []
        self._next = 0

    def place(self, start: int, end: int) -> int:
        """The lowest lane that is free from `start` on."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        lane = heapq.heappop(self._free) if self._free else self._next
        self._next = max(self._next, lane + 1)
        heapq.heappush(self._busy, (end, lane))
        return lane
