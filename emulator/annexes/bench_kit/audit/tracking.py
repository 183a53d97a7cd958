"""Follows the requests of a flow in a capture: gaps, retransmissions, and the acknowledgements of them.

PSNs are unwrapped to plain integers, so that they compare without wrap-around.

What a capture proves depends on where it was made. If it was made behind a loss, a packet of a retransmission can be
missing because it was lost. So deviations from go-back-N are always counted, but they are violations only in a capture
made before the loss. Such a capture has packets that the responder reports as missing, and no gaps of its own.

Reordered packets are counted, and then followed in the order in which they were sent: they are neither missing nor
retransmissions.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from emulator.annexes.bench_kit.audit.flow import CapturedFlow, CapturedPacket, FrameRule, Violation
from emulator.annexes.bench_kit.audit.messages import (
    Read,
    Reads,
    SentPacket,
    psns_taken,
    repeat_problem,
    response_problem,
)
from emulator.annexes.bench_kit.audit.order import Reordered, reordered_read_responses, reordered_requests
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.opcodes import PacketOperation, TransportService
from emulator.roce.wire.psn import PSN_SPACE, Psn, distance, wrap

_REMEMBERED = 16  # acknowledgements that can still have been under way, or lost, when the sender went back
_RNR = Syndrome.RNR >> 5
_ANSWERED = (PacketOperation.READ_REQUEST, PacketOperation.ATOMIC)
_OUTSTANDING = 256  # READs and atomic operations whose responses can have been lost: their limit has 8 bits


@dataclass(slots=True)
class Acknowledged:
    """What the responses in a capture acknowledge: the oldest request that is still open; all PSNs are unwrapped.

    An acknowledgement, or any response to a later request, closes SENDs and WRITEs. It does not close a READ or an
    atomic operation: these need their own responses. If a response to a later request comes first, the responses of the
    READ were lost (an implied NAK), and the requester asks again from the first PSN that is missing.

    Source: InfiniBand Architecture Specification, volume 1, section 9.7.5 (transaction ordering, acknowledge
    coalescing).

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


@dataclass(slots=True)
class RequestStats:
    """What happened to the requests of a flow.

    Attributes:
        packets: captured requests, retransmissions included.
        gaps: jumps forward in the PSN.
        is_behind_loss: there is a gap over new PSNs, or a PSN from before the capture is requested or sent again.
        is_before_loss: a sequence-error NAK names a SEND or WRITE that the capture has.
        missing: unacknowledged PSNs skipped by gaps: lost before the capture point, or never sent.
        is_refused: an RNR NAK refuses packets that arrived: those after it, too.
        is_answered: the capture has responses.
        has_unread: packets can be in frames that could not be read.
        refilled: missing PSNs that came later.
        duplicates: packets whose PSN is in the capture already.
        retransmitted: packets whose PSN is not newer than all before, without reordered ones.
        reordered: requests and READ responses that arrive after newer ones, although the sender did not go back.
        reordering_extent: how many packets late the latest of them is.
        restarts: jumps back in the PSN; `restarts_after_nak` of them go to the PSN of a NAK.
        stray_restarts, stray_skips: jumps back and forward that go-back-N does not explain.
        new_bytes: payload, each PSN counted once.
        sent: first transmissions by unwrapped PSN.
    """

    packets: int = 0
    gaps: int = 0
    is_behind_loss: bool = False
    is_before_loss: bool = False
    is_refused: bool = False
    missing: int = 0
    is_answered: bool = False
    has_unread: bool = False
    refilled: int = 0
    duplicates: int = 0
    retransmitted: int = 0
    reordered: int = 0
    reordering_extent: int = 0
    restarts: int = 0
    restarts_after_nak: int = 0
    stray_restarts: int = 0
    stray_skips: int = 0
    new_bytes: int = 0
    sent: dict[int, SentPacket] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    @property
    def proves_go_back_n(self) -> bool:
        """Whether the capture has every packet that the requester sent, so that what is missing was not sent."""
        return self.is_before_loss and not self.is_behind_loss and not self.is_refused and not self.reordered

    @property
    def go_back_n(self) -> str:
        """Whether retransmissions follow go-back-N: `none` (no retransmissions), `followed`, `broken` or `unclear`."""
        if not self.restarts and not self.stray_skips:
            return "none"
        if not self.is_answered or self.has_unread:
            return "unclear"
        if not self.proves_go_back_n:
            return "unclear" if self.stray_restarts else "followed"
        return "broken" if self.stray_restarts or self.stray_skips else "followed"


