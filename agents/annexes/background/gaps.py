"""Where the numbers of a flow's datagrams have gaps, from when to when nothing came, and when nothing was sent."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from emulator.control.flows import MOST_GAPS, FlowGap


@dataclass(slots=True)
class _Gap:
    """A gap, and the numbers that are missing: from `first` on, before `end`; `lost` of them have not come later."""

    first: int
    end: int
    start_ns: int
    end_ns: int
    lost: int
    late_ns: int | None


class Gaps:
    """The longest gaps of a flow.

    Attributes:
        next: above the highest number that came, or that the sender said to have used.
        last_ns: when the datagram with the number before that came; None: none has.
    """

    __slots__ = ("_found", "_most", "_quickest_ns", "last_ns", "next")

    def __init__(self, most: int = MOST_GAPS) -> None:
        self._found: list[_Gap] = []
        self._most, self._quickest_ns = most, 1 << 62
        self.next = 0
        self.last_ns: int | None = None

    def came(self, number: int, at_ns: int, transit_ns: int | None) -> None:
        """A datagram came.

        Args:
            number: of the datagram.
            at_ns: when it came.
            transit_ns: from when it was due; None: the clocks of the ends differ.
        """
        if transit_ns is not None and transit_ns < self._quickest_ns:
            self._quickest_ns = transit_ns
        if number < self.next:
            self._came_late(number)
            return
        if number > self.next:
            late_ns = None if transit_ns is None else transit_ns - self._quickest_ns
            self._add(number, at_ns, late_ns)
        self.next, self.last_ns = number + 1, at_ns

    def ended(self, number: int, at_ns: int) -> None:
        """The sender says that it has used so many numbers."""
        if number > self.next:
            self._add(number, at_ns, None)
            self.next = number

    def found(self) -> Sequence[FlowGap]:
        """The gaps, in the order of time."""
        return [FlowGap(one.start_ns, one.end_ns, one.lost, one.late_ns) for one in self._found]

    def _add(self, number: int, at_ns: int, late_ns: int | None) -> None:
        if self.last_ns is None or at_ns <= self.last_ns:  # the kernel merged what was around it
            return
        self._found.append(_Gap(self.next, number, self.last_ns, at_ns, number - self.next, late_ns))
        if len(self._found) > self._most:
            self._found.remove(min(self._found, key=lambda one: one.end_ns - one.start_ns))

    def _came_late(self, number: int) -> None:
        for one in reversed(self._found):
            if one.first <= number < one.end:
                one.lost -= 1
                if not one.lost:
                    self._found.remove(one)
                return


class Pauses:
    """The longest times in which a sender sent nothing: what it would have sent then shows nothing of the network.

    Args:
        interval_ns: between two messages; None: it varies, and no time is a pause.
        most: that are kept.
    """

    __slots__ = ("_found", "_last_ns", "_least_ns", "_most")

    def __init__(self, interval_ns: int | None, most: int = MOST_GAPS) -> None:
        self._found: list[tuple[int, int]] = []  # a heap of lengths and ends
        self._least_ns = 1 << 62 if interval_ns is None else interval_ns + interval_ns // 2
        self._most, self._last_ns = most, 0

    def sent(self, at_ns: int) -> None:
        """It sent something."""
        lasted_ns, self._last_ns = at_ns - self._last_ns, at_ns
        if lasted_ns <= self._least_ns or lasted_ns == at_ns:
            return
        if len(self._found) < self._most:
            heapq.heappush(self._found, (lasted_ns, at_ns))
        else:
            heapq.heappushpop(self._found, (lasted_ns, at_ns))

    def found(self) -> Sequence[FlowGap]:
        """The pauses, in the order of time."""
        spans = sorted((end_ns - lasted_ns, end_ns) for lasted_ns, end_ns in self._found)
        return [FlowGap(start_ns, end_ns, 0) for start_ns, end_ns in spans]
