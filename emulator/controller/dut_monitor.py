"""Interface to the monitor of the device under test: reads its counters and applies its profile during a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from emulator.run_folder.schema import Columns


class DutCounters(Protocol):
    """What the recorder of a run needs of a monitor."""

    def begin(self) -> None:
        """The first iteration starts."""
        ...

    def counters(self) -> Columns | None:
        """Counters read since the last call; None: no more. Columns as in `COUNTERS_SCHEMA`.

        Raises:
            HostError: a step of the profile cannot be applied; this ends the run.
        """
        ...


class DutMonitor(DutCounters, Protocol):
    """A context manager around the run. Methods are called on the run's thread in this order; `counters` repeatedly."""

    def __enter__(self) -> Any:
        """Prepare the device before the run folder is created: errors that prevent the run are raised here.

        Raises:
            EmulatorError: the profile cannot be applied, or a device does not answer.
        """
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the device."""
        ...

    def end(self) -> None:
        """The run has ended, successfully or not: read the counters a last time; idempotent."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest records about the device under test in addition to its name."""
        ...


def shared_monitors(monitor: DutCounters, count: int) -> Sequence[DutCounters]:
    """A view of the monitor for each of several jobs: all get all counters, and the device begins once."""
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
        self._has_begun = False

    def begin(self) -> None:
        """See DutCounters."""
        if not any(view._has_begun for view in self._views):
            self._monitor.begin()
        self._has_begun = True

    def counters(self) -> Columns | None:
        """See DutCounters."""
        if (news := self._monitor.counters()) is not None:
            for view in self._views:
                view._unread.append(news)
        return self._unread.popleft() if self._unread else None
