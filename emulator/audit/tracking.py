"""Follows the requests of a flow in a capture: gaps, retransmissions, and the acknowledgements of them.

PSNs are unwrapped to plain integers, so that they compare without wrap-around.

What a capture proves depends on where it was made. A capture with gaps was made behind a loss: a packet of a
retransmission can be missing because it was lost, so deviations from go-back-N are counted, but are not violations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from emulator.audit.flow import CapturedPacket, Flow
from emulator.audit.messages import Sent
from emulator.audit.rules import Rule, Violation
from emulator.roce.constants import PATH_MTUS
from emulator.roce.headers import Syndrome
from emulator.roce.opcodes import Operation, Service
from emulator.roce.psn import PSN_SPACE, Psn, distance, wrap

_REMEMBERED = 16  # acknowledgements that can still have been under way, or lost, when the sender went back


@dataclass(slots=True)
class RequestStats:
    """What happened to the requests of a flow.

    Attributes:
        packets: captured requests, retransmissions included.
        gaps: jumps forward in the PSN.
        is_behind_loss: there is a gap over new PSNs, or a PSN from before the capture is requested or sent again.
        missing: unacknowledged PSNs skipped by gaps: lost before the capture point, or never sent.
        is_answered: the capture has responses.
        refilled: missing PSNs that came later.
        duplicates: packets whose PSN is in the capture already.
        retransmitted: packets whose PSN is not newer than all before.
        restarts: jumps back in the PSN; `restarts_after_nak` of them go to the PSN of a NAK.
        stray_restarts, stray_skips: jumps back and forward that go-back-N does not explain.
        new_bytes: payload, each PSN counted once.
        sent: first transmissions by unwrapped PSN.
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
        """Whether retransmissions follow go-back-N: `none` (no retransmissions), `followed`, `broken` or `unclear`."""
        if not self.restarts and not self.stray_skips:
            return "none"
        if not self.is_answered:
            return "unclear"
        if self.is_behind_loss:
            return "unclear" if self.stray_restarts else "followed"
        return "broken" if self.stray_restarts or self.stray_skips else "followed"


