"""What the responses in a capture acknowledge: the oldest request that is still open.

An acknowledgement, or any response to a later request, closes SENDs and WRITEs. It does not close a READ or an atomic
operation: these need their own responses. If a response to a later request comes first, the responses of the READ were
lost (an implied NAK), and the requester asks again from the first PSN that is missing.

Source: InfiniBand Architecture Specification, volume 1, section 9.7.5 (transaction ordering, acknowledge coalescing).
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field


@dataclass(slots=True)
class Acknowledged:
    """The state of the requests of a flow; all PSNs are unwrapped.

    Attributes:
        accepted: the responder accepted every request before this PSN; None before the first response.
    """

    accepted: int | None = None
    _awaited: list[tuple[int, int]] = field(default_factory=list)  # PSNs [from, to) of responses, oldest first
    _answered: set[int] = field(default_factory=set)  # of those

    @property
    def oldest(self) -> int | None:
        """The oldest PSN that is not acknowledged; None before the first response."""
        if self.accepted is None or not self._awaited:
            return self.accepted
        return min(self.accepted, self._awaited[0][0])

    def expect_responses(self, start: int, end: int) -> None:
        """Take a READ or an atomic operation, which only responses with the PSNs from `start` to before `end` close."""
        insort(self._awaited, (start, end))

    def accept_before(self, psn: int) -> None:
        """Take an acknowledgement of everything before a PSN."""
        self.accepted = psn if self.accepted is None else max(psn, self.accepted)

    def answer(self, psn: int) -> None:
        """Take the response of a READ or an atomic operation."""
        self.accept_before(psn + 1)
        if self._awaited and psn >= self._awaited[0][0]:
            self._answered.add(psn)
        while self._awaited and self._awaited[0][0] in self._answered:
            start, end = self._awaited.pop(0)
            self._answered.discard(start)
            if start + 1 < end:
                insort(self._awaited, (start + 1, end))
