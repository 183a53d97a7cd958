"""From what a session reports to rows of the run folder.

Both ends of the transfers of an instance are put together: what its sender recorded, and what its receiver did.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from emulator.control.observations import (
    ChainRecords,
    Completions,
    ComputeSpans,
    FlowCounters,
    FlowEvents,
    RankSteps,
    RankSummary,
    StepRecords,
    join_ends,
)
from emulator.controller.recording.network_time import NetworkTimes
from emulator.controller.recording.session_observer import DutCounters, RanksDone, SessionEvent
from emulator.errors import RemoteProtocolError
from emulator.results.run_folder.catalogue import NodeCatalogue
from emulator.results.run_folder.manifest import BROKEN, Exclusion, Trials
from emulator.results.run_folder.observer import (
    IterationEnded,
    IterationStarted,
    Moved,
    Recorded,
    RunEvent,
    RunObserver,
)
from emulator.results.run_folder.schema import Columns, RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.trace.meaning.model import CommKind, IntArray

HOLD_S = 0.5
"""Completions are recorded together when rows are written, which is while agents play, or after this time: that costs a
fraction of one at a time, and none of it delays an iteration."""
WORST_HOLD_S = 0.05
"""The same while agents hold steps until they hear which collectives are the slowest: they cannot hold many."""


@dataclass(slots=True)
class _OpenIteration:
    """An iteration that not all ranks have completed: how many have, and from when to when they played."""

    ranks: int = 0
    start_ns: int | None = None
    end_ns: int = 0

    def add(self, summaries: Sequence[RankSummary]) -> None:
        self.ranks += len(summaries)
        for one in summaries:
            self.start_ns = one.start_ns if self.start_ns is None else min(self.start_ns, one.start_ns)
            self.end_ns = max(self.end_ns, one.end_ns)


class Recorder:
    """Writes what a session reports into the run folder, and passes it on. Implements SessionObserver.

    Observers hear that an iteration is done when all its rows are written: what they say of it outlives the process.

    Args:
        writer: of the open run folder.
        catalogue: the fixed columns of every communication node.
        observers: called in order, after the rows are written.
        monitor: reads the counters of the device under test.
        worst: finds the instances whose steps are recorded; None: agents choose for themselves, if at all.
        hosts: of each rank, where times are split into network and tester; empty: they are not.
        byte_ns: see NetworkTimes.
        now: the clock, s.
    """

    def __init__(
        self,
        writer: RunWriter,
        catalogue: NodeCatalogue,
        observers: Sequence[RunObserver],
        monitor: DutCounters,
        *,
        worst: WorstInstances | None = None,
        hosts: Sequence[int] = (),
        byte_ns: float = math.inf,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer, self._catalogue, self._observers, self._monitor = writer, catalogue, observers, monitor
        self._worst, self._wanted = worst, dict[int, list[int]]()
        self._now, self._held, self._recorded_at = now, list[Completions](), 0.0
        self._steps = StepAssembly(catalogue.members)
        self.network_times = NetworkTimes(catalogue, hosts, byte_ns=byte_ns)
        self._open: dict[int, _OpenIteration] = {}
        self._begun = self._warmup = 0  # iterations
        self._ended_ns = 0  # the newest iteration that all ranks completed
        self._flow_events: dict[int, list[FlowCounters]] = {}  # iteration → as both ends of flows said
        self._news: list[RunEvent] = []  # of iterations, in order; told once their rows are written

    def tell(self, event: SessionEvent) -> None:
        """See SessionObserver."""
        match event:
            case Completions():
                self._held.append(event)
                if self._now() - self._recorded_at >= (HOLD_S if self._worst is None else WORST_HOLD_S):
                    self.record()
            case StepRecords():
                for block in event.blocks:
                    for rows in self._steps.add(block):
                        self._writer.add(RunTable.STEPS, rows)
            case ChainRecords():
                for chain in event.blocks:
                    self.network_times.add(chain)
            case ComputeSpans():
                self._writer.add_compute(event)
            case FlowEvents():
                self._flow_events.setdefault(event.iteration, []).extend(event.flows)
            case RanksDone():
                self._ranks_done(event)
            case IterationStarted(iteration):
                self._monitor.begin(iteration)
                self._begun, self._warmup = self._begun + 1, self._warmup + (iteration < 0)
                self._open[iteration] = _OpenIteration()
                self._news.append(event)
                if len(self._news) == 1:
                    self._tell_news()
            case Moved():
                self._add_counters()
                self._pass_on(event)
            case _:
                self._pass_on(event)

    def _pass_on(self, event: RunEvent) -> None:
        for observer in self._observers:
            observer.tell(event)

    def _tell_news(self) -> None:
        news, self._news = self._news, []
        for event in news:
            self._pass_on(event)

    def record(self) -> None:
        """See SessionObserver."""
        held, self._held, self._recorded_at = self._held, [], self._now()
        if held:
            samples = self._catalogue.samples(held)
            self._writer.add(RunTable.SAMPLES, samples)
            for iteration, instance in self._worst.note(samples) if self._worst is not None else ():
                self._wanted.setdefault(iteration, []).append(instance)
            self._pass_on(Recorded(samples))

    def wanted_steps(self) -> Mapping[int, Sequence[int]]:
        """See SessionObserver."""
        wanted, self._wanted = self._wanted, {}
        return wanted

    def _ranks_done(self, event: RanksDone) -> None:
        iteration, summaries = event
        if self._worst is not None:  # agents hold the steps of instances until they hear which are the slowest
            self.record()
        done = self._open.get(iteration)
        if done is None:
            raise RemoteProtocolError(f"agents report the end of iteration {iteration}, which is not under way")
        self._writer.add_iteration(iteration, summaries)
        done.add(summaries)
        if done.ranks == self._catalogue.ranks:
            del self._open[iteration]
            assert done.start_ns is not None
            start_ns = max(self._ended_ns, done.start_ns)  # see emulator/results/statistics/samples/iterations.py
            self._ended_ns = done.end_ns
            jct_ns = max(0, self._ended_ns - start_ns)
            self._news.append(IterationEnded(iteration, jct_ns))
            self._write_flow_events(before=iteration)

    def write(self) -> None:
        """See SessionObserver."""
        self.record()
        self._writer.flush()
        self._tell_news()

    def flush(self) -> None:
        """Put everything on disk: nobody says anything any more."""
        self.record()
        self._write_flow_events()
        for rows in self._steps.rest():
            self._writer.add(RunTable.STEPS, rows)
        self._add_counters()
        self.write()

    def _write_flow_events(self, *, before: int | None = None) -> None:
        """Put both ends of every flow together, of all iterations or of those before one that all ranks completed.

        Agents speak of an iteration when they prepare the next one, which may be after that was started.
        """
        spoken = [one for one in self._flow_events if before is None or one < before]
        for iteration in spoken:
            self._writer.add_flow_events(iteration, join_ends(self._flow_events.pop(iteration)))

    def _add_counters(self) -> None:
        while (counters := self._monitor.counters()) is not None:
            self._writer.add(RunTable.COUNTERS, counters)

    @property
    def steps_missing(self) -> int:
        """Instances whose steps were to be recorded and are incomplete or missing, as far as is known here."""
        if self._worst is None:
            return self._steps.incomplete
        return len(self._worst.found - self._steps.complete)

    def trials(self, ranks: int) -> Trials:
        """Accounting of iterations; one that not all ranks completed is excluded."""
        broken = sorted(one for one, done in self._open.items() if one >= 0 and done.ranks < ranks)
        return Trials(
            attempted=self._begun,
            warmup=self._warmup,
            included=self._begun - self._warmup - len(broken),
            excluded=tuple(Exclusion(one, BROKEN) for one in broken),
        )


_PAIR_MEMBERS = 2
_COLUMNS = (
    *("iteration", "kind", "group_size", "size_bytes", "algorithm", "instance", "rank"),
    *("post_ns", "done_ns", "arrival_ns"),
)


class Class(NamedTuple):
    """What instances have in common that the summary puts into one row."""

    kind: str
    members: int
    size_bytes: int
    algorithm: str
    is_between_hosts: bool


class Instance(NamedTuple):
    """A collective or pair of an iteration."""

    iteration: int
    number: int


@dataclass(slots=True)
class _Progress:
    """Members of an instance that are done; times as the statistics of collectives take them."""

    missing: int
    last_post_ns: int
    last_done_ns: int
    last_arrival_ns: int  # 0: none yet
    size_bytes: int
    hosts: set[int]


class WorstInstances:
    """Finds the slowest instance of each class.

    Args:
        hosts: host of each rank.
    """

    def __init__(self, hosts: Sequence[int]) -> None:
        self._hosts = hosts
        self._open: dict[Instance, _Progress] = {}
        self._slowest: dict[Class, tuple[int, Instance]] = {}  # time in ns

    @property
    def found(self) -> frozenset[Instance]:
        """The slowest instance of each class."""
        return frozenset(instance for _, instance in self._slowest.values())

    def note(self, samples: Columns) -> list[Instance]:
        """Take members that are done; returns the instances that are now the slowest of their class.

        Args:
            samples: columns as of the samples table; warm-up does not count.
        """
        if not len(samples["rank"]):
            return []
        columns = [samples[name] for name in _COLUMNS]
        rows = zip(*(one.tolist() if hasattr(one, "tolist") else one for one in columns), strict=True)
        return [instance for row in rows if (instance := self._note(*row)) is not None]

    def _note(
        self,
        iteration: int,
        kind: str,
        members: int,
        size_bytes: int,
        algorithm: str,
        number: int,
        rank: int,
        post_ns: int,
        done_ns: int,
        arrival_ns: int | None,
    ) -> Instance | None:
        if iteration < 0 or members < 2 or not (size_bytes or kind == CommKind.BARRIER.label):
            return None  # complete at once
        is_pair = kind in (CommKind.SEND.label, CommKind.RECV.label)
        if is_pair:  # from the post of the send to the arrival of the last byte
            members, algorithm = _PAIR_MEMBERS, ""
            post_ns, done_ns = (post_ns, 0) if kind == CommKind.SEND.label else (0, done_ns)
            kind = CommKind.SEND.label
        instance = Instance(iteration, number)
        progress = self._open.setdefault(instance, _Progress(members, 0, 0, 0, 0, set()))
        progress.missing -= 1
        progress.last_post_ns = max(progress.last_post_ns, post_ns)
        progress.last_done_ns = max(progress.last_done_ns, done_ns)
        progress.last_arrival_ns = max(progress.last_arrival_ns, arrival_ns or 0)
        progress.size_bytes = max(progress.size_bytes, size_bytes)
        progress.hosts.add(self._hosts[rank])
        if progress.missing:
            return None
        del self._open[instance]
        of = Class(kind, members, progress.size_bytes, algorithm, len(progress.hosts) > 1)
        return self._compare(instance, of, (progress.last_arrival_ns or progress.last_done_ns) - progress.last_post_ns)

    def _compare(self, instance: Instance, of: Class, time_ns: int) -> Instance | None:
        if of in self._slowest and self._slowest[of][0] >= time_ns:
            return None
        self._slowest[of] = (time_ns, instance)
        return instance


MOST_TRANSFERS = 1 << 20
"""Transfers of instances that lack members, held at once; then the oldest instance is written as it is."""
_OF_SENDER = ("step", "size_bytes", "start_ns", "post_ns", "acknowledged_ns")
_UNKNOWN = -1


class StepAssembly:
    """Holds the blocks of instances until all members have sent theirs.

    Args:
        members_of: number of members of the instance that a node of a rank belongs to.

    Attributes:
        complete: (iteration, instance) of those that were given out whole.
        incomplete: how many were given out without all of their members.
    """

    def __init__(self, members_of: Callable[[int, int], int], *, most_transfers: int = MOST_TRANSFERS) -> None:
        self._members_of, self._most_transfers = members_of, most_transfers
        self._open: dict[tuple[int, int], list[RankSteps]] = {}
        self._transfers = 0
        self.complete: set[tuple[int, int]] = set()
        self.incomplete = 0

    def add(self, block: RankSteps) -> Iterator[Columns]:
        """Take a block; yields the rows of instances that need not wait any longer."""
        key = (block.iteration, block.instance)
        blocks = self._open.setdefault(key, [])
        blocks.append(block)
        self._transfers += len(block.step)
        if len(blocks) == self._members_of(block.rank, block.node_id):
            self.complete.add(key)
            yield self._rows(key)
        while self._transfers > self._most_transfers:
            yield self._rest(next(iter(self._open)))

    def rest(self) -> Iterator[Columns]:
        """The rows of what still waits: the run is over."""
        for key in list(self._open):
            yield self._rest(key)

    def _rest(self, key: tuple[int, int]) -> Columns:
        self.incomplete += 1
        return self._rows(key)

    def _rows(self, key: tuple[int, int]) -> Columns:
        blocks = self._open.pop(key)
        self._transfers -= sum(len(one.step) for one in blocks)
        return {"iteration": key[0], "instance": key[1]} | joined(blocks)


def joined(blocks: Sequence[RankSteps]) -> dict[str, Any]:
    """The transfers of one instance as columns of the steps table, in the order in which their steps began.

    Args:
        blocks: of its members; of a transfer with one end in none of them, that end is null.
    """
    sent, received = (
        _flat(blocks, "receiver", "send_lane", *_OF_SENDER),
        _flat(blocks, "sender", "receive_lane", "arrival_ns"),
    )
    keys = [
        _numbered(sent["rank"], sent["receiver"], sent["send_lane"]),
        _numbered(received["sender"], received["rank"], received["receive_lane"]),
    ]
    if not any(map(len, keys)):
        return {name: np.zeros(0, np.int64) for name in ("lane", "src", "dst")}
    transfers, row = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    sends, receives = np.split(row.ravel(), [len(keys[0])])
    known = {name: np.full(len(transfers), _UNKNOWN) for name in (*_OF_SENDER, "arrival_ns")}
    for name in _OF_SENDER:
        known[name][sends] = sent[name]
    known["arrival_ns"][receives] = received["arrival_ns"]
    src, dst, lane, _ = transfers.T
    order = np.lexsort((known["step"], lane, src, known["start_ns"]))
    nodes = {one.rank: one.node_id for one in blocks}
    return {
        "node_id": [nodes.get(rank) for rank in src[order].tolist()],
        **{name: column[order] for name, column in (("src", src), ("dst", dst), ("lane", lane))},
        **{name: _nullable(column[order], name) for name, column in known.items()},
    }


def _flat(blocks: Sequence[RankSteps], *names: str) -> dict[str, IntArray]:
    """Columns of all blocks, end to end, and the rank of each row."""
    flat = {
        name: np.concatenate([np.asarray(getattr(one, name), np.int64) for one in blocks] or [np.zeros(0, np.int64)])
        for name in names
    }
    counts = [len(getattr(one, names[0])) for one in blocks]
    return flat | {"rank": np.repeat(np.array([one.rank for one in blocks], np.int64), counts)}


def _numbered(src: IntArray, dst: IntArray, lane: IntArray) -> IntArray:
    """(source, destination, lane, how many such came before) of each transfer, shape (transfers, 4)."""
    order = np.lexsort((lane, dst, src))  # stable: transfers of one line stay in order
    keys = np.stack([src, dst, lane], axis=1)[order]
    fresh = np.concatenate(([True], np.any(keys[1:] != keys[:-1], axis=1))) if len(keys) else np.zeros(0, np.bool_)
    starts = np.flatnonzero(fresh)
    number = np.zeros(len(src), np.int64)
    number[order] = np.arange(len(src)) - np.repeat(starts, np.diff(starts, append=len(src)))
    return np.stack([src, dst, lane, number], axis=1)


def _nullable(values: IntArray, name: str) -> Any:
    """Times that are 0 never came: the run ended before."""
    return np.ma.masked_array(values, values <= 0 if name.endswith("_ns") else values == _UNKNOWN)
