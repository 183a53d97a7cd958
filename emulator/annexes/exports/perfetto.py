"""A run, or a trace, as a timeline for Perfetto (ui.perfetto.dev, trace_processor): a process per rank.

A rank of a run has its iterations, the spans in which its device was busy, and a track per process group (more if its
communications overlap). The job is a process too, and has a slice per iteration, from the first start to the last end:
its duration is the JCT. Flows that were recorded by time (docs/timeline.md) are counters of the ranks that receive
them. What changed at the device is a slice on the track of its port, in the process of the device, and traffic that
moved to another port (--survive) is an instant on the track of the port that it left. Timestamps are those of the run
folder, ns of the run's clock. The arguments of a slice, under `debug`, hold its figures. Counters of the device are
counters of the same process, those that changed: levels as they are, others as increase per second.

A rank of a trace has tracks for CPU, device and each process group.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from emulator.annexes.exports.formats import Format
from emulator.errors import HostError, InputError
from emulator.host.files import writing
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import BY_AGENT, RunTable
from emulator.results.statistics.events import device_events
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.traffic.dut_counters import counter_series
from emulator.trace.meaning.groups import group_label
from emulator.trace.meaning.model import Communication, Group, IntArray, RankProgram, Resource, Workload
from emulator.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder


_SEQUENCE = 1
Span: TypeAlias = tuple[float, float]
EVER: Span = -math.inf, math.inf
"""From when to when, ns on the clock of the run."""


def require() -> None:
    """Check that the perfetto package is installed.

    Raises:
        HostError: it is missing.
    """
    try:
        import perfetto.trace_builder.proto_builder  # noqa: F401
    except ImportError as error:
        raise HostError("a time line needs the perfetto package: pip install 'charkha[export]'") from error


class Tracks:
    """Writes slices, and each track before its first slice."""

    def __init__(self, file: IO[bytes], *, begin_ns: int = 0, span: Span = EVER) -> None:
        self._begin_ns, self._span = min(0, begin_ns), span
        self._before: dict[tuple[str, ...], int] = {}  # the value of a counter where the span begins
        self._builder = _builder(file)
        self._numbers = count(1)
        self._tracks: dict[tuple[str, ...], int] = {}

    @property
    def is_empty(self) -> bool:
        """Nothing was written."""
        return not self._tracks

    def slice(
        self, path: tuple[str, ...], name: str, start_ns: int, end_ns: int, arguments: Mapping[str, Any], category: str
    ) -> None:
        """A slice on the track `path` = (process, track), if any of it is in the span."""
        if end_ns < self._span[0] or start_ns > self._span[1]:
            return
        self._named(path, name, start_ns, arguments, category, is_instant=False)
        end = self._packet(end_ns)
        end.track_event.type = end.track_event.TYPE_SLICE_END
        end.track_event.track_uuid = self._track(path)
        self._builder.write_packet(end)

    def instant(
        self, path: tuple[str, ...], name: str, time_ns: int, arguments: Mapping[str, Any], category: str
    ) -> None:
        """An event without duration on the track `path` = (process, track), if it is in the span."""
        if self._span[0] <= time_ns <= self._span[1]:
            self._named(path, name, time_ns, arguments, category, is_instant=True)

    def _named(
        self,
        path: tuple[str, ...],
        name: str,
        time_ns: int,
        arguments: Mapping[str, Any],
        category: str,
        *,
        is_instant: bool,
    ) -> None:
        track = self._track(path)
        packet = self._packet(time_ns)
        event = packet.track_event
        event.type = event.TYPE_INSTANT if is_instant else event.TYPE_SLICE_BEGIN
        event.track_uuid = track
        event.name = name
        event.categories.append(category)
        for key, value in arguments.items():
            _set(event.debug_annotations.add(), key, value)
        self._builder.write_packet(packet)

    def count(self, path: tuple[str, ...], unit: str, time_ns: int, value: int) -> None:
        """A value, from a time on, of the counter `path` = (process, counter); values come in order."""
        if time_ns < self._span[0]:
            self._before[path] = value
            return
        if path in self._before:
            self._value(path, unit, round(self._span[0]), self._before.pop(path))
        if time_ns <= self._span[1]:
            self._value(path, unit, time_ns, value)

    def _value(self, path: tuple[str, ...], unit: str, time_ns: int, value: int) -> None:
        packet = self._packet(time_ns)
        packet.track_event.type = packet.track_event.TYPE_COUNTER
        packet.track_event.track_uuid = self._track(path, counter_unit=unit)
        packet.track_event.counter_value = value
        self._builder.write_packet(packet)

    def _packet(self, time_ns: int) -> TracePacket:
        packet = self._builder.create_packet()
        packet.timestamp = time_ns - self._begin_ns  # the format has no times below 0
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _track(self, path: tuple[str, ...], counter_unit: str = "") -> int:
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
                if counter_unit:
                    packet.track_descriptor.counter.unit_name = counter_unit
            self._builder.write_packet(packet)
        return self._tracks[path]


def _set(annotation: Any, name: str, value: Any) -> None:
    annotation.name = name
    if isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int) and value >= 0:
        annotation.uint_value = value
    else:
        annotation.string_value = str(value)


class Lanes:
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


def _builder(file: IO[bytes]) -> StreamingTraceProtoBuilder:
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

    return StreamingTraceProtoBuilder(file)


_JOB, _RATE_UNIT = "job", "bit/s"
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


def write(run: Run, target: Path, *, span: Span = EVER) -> Sequence[str]:
    """Write the timeline.

    Args:
        run: to be written.
        target: the file.
        span: what lies outside is left out, in ns since the first bin of the timeline, else since the first post.

    Raises:
        HostError: it cannot be written.
        InputError: the run has nothing in the span.
        ResultError: a table of the run is missing or damaged.
    """
    origin_ns = _origin_ns(run)
    span = span[0] + origin_ns, span[1] + origin_ns
    with writing(target), target.open("wb") as file:
        line = Tracks(file, begin_ns=_begin_ns(run), span=span)
        _add_iterations(line, run)
        _add_compute(line, run)
        _add_communications(line, run)
        _add_rates(line, run)
        _add_events(line, run)
        _add_counters(line, run)
        if span != EVER and line.is_empty:
            raise InputError("--from, --until: the run has nothing between them")
    return ()


def _origin_ns(run: Run) -> int:
    """Where times of a span count from, as in the report's picture of rates."""
    for part, name in ((RunTable.TIMELINE, "start_ns"), (RunTable.SAMPLES, "post_ns")):
        table = run.table(part, [name])
        if table.num_rows:
            return int(to_ints(table[name]).min())
    return 0


