"""Tracks and slices in Perfetto's format: a process per rank, tracks in it, slices on them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import count
from typing import IO, TYPE_CHECKING, Any

from emulator.errors import HostError

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

_SEQUENCE = 1


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

    def __init__(self, file: IO[bytes], *, begin_ns: int = 0) -> None:
        self._begin_ns = min(0, begin_ns)
        self._builder = _builder(file)
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
        packet.timestamp = time_ns - self._begin_ns  # the format has no times below 0
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
