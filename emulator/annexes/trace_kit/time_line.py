"""When every node of a trace set runs: as it was recorded, or as it would if communications took given times."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from emulator.trace.meaning.model import CommKind, Communication, IntArray, RankProgram, RankTrace, Resource, Workload
from emulator.trace.meaning.trace_graphs import graph_of, sends_of
from emulator.units import NS_PER_US

RECORDED_SHARE = 0.9
"""From which share of communications with a start time on, a set counts as recorded."""


@dataclass(frozen=True, slots=True)
class TimeLine:
    """When nodes run.

    Attributes:
        start_ns, end_ns: by rank, int64, shape (nodes of the rank,): by position, ns since the start of the set.
        is_recorded: as recorded by the clocks of the ranks; False: computed.
    """

    start_ns: Sequence[IntArray]
    end_ns: Sequence[IntArray]
    is_recorded: bool

    @property
    def length_ns(self) -> int:
        """The end of the last node."""
        return max((int(end.max()) for end in self.end_ns if len(end)), default=0)


def recorded_time_line(workload: Workload, traces: Sequence[RankTrace]) -> TimeLine | None:
    """The recorded times since the earliest start; None: too few communications have a start time.

    Durations are as recorded: that of a caller contains those of what it called.
    """
    ranked = sorted(traces, key=lambda trace: trace.rank)
    starts = [trace.start_micros[program.order] for program, trace in zip(workload.programs, ranked, strict=True)]
    known = [start[list(program.communications)] > 0 for program, start in zip(workload.programs, starts, strict=True)]
    total = np.concatenate(known)
    if not len(total) or float(np.mean(total)) < RECORDED_SHARE:
        return None
    first = min(int(start[start > 0].min()) for start in starts if np.any(start > 0))
    begin = [(np.maximum(start, first) - first) * NS_PER_US for start in starts]
    lasting = [trace.duration_micros[program.order] for program, trace in zip(workload.programs, ranked, strict=True)]
    end = [one + micros * NS_PER_US for one, micros in zip(begin, lasting, strict=True)]
    return TimeLine(begin, end, is_recorded=True)


def computed_time_line(workload: Workload, communication_ns: IntArray) -> TimeLine:
    """The times by the rules of play: one node at a time on CPU and on device, collectives of a group in order.

    Args:
        workload: proven to finish.
        communication_ns: by instance: from the last post of a collective to its end, from the post of a send to the
            arrival at the receiver.

    Takes about 5 µs a node.
    """
    return _Play(workload, communication_ns).run()


class _Play:
    """Plays a workload in virtual time; what happens at the same time happens in the order in which it was caused."""

    def __init__(self, workload: Workload, communication_ns: IntArray) -> None:
        self._workload = workload
        self._lasting: list[int] = communication_ns.tolist()
        self._ranks = [_RankState(program) for program in workload.programs]
        self._members: dict[int, int] = defaultdict(int)
        for program in workload.programs:
            for node in program.communications.values():
                self._members[node.instance] += node.kind.is_collective
        self._sent = sends_of(workload.programs)
        self._posted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._arrived: dict[int, int] = {}
        self._receiving: dict[int, tuple[int, int]] = {}
        self._events: list[tuple[int, int, int, int]] = []
        self._sequence = count()

    def run(self) -> TimeLine:
        """Play to the end."""
        for number, rank in enumerate(self._ranks):
            for position in np.flatnonzero(np.diff(rank.program.dep_offset) == 0).tolist():
                self._make_ready(number, position, 0)
        while self._events:
            now, _, number, position = heapq.heappop(self._events)
            self._finish(number, position, now)
        starts, ends = (
            [np.array(times, dtype=np.int64) for times in columns]
            for columns in zip(*((rank.start, rank.end) for rank in self._ranks), strict=True)
        )
        return TimeLine(starts, ends, is_recorded=False)

    def _make_ready(self, number: int, position: int, now: int) -> None:
        rank = self._ranks[number]
        resource = rank.resource[position]
        if resource == Resource.NETWORK:
            self._ready_communication(number, position, now)
        elif resource == Resource.NONE:
            rank.start[position] = now
            self._end(number, position, now)
        else:
            heapq.heappush(rank.queue[resource], (now, position))
            self._start_next(number, resource, now)

    def _start_next(self, number: int, resource: int, now: int) -> None:
        rank = self._ranks[number]
        if not rank.is_busy[resource] and rank.queue[resource]:
            _, position = heapq.heappop(rank.queue[resource])
            rank.is_busy[resource] = True
            rank.start[position] = now
            self._end(number, position, now + rank.duration[position])

    def _end(self, number: int, position: int, time: int) -> None:
        heapq.heappush(self._events, (time, next(self._sequence), number, position))

    def _finish(self, number: int, position: int, now: int) -> None:
        rank = self._ranks[number]
        rank.end[position] = now
        resource = rank.resource[position]
        if resource == Resource.NETWORK:
            self._finish_communication(number, rank.program.communications[position], now)
        elif resource != Resource.NONE:
            rank.is_busy[resource] = False
            self._start_next(number, resource, now)
        for dependent in rank.dependents(position):
            rank.waiting[dependent] -= 1
            if not rank.waiting[dependent]:
                self._make_ready(number, dependent, now)

    def _ready_communication(self, number: int, position: int, now: int) -> None:
        rank = self._ranks[number]
        node = rank.program.communications[position]
        if node.kind is CommKind.SEND or (node.kind is CommKind.RECV and node.instance not in self._sent):
            rank.start[position] = now
            self._end(number, position, now + self._lasting[node.instance])
        elif node.kind is CommKind.RECV:
            rank.start[position] = now
            if node.instance in self._arrived:
                self._end(number, position, now)
            else:
                self._receiving[node.instance] = (number, position)
        else:
            rank.early.setdefault(node.group, {})[node.index_in_group] = position
            self._post_next(number, node.group, now)

    def _post_next(self, number: int, group: int, now: int) -> None:
        """Post the rank's next collective of a group, if it is ready and the one before it is done."""
        rank = self._ranks[number]
        position = rank.early.get(group, {}).pop(rank.next_index[group], None)
        if position is None:
            return
        rank.start[position] = now
        instance = rank.program.communications[position].instance
        posted = self._posted[instance]
        posted.append((number, position))
        if len(posted) == self._members[instance]:
            for member, at in self._posted.pop(instance):
                self._end(member, at, now + self._lasting[instance])

    def _finish_communication(self, number: int, node: Communication, now: int) -> None:
        if node.kind.is_collective:
            rank = self._ranks[number]
            rank.next_index[node.group] += 1
            self._post_next(number, node.group, now)
        elif node.kind is CommKind.SEND:
            self._arrived[node.instance] = now
            if node.instance in self._receiving:
                self._end(*self._receiving.pop(node.instance), now)


class _RankState:
    """State of a rank; lists by position, or by resource."""

    def __init__(self, program: RankProgram) -> None:
        size = len(program)
        self.program = program
        self.resource: list[int] = program.resource.tolist()
        self.duration: list[int] = program.duration_ns.tolist()
        self.waiting: list[int] = np.diff(program.dep_offset).tolist()
        self.start, self.end = [0] * size, [0] * size
        self.queue: list[list[tuple[int, int]]] = [[] for _ in Resource]
        self.is_busy = [False for _ in Resource]
        self.early: dict[int, dict[int, int]] = {}
        self.next_index: dict[int, int] = defaultdict(int)
        owner = np.repeat(np.arange(size), np.diff(program.dep_offset))
        following = graph_of(size, [(program.dep_position, owner)])
        self._first: list[int] = following.first.tolist()
        self._dependent: list[int] = following.successor.tolist()

    def dependents(self, position: int) -> list[int]:
        """Positions that wait for one."""
        return self._dependent[self._first[position] : self._first[position + 1]]