class Tracker:
    """Follows the requests of one flow, and the responses to them, in the order of the capture.

    Args:
        flow: the requests.
        responses: the flow of the responses; None if the capture has none.
        mtu: the path MTU; None if unknown.
    """

    def __init__(self, flow: Flow, responses: Flow | None, *, mtu: int | None) -> None:
        self._flow, self._mtu = flow, mtu
        self._is_reliable = any(one.meaning.service is Service.RC for one in flow.requests)
        self._responses = responses.responses if responses is not None else []
        self._stats = RequestStats()
        self._first = self._next = self._highest = 0
        self._has_begun = False
        self._unacknowledged: int | None = None  # the oldest one; None before the first response
        self._earlier: deque[int] = deque(maxlen=_REMEMBERED)
        self._hole = 0  # every PSN before it was seen, or its absence reported
        self._jumps: dict[int, int] = {}  # first PSN of a gap → the frame after it
        self._nak: int | None = None
        self._go_back_n_violations: list[Violation] = []

    def follow(self) -> RequestStats:
        """Evaluate the whole capture."""
        followed = list(self._in_order())
        self._stats.is_answered = bool(self._responses)
        spans = _psns_taken(self._flow.requests, self._mtu)
        for packet in followed:
            if packet.meaning.operation.is_response:
                self._take_response(packet)
            else:
                self._take_request(packet, spans.get(packet.frame, 1))
        if not self._stats.is_behind_loss:
            self._stats.violations += self._go_back_n_violations
        return self._stats

    def _in_order(self) -> Iterator[CapturedPacket]:
        yield from sorted([*self._flow.requests, *self._responses], key=lambda one: one.frame)

    def _unwrap(self, psn: Psn) -> int:
        return self._highest + distance(wrap(self._highest), psn)

    def _newest(self) -> int:
        """The newest PSN sent, unreadable packets included."""
        newest = self._highest
        while self._is_unreadable(newest + 1):
            newest += 1
        return newest

    def _is_unreadable(self, psn: int) -> bool:
        return wrap(psn) in self._flow.unreadable

    def _add_violation(self, frame: int, rule: Rule, problem: str) -> None:
        self._stats.violations.append(Violation(frame, rule, self._flow.key.label, problem))

    # requests

    def _take_request(self, packet: CapturedPacket, psns: int) -> None:
        if not self._has_begun:
            self._begin(packet.psn)
        psn, stats = self._unwrap(packet.psn), self._stats
        stats.packets += 1
        if psn > self._highest:
            self._check_new(packet, psn)
        else:
            self._check_repeat(packet, psn)
        if psn not in stats.sent:
            stats.sent[psn] = Sent(packet, psns)
            stats.new_bytes += packet.payload_bytes
        self._next = psn + psns
        self._highest = max(self._highest, self._next - 1)

    def _begin(self, psn: Psn) -> None:
        self._first = self._next = self._hole = psn + PSN_SPACE
        self._highest = self._first - 1
        self._earlier.append(self._first)
        self._has_begun = True

    def _check_new(self, packet: CapturedPacket, psn: int) -> None:
        lost = psn - self._highest - 1
        if lost and self._flow.unreadable:
            lost -= sum(self._is_unreadable(one) for one in range(self._highest + 1, psn))
        if lost:
            self._stats.gaps += 1
            self._stats.is_behind_loss = True
            self._stats.missing += lost
            self._jumps[self._highest + 1] = packet.frame
        if self._next <= self._highest:
            self._check_skip(packet, psn)

    def _check_repeat(self, packet: CapturedPacket, psn: int) -> None:
        stats = self._stats
        stats.retransmitted += 1
        stats.is_behind_loss |= psn < self._first
        before = stats.sent.get(psn)
        if before is None:
            stats.refilled += psn >= self._first and packet.meaning.operation is not Operation.READ_REQUEST
        else:
            stats.duplicates += 1
            self._check_same(packet, before.packet)
        if psn < self._next and self._is_reliable:
            self._check_restart(packet, psn)
        elif psn > self._next:
            self._check_skip(packet, psn)

    def _check_same(self, packet: CapturedPacket, before: CapturedPacket) -> None:
        if packet.signature != before.signature and packet.meaning.operation is not Operation.READ_REQUEST:
            problem = f"PSN {packet.psn:#x} had another opcode or length in frame {before.frame}"
            self._add_violation(packet.frame, Rule.RETRANSMISSION, problem)

    def _check_restart(self, packet: CapturedPacket, psn: int) -> None:
        self._stats.restarts += 1
        if psn == self._nak:
            self._stats.restarts_after_nak += 1
            self._nak = None
        elif self._unacknowledged is not None and psn >= self._first and psn not in self._earlier:
            self._stats.stray_restarts += 1
            expected = wrap(self._unacknowledged)
            self._break_go_back_n(
                packet, f"it starts at PSN {packet.psn:#x}, the oldest unacknowledged is {expected:#x}"
            )

    def _check_skip(self, packet: CapturedPacket, psn: int) -> None:
        """Check a jump forward within a retransmission: it is right if every skipped PSN was acknowledged."""
        known = self._unacknowledged
        skipped = max(known or 0, self._next)
        until = min(psn, self._highest + 1)
        if skipped >= until:
            return
        self._stats.gaps += psn <= self._highest
        self._stats.missing += until - skipped
        if known is not None and self._is_reliable:
            self._stats.stray_skips += 1
            self._break_go_back_n(packet, f"it continues at PSN {packet.psn:#x} and skips {wrap(skipped):#x}")

    def _break_go_back_n(self, packet: CapturedPacket, problem: str) -> None:
        self._go_back_n_violations.append(Violation(packet.frame, Rule.GO_BACK_N, self._flow.key.label, problem))

    # responses

    def _take_response(self, packet: CapturedPacket) -> None:
        if not self._has_begun:
            return
        psn = self._unwrap(packet.psn)
        is_ack = packet.syndrome is None or packet.syndrome >> 5 == 0
        through = psn if is_ack else psn - 1
        if psn < self._first:
            self._stats.is_behind_loss |= not is_ack
            return
        if psn > self._newest():
            rule = Rule.NAK_EXPECTED if packet.syndrome == Syndrome.SEQUENCE_ERROR else Rule.ACK_UNSENT
            newest = wrap(self._highest)
            self._add_violation(packet.frame, rule, f"PSN {packet.psn:#x} was not sent yet, the newest is {newest:#x}")
            return
        if packet.syndrome == Syndrome.SEQUENCE_ERROR:
            self._check_nak(packet, psn)
        if not is_ack:
            self._nak = psn
        self._check_holes(packet, through)
        self._acknowledge(through + 1)

    def _check_nak(self, packet: CapturedPacket, psn: int) -> None:
        known = self._unacknowledged
        if known is not None and psn < known:
            problem = f"PSN {packet.psn:#x} was acknowledged before; the oldest unacknowledged is {wrap(known):#x}"
            self._add_violation(packet.frame, Rule.NAK_EXPECTED, problem)
        elif psn == self._highest:
            problem = f"PSN {packet.psn:#x} is the newest: no later packet can have arrived"
            self._add_violation(packet.frame, Rule.NAK_EXPECTED, problem)

    def _check_holes(self, packet: CapturedPacket, through: int) -> None:
        """Check that the responses acknowledge only PSNs that were sent."""
        while self._hole <= through:
            sent = self._stats.sent.get(self._hole)
            if sent is not None:
                self._hole += sent.psns
            elif self._is_unreadable(self._hole):
                self._hole += 1
            else:
                self._report_hole(packet)
                self._hole = through + 1

    def _report_hole(self, packet: CapturedPacket) -> None:
        missing = f"PSN {wrap(self._hole):#x}"
        if packet.syndrome == Syndrome.SEQUENCE_ERROR:
            problem = f"it names PSN {packet.psn:#x}, but the first that did not arrive is {missing}"
            self._add_violation(packet.frame, Rule.NAK_EXPECTED, problem)
        else:
            frame = self._jumps.get(self._hole, packet.frame)
            problem = f"{missing} is not in the capture, but frame {packet.frame} acknowledges it"
            self._add_violation(frame, Rule.PSN_CONTINUITY, problem)

    def _acknowledge(self, oldest: int) -> None:
        if self._unacknowledged is None or oldest >= self._unacknowledged:
            self._unacknowledged = oldest
        if oldest not in self._earlier:
            self._earlier.append(oldest)


def _psns_taken(requests: list[CapturedPacket], mtu: int | None) -> dict[int, int]:
    """Number of PSNs that each READ request takes, one per packet of its response; by frame."""
    taken: dict[int, int] = {}
    for at, packet in enumerate(requests):
        if packet.meaning.operation is Operation.READ_REQUEST:
            following = requests[at + 1].psn if at + 1 < len(requests) else None
            taken[packet.frame] = _read_psns(packet, mtu, following)
    return taken


def _read_psns(packet: CapturedPacket, mtu: int | None, following: Psn | None) -> int:
    length = packet.reth_bytes or 0
    counts = [max(1, -(-length // size)) for size in ((mtu,) if mtu else PATH_MTUS[::-1])]
    if following is not None:
        step = distance(packet.psn, following)
        if step in counts:
            return step
    return counts[0]
