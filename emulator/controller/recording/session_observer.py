"""Interfaces of observers of a session, and of a monitor of the device under test."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from emulator.control.observations import ChainRecords, Completions, ComputeSpans, FlowEvents, RankSummary, StepRecords
from emulator.results.run_folder.observer import AgentMoved, IterationStarted, Moved, WaitingFor
from emulator.results.run_folder.schema import Columns


class RanksDone(NamedTuple):
    """One agent's ranks completed the iteration."""

    iteration: int
    summaries: Sequence[RankSummary]


SessionEvent: TypeAlias = (
    WaitingFor
    | IterationStarted
    | Completions
    | StepRecords
    | ChainRecords
    | ComputeSpans
    | FlowEvents
    | RanksDone
    | Moved
    | AgentMoved
)
"""What is known of a job before any of it is written. FlowEvents of an iteration come before the next one starts."""


class SessionObserver(Protocol):
    """Receives the events of a job, on the thread of its session."""

    def tell(self, event: SessionEvent) -> None:
        """Take an event."""
        ...

    def wanted_steps(self) -> Mapping[int, Sequence[int]]:
        """Iteration → instances that are now the slowest of their class; asked for after Completions."""
        ...

    def record(self) -> None:
        """Take the longer half of the work of `write`, so that the rest takes a moment; called before it."""
        ...

    def write(self) -> None:
        """Put what was reported on disk, even if the controller is killed next; called four times a second."""
        ...


class DutCounters(Protocol):
    """What the recorder of a run needs of a monitor."""

    def begin(self, iteration: int | None) -> None:
        """An iteration of the first job starts; negative: of the warm-up; None: one of another job."""
        ...

    def counters(self) -> Columns | None:
        """Counters read since the last call; None: no more. Columns as in `COUNTERS_SCHEMA`.

        Raises:
            HostError: a step of the profile cannot be applied; this ends the run.
        """
        ...


def shared_monitors(monitor: DutCounters, count: int) -> Sequence[DutCounters]:
    """A view of the monitor for each of several jobs: all get all counters; the first job comes first."""
    if count == 1:
        return [monitor]
    views: list[_View] = []
    views.extend(_View(monitor, views) for _ in range(count))
    return views


class _View:
    """Counters of a device for one of several jobs."""

    def __init__(self, monitor: DutCounters, views: Sequence[_View]) -> None:
        self._monitor, self._views = monitor, views
        self._unread: deque[Columns] = deque()

    def begin(self, iteration: int | None) -> None:
        """See DutCounters."""
        self._monitor.begin(iteration if self is self._views[0] else None)

    def counters(self) -> Columns | None:
        """See DutCounters."""
        if (news := self._monitor.counters()) is not None:
            for view in self._views:
                view._unread.append(news)
        return self._unread.popleft() if self._unread else None
