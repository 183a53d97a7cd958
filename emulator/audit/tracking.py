"""A reliable connection as a bystander sees it: PSNs of the requests, acknowledgements, retransmissions.

PSNs are unwrapped: each is the count of packets since long before the capture began, so that they compare as integers.

Where the capture was made decides what it proves. One that shows gaps stands behind the loss: there a packet of a
retransmission may be missing because it was lost, so that leaving go-back-N is counted and not held against the sender.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from emulator.audit.messages import Sent
from emulator.audit.rules import Rule, Violation
from emulator.audit.sighting import Flow, Sighting
from emulator.roce.constants import PATH_MTUS
from emulator.roce.headers import Syndrome
from emulator.roce.opcodes import Operation, Service
from emulator.roce.psn import PSN_SPACE, Psn, distance, wrap

_REMEMBERED = 16  # acknowledgements that may have been on their way, or lost, when the sender went back


@dataclass(slots=True)
class Course:
    """What became of a flow's requests.

    `gaps` are jumps forward, `missing` the unacknowledged PSNs left out in them: lost upstream, or never
    sent; `refilled` of them came later. `is_behind_loss`: there is a gap over PSNs not seen before, or one from
    before the capture's first PSN is asked for or sent again.
    `retransmitted` packets have a PSN that is not newer than all before; `duplicates` of them were seen before.
    `restarts` are jumps back. `stray_restarts` and `stray_skips` are what go-back-N does not explain.
    """

    packets: int = 0
    gaps: int = 0
    is_behind_loss: bool = False
    missing: int = 0
    is_answered: bool = False
    refilled: int = 0
    duplicates: int = 0
    retransmitted: int = 0
    restarts: int = 0
    restarts_after_nak: int = 0
    stray_restarts: int = 0
    stray_skips: int = 0
    new_bytes: int = 0
    sent: dict[int, Sent] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    @property
    def go_back_n(self) -> str:
        """Whether retransmissions follow go-back-N: `none` (there are none), `followed`, `broken` or `unclear`."""
        if not self.restarts and not self.stray_skips:
            return "none"
        if not self.is_answered:
            return "unclear"
        if self.is_behind_loss:
            return "unclear" if self.stray_restarts else "followed"
        return "broken" if self.stray_restarts or self.stray_skips else "followed"


class Tracker:
    """Follows one flow's requests, and the responses to them, in the order of the capture."""

    def __init__(self, flow: Flow, responses: Flow | None, *, mtu: int | None) -> None:
        self._flow, self._mtu = flow, mtu
        self._is_reliable = any(one.meaning.service is Service.RC for one in flow.requests)
        self._responses = responses.responses if responses is not None else []
        self._course = Course()
        self._first = self._next = self._highest = 0
        self._has_begun = False
        self._unacknowledged: int | None = None  # the oldest one; None: no response has said
        self._earlier: deque[int] = deque(maxlen=_REMEMBERED)
        self._hole = 0  # every PSN from the first seen to here was seen, or spoken about
        self._jumps: dict[int, int] = {}  # where a gap begins → the frame behind it
        self._nak: int | None = None
        self._departures: list[Violation] = []

    def follow(self) -> Course:
        """Go through the whole capture."""
        followed = list(self._in_order())
        self._course.is_answered = bool(self._responses)
        spans = _psns_taken(self._flow.requests, self._mtu)
        for sighting in followed:
            if sighting.meaning.operation.is_response:
                self._take_response(sighting)
            else:
                self._take_request(sighting, spans.get(sighting.frame, 1))
        if not self._course.is_behind_loss:
            self._course.violations += self._departures
        return self._course

    def _in_order(self) -> Iterator[Sighting]:
        yield from sorted([*self._flow.requests, *self._responses], key=lambda one: one.frame)

    def _unwrap(self, psn: Psn) -> int:
        return self._highest + distance(wrap(self._highest), psn)

    def _newest(self) -> int:
        """The newest PSN sent, counting packets that could not be read."""
        newest = self._highest
        while self._is_unread(newest + 1):
            newest += 1
        return newest

    def _is_unread(self, psn: int) -> bool:
        return wrap(psn) in self._flow.unread

    def _breach(self, frame: int, rule: Rule, problem: str) -> None:
        self._course.violations.append(Violation(frame, rule, self._flow.key.label, problem))

    # requests

    def _take_request(self, sighting: Sighting, psns: int) -> None:
        if not self._has_begun:
            self._begin(sighting.psn)
        psn, course = self._unwrap(sighting.psn), self._course
        course.packets += 1
        if psn > self._highest:
            self._check_new(sighting, psn)
        else:
            self._check_repeat(sighting, psn)
        if psn not in course.sent:
            course.sent[psn] = Sent(sighting, psns)
            course.new_bytes += sighting.payload_bytes
        self._next = psn + psns
        self._highest = max(self._highest, self._next - 1)

    def _begin(self, psn: Psn) -> None:
        self._first = self._next = self._hole = psn + PSN_SPACE
        self._highest = self._first - 1
        self._earlier.append(self._first)
        self._has_begun = True

    def _check_new(self, sighting: Sighting, psn: int) -> None:
        lost = psn - self._highest - 1
        if lost and self._flow.unread:
            lost -= sum(self._is_unread(one) for one in range(self._highest + 1, psn))
        if lost:
            self._course.gaps += 1
            self._course.is_behind_loss = True
            self._course.missing += lost
            self._jumps[self._highest + 1] = sighting.frame
        if self._next <= self._highest:
            self._check_skip(sighting, psn)

    def _check_repeat(self, sighting: Sighting, psn: int) -> None:
        course = self._course
        course.retransmitted += 1
        course.is_behind_loss |= psn < self._first
        before = course.sent.get(psn)
        if before is None:
            course.refilled += psn >= self._first and sighting.meaning.operation is not Operation.READ_REQUEST
        else:
            course.duplicates += 1
            self._check_same(sighting, before.sighting)
        if psn < self._next and self._is_reliable:
            self._check_restart(sighting, psn)
        elif psn > self._next:
            self._check_skip(sighting, psn)

    def _check_same(self, sighting: Sighting, before: Sighting) -> None:
        if sighting.signature != before.signature and sighting.meaning.operation is not Operation.READ_REQUEST:
            problem = f"PSN {sighting.psn:#x} had another opcode or length in frame {before.frame}"
            self._breach(sighting.frame, Rule.RETRANSMISSION, problem)

    def _check_restart(self, sighting: Sighting, psn: int) -> None:
        self._course.restarts += 1
        if psn == self._nak:
            self._course.restarts_after_nak += 1
            self._nak = None
        elif self._unacknowledged is not None and psn >= self._first and psn not in self._earlier:
            self._course.stray_restarts += 1
            expected = wrap(self._unacknowledged)
            self._depart(sighting, f"it starts at PSN {sighting.psn:#x}, the oldest unacknowledged is {expected:#x}")

    def _check_skip(self, sighting: Sighting, psn: int) -> None:
        """A jump forward inside a retransmission: right where all that it leaves out was acknowledged."""
        known = self._unacknowledged
        left_out = max(known or 0, self._next)
        until = min(psn, self._highest + 1)
        if left_out >= until:
            return
        self._course.gaps += psn <= self._highest
        self._course.missing += until - left_out
        if known is not None and self._is_reliable:
            self._course.stray_skips += 1
            self._depart(sighting, f"it goes on at PSN {sighting.psn:#x}, leaving out {wrap(left_out):#x}")

    def _depart(self, sighting: Sighting, problem: str) -> None:
        self._departures.append(Violation(sighting.frame, Rule.GO_BACK_N, self._flow.key.label, problem))

    # responses

    def _take_response(self, sighting: Sighting) -> None:
        if not self._has_begun:
            return
        psn = self._unwrap(sighting.psn)
        is_ack = sighting.syndrome is None or sighting.syndrome >> 5 == 0
        through = psn if is_ack else psn - 1
        if psn < self._first:
            self._course.is_behind_loss |= not is_ack
            return
        if psn > self._newest():
            rule = Rule.NAK_EXPECTED if sighting.syndrome == Syndrome.SEQUENCE_ERROR else Rule.ACK_UNSENT
            newest = wrap(self._highest)
            self._breach(sighting.frame, rule, f"PSN {sighting.psn:#x} was not sent yet, the newest is {newest:#x}")
            return
        if sighting.syndrome == Syndrome.SEQUENCE_ERROR:
            self._check_nak(sighting, psn)
        if not is_ack:
            self._nak = psn
        self._check_holes(sighting, through)
        self._acknowledge(through + 1)

    def _check_nak(self, sighting: Sighting, psn: int) -> None:
        known = self._unacknowledged
        if known is not None and psn < known:
            problem = f"PSN {sighting.psn:#x} was acknowledged before, {wrap(known):#x} is the oldest that was not"
            self._breach(sighting.frame, Rule.NAK_EXPECTED, problem)
        elif psn == self._highest:
            problem = f"PSN {sighting.psn:#x} is the newest: nothing after it can have arrived"
            self._breach(sighting.frame, Rule.NAK_EXPECTED, problem)

    def _check_holes(self, sighting: Sighting, through: int) -> None:
        """Nobody can have received what was never sent."""
        while self._hole <= through:
            sent = self._course.sent.get(self._hole)
            if sent is not None:
                self._hole += sent.psns
            elif self._is_unread(self._hole):
                self._hole += 1
            else:
                self._report_hole(sighting)
                self._hole = through + 1

    def _report_hole(self, sighting: Sighting) -> None:
        missing = f"PSN {wrap(self._hole):#x}"
        if sighting.syndrome == Syndrome.SEQUENCE_ERROR:
            problem = f"it names PSN {sighting.psn:#x}, the first that did not arrive is {missing}"
            self._breach(sighting.frame, Rule.NAK_EXPECTED, problem)
        else:
            frame = self._jumps.get(self._hole, sighting.frame)
            problem = f"{missing} is not in the capture, yet frame {sighting.frame} acknowledges it"
            self._breach(frame, Rule.PSN_CONTINUITY, problem)

    def _acknowledge(self, oldest: int) -> None:
        if self._unacknowledged is None or oldest >= self._unacknowledged:
            self._unacknowledged = oldest
        if oldest not in self._earlier:
            self._earlier.append(oldest)


def _psns_taken(requests: list[Sighting], mtu: int | None) -> dict[int, int]:
    """By frame, how many PSNs each READ request takes: one for every packet of its response."""
    taken: dict[int, int] = {}
    for at, sighting in enumerate(requests):
        if sighting.meaning.operation is Operation.READ_REQUEST:
            following = requests[at + 1].psn if at + 1 < len(requests) else None
            taken[sighting.frame] = _read_psns(sighting, mtu, following)
    return taken


def _read_psns(sighting: Sighting, mtu: int | None, following: Psn | None) -> int:
    length = sighting.reth_bytes or 0
    counts = [max(1, -(-length // size)) for size in ((mtu,) if mtu else PATH_MTUS[::-1])]
    if following is not None:
        step = distance(sighting.psn, following)
        if step in counts:
            return step
    return counts[0]