def _begin_ns(run: Run) -> int:
    """The first stamp of a run: on the clock of a controller it can be below 0."""
    first = [
        int(to_ints(run.table(part, [name])[name]).min(initial=0))
        for part, name in (
            (RunTable.ITERATIONS, "start_ns"),
            (RunTable.COMPUTE, "start_ns"),
            (RunTable.SAMPLES, "post_ns"),
            (RunTable.TIMELINE, "start_ns"),
        )
    ]
    last = int(to_ints(run.table(RunTable.SAMPLES, ["done_ns"])["done_ns"]).min(initial=0))
    return min(*first, last)


def _add_iterations(line: Tracks, run: Run) -> None:
    """Slices of the ranks, and of the job for iterations that every rank completed."""
    table = run.table(RunTable.ITERATIONS)
    columns = {name: to_ints(table[name]) for name in table.column_names}
    for iteration in np.unique(columns["iteration"]).tolist():
        rows = np.flatnonzero(columns["iteration"] == iteration)
        start, end = columns["start_ns"][rows], columns["end_ns"][rows]
        if len(rows) == run.manifest.trace.ranks:
            name, category = _name(iteration)
            line.slice((_JOB, "iterations"), name, int(start.min()), int(end.max()), {"iteration": name}, category)
        for row in rows.tolist():
            _add_rank_iteration(line, {name: int(column[row]) for name, column in columns.items()})


