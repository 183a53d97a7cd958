"""How a rank spent its time: device busy, communication under way, both."""

from __future__ import annotations


class Usage:
    """Integrates activity over time, in ns. Device = compute nodes that are not CPU operations, one at a time.

    Told in the order of time all three are exact. What is told late (a node that was delivered after it could have
    begun) counts as compute in full, and as overlap only from when it was told.
    """

    __slots__ = (
        "_at",
        "_communications",
        "_is_device_busy",
        "_spans",
        "communication_ns",
        "compute_ns",
        "overlap_ns",
    )

    def __init__(self, start_ns: int) -> None:
        self._at = start_ns
        self._communications = 0
        self._is_device_busy = False
        self.compute_ns = 0
        self.communication_ns = 0
        self.overlap_ns = 0
        self._spans: list[tuple[int, int]] = []

    def communication(self, change: int, now: int) -> None:
        """`change` more (or fewer) communications are under way from `now` on."""
        self._integrate(now)
        self._communications += change

    def device_begins(self, now: int) -> None:
        """A node begins on the device."""
        self._integrate(now)
        self._is_device_busy = True

    def device_ends(self, now: int, duration_ns: int) -> None:
        """The node on the device ends after `duration_ns`."""
        self._integrate(now)
        self._is_device_busy = False
        self.compute_ns += duration_ns
        self._add_span(now - duration_ns, now)

    @property
    def spans(self) -> int:
        """How many spans `take_spans` would give."""
        return len(self._spans)

    def take_spans(self) -> list[tuple[int, int]]:
        """(start, end) of the spans in which the device was busy that were not taken yet, nodes back to back as one."""
        taken, self._spans = self._spans, []
        return taken

    def resume_span(self, span: tuple[int, int]) -> None:
        """Put the last span back: what follows may extend it."""
        self._spans.insert(0, span)

    def _add_span(self, start: int, end: int) -> None:
        spans = self._spans
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif end > start:
            spans.append((start, end))

    def _integrate(self, now: int) -> None:
        span = now - self._at
        if span <= 0:
            return
        self._at = now
        if self._communications:
            self.communication_ns += span
            if self._is_device_busy:
                self.overlap_ns += span
