"""Events of CPU threads by time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate

from emulator.annexes.importers.pytorch.kineto_events import KinetoEvent


class Intervals:
    """Events, each with a number; those of a thread may be nested.

    Args:
        events: by start.
    """

    def __init__(self, events: Iterable[KinetoEvent]) -> None:
        self._numbered: defaultdict[object, list[tuple[int, KinetoEvent]]] = defaultdict(list)
        for number, event in enumerate(events):
            self._numbered[event.tid].append((number, event))
        self._starts = {tid: [one.ts for _, one in events] for tid, events in self._numbered.items()}
        self._reached = {
            tid: list(accumulate((one.end for _, one in events), max)) for tid, events in self._numbered.items()
        }

    def around(self, event: KinetoEvent) -> int | None:
        """Number of the innermost event during which this one starts on the same thread; None: there is none."""
        reached = self._reached.get(event.tid, ())
        for at in range(self._count_before(event) - 1, -1, -1):
            if reached[at] < event.ts:
                break
            number, found = self._numbered[event.tid][at]
            if found.end >= event.ts:
                return number
        return None

    def before(self, event: KinetoEvent) -> Iterator[int]:
        """Numbers of events that have started on the same thread, the last one first."""
        for at in range(self._count_before(event) - 1, -1, -1):
            yield self._numbered[event.tid][at][0]

    def _count_before(self, event: KinetoEvent) -> int:
        return bisect_right(self._starts.get(event.tid, ()), event.ts)