def _add_rank_iteration(line: Tracks, row: Mapping[str, int]) -> None:
    name, category = _name(row["iteration"])
    usage = {key: row[key] for key in _USAGE} | {"exposed_ns": row["communication_ns"] - row["overlap_ns"]}
    line.slice((f"rank {row['rank']}", "iterations"), name, row["start_ns"], row["end_ns"], usage, category)


def _name(iteration: int) -> tuple[str, str]:
    """(name, category) of an iteration's slice."""
    return (f"iteration {iteration}", "iteration") if iteration >= 0 else (f"warm-up {iteration}", "warm-up")


def _add_compute(line: Tracks, run: Run) -> None:
    for batch in run.batches(RunTable.COMPUTE):
        for span in batch.to_pylist():
            category = "compute" if span["iteration"] >= 0 else "warm-up"
            line.slice((f"rank {span['rank']}", "compute"), "compute", span["start_ns"], span["end_ns"], {}, category)


def _add_communications(line: Tracks, run: Run) -> None:
    lanes: dict[tuple[int, str], Lanes] = {}
    for sample in _samples(run):
        key = sample["rank"], sample["group"]
        lane = lanes.setdefault(key, Lanes()).place(sample["post_ns"], sample["done_ns"])
        track = sample["group"] if lane == 0 else f"{sample['group']} ({lane + 1})"
        facts = {name: sample[name] for name in _ARGUMENTS} | {"kind": sample["kind"]}
        category = "communication" if sample["iteration"] >= 0 else "warm-up"
        line.slice(
            (f"rank {sample['rank']}", track), sample["name"], sample["post_ns"], sample["done_ns"], facts, category
        )