class Tracker:
    """Follows the requests of one flow, and the responses to them, in the order of the capture.

    Args:
        flow: the requests.
        responses: the flow of the responses; None if the capture has none.
        mtu: the path MTU; None if unknown.
        is_ordered: the sender goes back to what is lost, as reliable connections do; otherwise no order is expected.
    """

    def __init__(
        self, flow: CapturedFlow, responses: CapturedFlow | None, *, mtu: int | None, is_ordered: bool = True
    ) -> None:
        self._flow, self._mtu, self._is_ordered = flow, mtu, is_ordered
        self._answering = responses
        self._is_reliable = any(one.meaning.service is TransportService.RC for one in flow.requests)
        self._responses = responses.responses if responses is not None else []
        self._stats = RequestStats()
        self._first = self._next = self._newest = self._highest = 0  # _newest: where the newest request starts
        self._has_begun = False
        self._acknowledged = Acknowledged()
        self._reads = Reads()
        self._outstanding: deque[tuple[int, int]] = deque(maxlen=_OUTSTANDING)  # PSNs of READs and atomics
        self._earlier: deque[int] = deque(maxlen=_REMEMBERED)
        self._hole = 0  # every PSN before it was seen, or its absence reported
        self._jumps: dict[int, int] = {}  # first PSN of a gap → the frame after it
        self._nak: int | None = None
        self._go_back_n_violations: list[Violation] = []

    def follow(self, *, has_unread: bool = False) -> RequestStats:
        """Evaluate the whole capture; `has_unread`: packets can be in frames that could not be read."""
        self._stats.is_answered, self._stats.has_unread = bool(self._responses), has_unread
        spans = psns_taken(self._flow.requests, self._mtu)
        for packet in self._in_order(self._find_reordered(spans)):
            if packet.meaning.operation.is_response:
                self._take_response(packet)
            else:
                self._take_request(packet, spans.get(packet.frame, 1))
        if self._stats.proves_go_back_n:
            self._stats.violations += self._go_back_n_violations
        return self._stats

    def _find_reordered(self, spans: dict[int, int]) -> list[Reordered]:
        """Count reordered packets; returns the requests among them."""
        if not self._is_ordered:
            return []
        requests = reordered_requests(self._flow.requests, self._responses, spans)
        answers = reordered_read_responses(self._flow.requests, self._responses)
        self._stats.reordered = len(requests) + len(answers)
        self._stats.reordering_extent = max((one.extent for one in (*requests, *answers)), default=0)
        if self._responses or not self._is_reliable:  # a NAK that the capture lacks could have asked for it
            self._check_order(requests, self._flow)
        if self._answering is not None:
            self._check_order(answers, self._answering)
        return requests

    def _check_order(self, reordered: list[Reordered], flow: CapturedFlow) -> None:
        for one in reordered:
            if one.breaks_order_of_path:
                late = "1 packet" if one.extent == 1 else f"{one.extent} packets"
                problem = (
                    f"PSN {one.packet.psn:#x} arrives {late} late, after PSN {one.before.psn:#x} in frame "
                    f"{one.before.frame}"
                )
                self._stats.violations.append(
                    Violation(one.packet.frame, FrameRule.PACKET_ORDER, flow.key.label, problem)
                )

    def _in_order(self, reordered: list[Reordered]) -> Iterator[CapturedPacket]:
        """Requests and responses as they were sent: reordered ones where the first newer packet arrived."""
        packets = sorted([*self._flow.requests, *self._responses], key=lambda one: one.frame)
        if not reordered:
            yield from packets
            return
        places = {id(packet): place for place, packet in enumerate(packets)}
        sent = {id(one.packet): (places[id(one.before)], distance(one.before.psn, one.packet.psn)) for one in reordered}
        yield from sorted(packets, key=lambda one: sent.get(id(one), (places[id(one)], 0)))

    def _unwrap(self, psn: Psn) -> int:
        return self._highest + distance(wrap(self._highest), psn)

    def _last_sent(self) -> int:
        """The newest PSN sent, unreadable packets included."""
        newest = self._highest
        while self._is_unreadable(newest + 1):
            newest += 1
        return newest

    def _is_unreadable(self, psn: int) -> bool:
        return wrap(psn) in self._flow.unreadable

    def _add_violation(self, frame: int, rule: FrameRule, problem: str) -> None:
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
            self._check_repeat(packet, psn, psns)
        if psn not in stats.sent and self._reads.covering(psn) is None:
            self._take_first(packet, psn, psns)
        self._next = psn + psns
        self._newest = max(self._newest, psn)
        self._highest = max(self._highest, self._next - 1)

    def _take_first(self, packet: CapturedPacket, psn: int, psns: int) -> None:
        self._stats.sent[psn] = SentPacket(packet, psns)
        self._stats.new_bytes += packet.payload_bytes
        operation = packet.meaning.operation
        if operation is PacketOperation.READ_REQUEST:
            self._reads.add(Read(psn, psn + psns, packet))
        if operation in _ANSWERED:
            self._acknowledged.expect_responses(psn, psn + psns)
            self._outstanding.append((psn, psn + psns))

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

    def _check_repeat(self, packet: CapturedPacket, psn: int, psns: int) -> None:
        stats = self._stats
        stats.retransmitted += 1
        stats.is_behind_loss |= psn < self._first
        read, before = self._reads.covering(psn), stats.sent.get(psn)
        if read is not None:
            stats.duplicates += 1
            if problem := repeat_problem(packet, psn, psns, read=read, mtu=self._mtu):
                self._add_violation(packet.frame, FrameRule.RETRANSMISSION, problem)
        elif before is not None:
            stats.duplicates += 1
            self._check_same(packet, before.packet)
        elif psn >= self._first:
            stats.refilled += psns
        if psn < self._next and self._is_reliable:
            self._check_restart(packet, psn)
        elif psn > self._next:
            self._check_skip(packet, psn)

    def _check_same(self, packet: CapturedPacket, before: CapturedPacket) -> None:
        if packet.signature != before.signature:
            problem = f"PSN {packet.psn:#x} had another opcode or length in frame {before.frame}"
            self._add_violation(packet.frame, FrameRule.RETRANSMISSION, problem)

    def _check_restart(self, packet: CapturedPacket, psn: int) -> None:
        self._stats.restarts += 1
        if psn == self._nak:
            self._stats.restarts_after_nak += 1
            self._nak = None
        elif (oldest := self._acknowledged.oldest) is not None and not self._can_restart_at(psn, oldest):
            self._stats.stray_restarts += 1
            self._break_go_back_n(
                packet, f"it starts at PSN {packet.psn:#x}, the oldest unacknowledged is {wrap(oldest):#x}"
            )

    def _can_restart_at(self, psn: int, oldest: int) -> bool:
        """Whether a PSN can be the oldest unacknowledged one for the sender, who can lack responses of the capture."""
        if psn < self._first or psn == oldest or psn in self._earlier:
            return True
        return any(start <= psn < end for start, end in self._outstanding)

    def _check_skip(self, packet: CapturedPacket, psn: int) -> None:
        """Check a jump forward within a retransmission: it is right if every skipped PSN was acknowledged."""
        known = self._acknowledged.oldest
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
        self._go_back_n_violations.append(Violation(packet.frame, FrameRule.GO_BACK_N, self._flow.key.label, problem))

    # responses

    def _take_response(self, packet: CapturedPacket) -> None:
        if not self._has_begun:
            return
        psn = self._unwrap(packet.psn)
        is_ack = packet.syndrome is None or packet.syndrome >> 5 == 0
        if psn < self._first:
            self._stats.is_behind_loss |= not is_ack
        elif psn > self._last_sent():
            rule = FrameRule.NAK_EXPECTED if packet.syndrome == Syndrome.SEQUENCE_ERROR else FrameRule.ACK_UNSENT
            newest = wrap(self._highest)
            self._add_violation(packet.frame, rule, f"PSN {packet.psn:#x} was not sent yet, the newest is {newest:#x}")
        elif is_ack:
            self._take_ack(packet, psn)
        else:
            self._take_nak(packet, psn)

    def _take_ack(self, packet: CapturedPacket, psn: int) -> None:
        self._check_holes(packet, psn)
        if packet.meaning.operation is PacketOperation.ACK:
            self._acknowledged.accept_before(psn + 1)
        else:
            request = self._reads.covering(psn) or self._stats.sent.get(psn)
            if request is not None and (problem := response_problem(packet, psn, request=request, mtu=self._mtu)):
                self._add_violation(packet.frame, FrameRule.RESPONSE, problem)
            self._acknowledged.answer(psn)
        self._remember()

    def _take_nak(self, packet: CapturedPacket, psn: int) -> None:
        if packet.syndrome == Syndrome.SEQUENCE_ERROR:
            self._check_nak(packet, psn)
        self._stats.is_refused |= packet.syndrome is not None and packet.syndrome >> 5 == _RNR
        self._nak = psn
        self._check_holes(packet, psn - 1)
        self._acknowledged.accept_before(psn)
        self._remember()

    def _remember(self) -> None:
        oldest = self._acknowledged.oldest
        if oldest is not None and oldest not in self._earlier and self._reads.covering(oldest) is None:
            self._earlier.append(oldest)

    def _check_nak(self, packet: CapturedPacket, psn: int) -> None:
        accepted = self._acknowledged.accepted
        if accepted is not None and psn < accepted:
            problem = f"PSN {packet.psn:#x} was acknowledged before; the oldest unacknowledged is {wrap(accepted):#x}"
            self._add_violation(packet.frame, FrameRule.NAK_EXPECTED, problem)
        elif psn == self._newest:
            problem = f"PSN {packet.psn:#x} is the newest: no later packet can have arrived"
            self._add_violation(packet.frame, FrameRule.NAK_EXPECTED, problem)
        elif (request := self._stats.sent.get(psn)) is not None:
            # A responder that owes as many responses as it remembers drops READs and atomics that it has received.
            self._stats.is_before_loss |= request.packet.meaning.operation not in _ANSWERED

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
            self._add_violation(packet.frame, FrameRule.NAK_EXPECTED, problem)
        else:
            frame = self._jumps.get(self._hole, packet.frame)
            problem = f"{missing} is not in the capture, but frame {packet.frame} acknowledges it"
            self._add_violation(frame, FrameRule.PSN_CONTINUITY, problem)
