"""From what a session reports to rows of the run folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from emulator.control.observations import (
    Completions,
    ComputeSpans,
    FlowCounters,
    FlowEvents,
    RankSummary,
    StepRecords,
    join_completions,
    join_ends,
)
from emulator.controller.recording.dut_monitor import DutCounters
from emulator.controller.recording.step_assembly import StepAssembly
from emulator.controller.recording.worst_instances import WorstInstances
from emulator.errors import RemoteProtocolError
from emulator.results.run_folder.catalogue import NodeCatalogue
from emulator.results.run_folder.layout import BROKEN
from emulator.results.run_folder.manifest import Exclusion, Trials
from emulator.results.run_folder.observer import RunObserver
from emulator.results.run_folder.writer import RunWriter

HOLD_S = 0.05
"""Completions of many agents are recorded together, at most this often: that costs a fraction of one at a time."""


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
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer, self._catalogue, self._observers, self._monitor = writer, catalogue, observers, monitor
        self._worst, self._wanted = worst, dict[int, list[int]]()
        self._now, self._held, self._recorded_at = now, dict[int, list[Completions]](), 0.0  # held by iteration
        self._steps = StepAssembly(catalogue.members)
        self._open: dict[int, _OpenIteration] = {}
        self._begun = self._warmup = 0  # iterations
        self._ended_ns = 0  # the newest iteration that all ranks completed
        self._flow_events: dict[int, list[FlowCounters]] = {}  # iteration → as both ends of flows said
        self._news: list[
            Callable[[RunObserver], None]
        ] = []  # of iterations, in order; told once their rows are written

    def waiting_for(self, agents: Sequence[str]) -> None:
        """See SessionObserver."""
        for observer in self._observers:
            observer.waiting_for(agents)

    def iteration_started(self, iteration: int) -> None:
        """See SessionObserver."""
        self._write_flow_events()
        if not self._begun:
            self._monitor.begin()
        self._begun, self._warmup = self._begun + 1, self._warmup + (iteration < 0)
        self._open[iteration] = _OpenIteration()
        self._news.append(lambda observer: observer.iteration_started(iteration))
        if len(self._news) == 1:
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, []
        for one in news:
            for observer in self._observers:
                one(observer)

    def completed(self, completions: Completions) -> None:
        """See SessionObserver."""
        self._held.setdefault(completions.iteration, []).append(completions)
        if self._now() - self._recorded_at >= HOLD_S:
            self._record_held()

    def _record_held(self) -> None:
        held, self._held, self._recorded_at = self._held, {}, self._now()
        for parts in held.values():
            self._record(join_completions(parts))

    def _record(self, completions: Completions) -> None:
        samples = self._catalogue.samples(completions)
        self._writer.add_samples(samples)
        if self._worst is not None and (slowest := self._worst.note(completions.iteration, samples)):
            self._wanted.setdefault(completions.iteration, []).extend(slowest)
        for observer in self._observers:
            observer.completed(len(completions.rank))
            observer.recorded(samples)

    def wanted_steps(self) -> Mapping[int, Sequence[int]]:
        """See SessionObserver."""
        wanted, self._wanted = self._wanted, {}
        return wanted

    def steps_recorded(self, records: StepRecords) -> None:
        """See SessionObserver."""
        for block in records.blocks:
            for rows in self._steps.add(block):
                self._writer.add_steps(rows)

    def computed(self, spans: ComputeSpans) -> None:
        """See SessionObserver."""
        self._writer.add_compute(spans)

    def flow_events(self, events: FlowEvents) -> None:
        """See SessionObserver."""
        self._flow_events.setdefault(events.iteration, []).extend(events.flows)

    def iteration_done(self, iteration: int, summaries: Sequence[RankSummary]) -> None:
        """See SessionObserver."""
        self._record_held()
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
            self._news.append(lambda observer: observer.iteration_done(iteration, jct_ns))

    def moved(self, bytes_sent: int) -> None:
        """See SessionObserver."""
        self._add_counters()
        for observer in self._observers:
            observer.moved(bytes_sent)

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """See SessionObserver."""
        for observer in self._observers:
            observer.agent_moved(agent, bytes_sent=bytes_sent, nodes_done=nodes_done, waiting_on=waiting_on)

    def write(self) -> None:
        """See SessionObserver."""
        self._record_held()
        self._writer.flush()
        self._tell()

    def flush(self) -> None:
        """Put everything on disk: nobody says anything any more."""
        self._record_held()
        self._write_flow_events(is_over=True)
        for rows in self._steps.rest():
            self._writer.add_steps(rows)
        self._add_counters()
        self.write()

    def _write_flow_events(self, *, is_over: bool = False) -> None:
        """Put both ends of every flow together, of iterations of which all agents have spoken."""
        spoken = [one for one in self._flow_events if is_over or one not in self._open]
        for iteration in spoken:
            self._writer.add_flow_events(iteration, join_ends(self._flow_events.pop(iteration)))

    def _add_counters(self) -> None:
        while (counters := self._monitor.counters()) is not None:
            self._writer.add_counters(counters)

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