def _add_rates(line: Tracks, run: Run) -> None:
    """A counter per flow, at the rank that receives it: its rate in each bin, and 0 after bins that others follow."""
    ends: dict[tuple[str, str], int] = {}  # when the last bin of a counter ends
    for batch in run.batches(RunTable.TIMELINE):
        for row in batch.to_pylist():
            start_ns, bin_ns = row["start_ns"], row["bin_ns"]
            path = f"rank {row['dst']}", f"from rank {row['src']}, queue pair {row['qpn']}"
            if row["bytes"]:
                if ends.get(path, start_ns) < start_ns:
                    line.count(path, _RATE_UNIT, ends[path], 0)
                line.count(path, _RATE_UNIT, start_ns, row["bytes"] * BITS_PER_BYTE * NS_PER_S // bin_ns)
                ends[path] = start_ns + bin_ns
    for path, end_ns in ends.items():
        line.count(path, _RATE_UNIT, end_ns, 0)


def _add_events(line: Tracks, run: Run) -> None:
    """A slice for each event of the device, on a track per port; one that did not end lasts as long as the run.

    And an instant for each migration of traffic, on the track of the port that it left.
    """
    changes = run.table(RunTable.EVENTS)
    for row in changes.to_pylist():
        if row["seen_by"] == BY_AGENT and row["time_ns"] is not None:
            facts = {name: row[name] for name in ("name", "uncertainty_ns")}
            port = f"{row['device']}:{row['interface']}"
            line.instant(("device", port), row["what"], row["time_ns"], facts, "event")
    events = [one for one in device_events(changes) if one.happened]
    table = run.table(RunTable.ITERATIONS, ["start_ns", "end_ns"])
    if events and table.num_rows:
        first, last = int(to_ints(table["start_ns"]).min()), int(to_ints(table["end_ns"]).max())
        for one in events:
            begin_ns = first if one.begin_ns is None else max(first, one.begin_ns)
            end_ns = max(begin_ns, last if one.end_ns is None else one.end_ns)
            facts = {"name": one.name, "planned_ns": one.planned_ns, "uncertainty_ns": one.begin_error_ns}
            line.slice(("device", one.where), one.what, begin_ns, end_ns, facts, "event")


def _add_counters(line: Tracks, run: Run) -> None:
    """Counters of devices that changed: a level from each reading on, an increase from the reading before."""
    for name, one in counter_series(run.table(RunTable.COUNTERS)).items():
        if one.value.min() == one.value.max():
            continue
        path, values = ("device", f"{name.device}:{name.interface} {name.counter}"), one.value
        if not name.is_level:
            values = np.append(np.diff(values) * NS_PER_S // np.maximum(np.diff(one.time_ns), 1), 0)
        unit, before = "bytes" if name.is_level else "per second", -1
        for time_ns, value in zip(one.time_ns.tolist(), values.tolist(), strict=True):
            if value != before:
                line.count(path, unit, time_ns, value)
            before = value


def _samples(run: Run) -> Iterator[dict[str, Any]]:
    """Rows in the order of their post, as the lanes need them."""
    table = run.table(
        RunTable.SAMPLES, ["iteration", "rank", "group", "name", "kind", "post_ns", "done_ns", *_ARGUMENTS]
    )
    order = np.argsort(to_ints(table["post_ns"]), kind="stable")
    for batch in table.take(order).to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


PERFETTO = Format(
    "perfetto", ".perfetto-trace", "a time line for ui.perfetto.dev", write, require=require, write_span=write
)


_TRACKS = {Resource.CPU: "CPU", Resource.DEVICE: "device"}


def trace_line_writer() -> Callable[..., None]:
    """`write_trace_line`, when what it needs is installed.

    Raises:
        HostError: the perfetto package is missing.
    """
    require()
    return write_trace_line


def write_trace_line(
    workload: Workload,
    spans: Sequence[tuple[IntArray, IntArray]],
    target: Path,
    *,
    names: Callable[[int], Sequence[str]],
) -> None:
    """Write the time line; slices that overlap on a track go to further ones.

    Args:
        workload: the trace set.
        spans: by rank, begin and end of its nodes: int64, shape (nodes of the rank,), by position, ns.
        target: the file.
        names: rank → names of its nodes in file order.

    Raises:
        HostError: it cannot be written, or the perfetto package is missing.
    """
    with writing(target), target.open("wb") as file:
        tracks = Tracks(file)
        for program in workload.recorded:
            _add_rank(tracks, program, spans[program.rank], workload.groups, names(program.rank))


def _add_rank(
    tracks: Tracks,
    program: RankProgram,
    span: tuple[IntArray, IntArray],
    groups: Sequence[Group],
    names: Sequence[str],
) -> None:
    start, end = span
    lanes: dict[str, Lanes] = {}
    for position in np.argsort(start, kind="stable").tolist():
        begin, done = int(start[position]), int(end[position])
        if done == begin:
            continue
        node = program.communications.get(position)
        track = (
            _TRACKS.get(Resource(int(program.resource[position])), "other") if node is None else _track(node, groups)
        )
        lane = lanes.setdefault(track, Lanes()).place(begin, done)
        shown = track if lane == 0 else f"{track} ({lane + 1})"
        name, category = names[int(program.order[position])], "compute" if node is None else "communication"
        tracks.slice((f"rank {program.rank}", shown), name, begin, done, _arguments(node), category)


def _track(node: Communication, groups: Sequence[Group]) -> str:
    if not node.kind.is_collective:
        return "messages"
    group = groups[node.group]
    return group_label(group.name, group.ranks) if node.group else "world"


def _arguments(node: Communication | None) -> dict[str, Any]:
    if node is None:
        return {}
    return {"kind": node.kind.label, "size_bytes": node.size_bytes, "index_in_group": node.index_in_group}
