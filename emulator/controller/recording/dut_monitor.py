"""What the controller needs of a monitor of the device under test, for one job or several."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from emulator.results.run_folder.schema import Columns


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
