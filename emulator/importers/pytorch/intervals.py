"""Events of CPU threads by time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from emulator.importers.pytorch.kineto import Event


class Intervals:
    """Events that do not overlap on their thread, each with a number.

    Args:
        events: by start.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._starts: defaultdict[object, list[float]] = defaultdict(list)
        self._numbered: defaultdict[object, list[tuple[int, Event]]] = defaultdict(list)
        for number, event in enumerate(events):
            self._starts[event.tid].append(event.ts)
            self._numbered[event.tid].append((number, event))

    def around(self, event: Event) -> int | None:
        """Number of the event during which this one starts on the same thread; None: there is none."""
        found = self.before(event)
        return found[-1][0] if found and found[-1][1].end >= event.ts else None

    def before(self, event: Event) -> list[tuple[int, Event]]:
        """Events that have started on the same thread, with their numbers, by start."""
        if event.tid not in self._starts:
            return []
        return self._numbered[event.tid][: bisect_right(self._starts[event.tid], event.ts)]
