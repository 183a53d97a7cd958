"""Reassembles the messages of a flow in PSN order, and checks the rules about their packets.

Responses and congestion notifications are counted, and checked against the rules that concern them alone. A READ takes
one PSN per packet of its response. The request does not say how many: that depends on the path MTU.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from emulator.annexes.bench_kit.audit.flow import CapturedFlow, CapturedPacket, FrameRule, Violation
from emulator.roce.connection.messages import packets_of
from emulator.roce.constants import PATH_MTUS
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.opcodes import PacketOperation, PacketPlace
from emulator.roce.wire.psn import Psn, add, compare, distance


@dataclass(slots=True)
class SentPacket:
    """A packet and the number of PSNs it takes: 1, or for a READ request one per packet of the response."""

    packet: CapturedPacket
    psns: int = 1


@dataclass(slots=True)
class Messages:
    """The messages of a flow.

    Attributes:
        sizes: complete messages by their length in bytes.
        partial: messages whose beginning is not in the capture.
    """

    sizes: Counter[int] = field(default_factory=Counter)
    partial: int = 0
    violations: list[Violation] = field(default_factory=list)


def path_mtu(packets: Iterable[CapturedPacket]) -> int | None:
    """The path MTU of a flow: the most frequent valid length of its FIRST and MIDDLE packets; None without any."""
    lengths = Counter(
        one.payload_bytes
        for one in packets
        if one.meaning.place in (PacketPlace.FIRST, PacketPlace.MIDDLE) and one.payload_bytes in PATH_MTUS
    )
    return max(lengths, key=lambda length: (lengths[length], length)) if lengths else None


def assemble(sent: Mapping[int, SentPacket], *, mtu: int | None, flow: str) -> Messages:
    """Reassemble the messages of a flow.

    Args:
        sent: packets by unwrapped PSN, first transmissions only.
        mtu: the path MTU; None if unknown.
        flow: its label, for violations.
    """
    assembler = _Assembler(mtu, flow)
    for psn in sorted(sent):
        assembler.take(psn, sent[psn])
    return assembler.messages


class _Assembler:
    def __init__(self, mtu: int | None, flow: str) -> None:
        self._mtu, self._flow = mtu, flow
        self.messages = Messages()
        self._next_psn: int | None = None
        self._last: CapturedPacket | None = None
        self._bytes: int | None = None  # of the message so far; None if its beginning is not in the capture
        self._reth_bytes: int | None = None

    def take(self, psn: int, sent: SentPacket) -> None:
        packet = sent.packet
        previous = self._last if psn == self._next_psn else None
        self._check_length(packet)
        if previous is not None:
            self._check_sequence(previous, packet)
        self._add(previous, packet)
        self._next_psn, self._last = psn + sent.psns, packet

    def _add_violation(self, packet: CapturedPacket, rule: FrameRule, problem: str) -> None:
        self.messages.violations.append(Violation(packet.frame, rule, self._flow, problem))

    def _check_length(self, packet: CapturedPacket) -> None:
        place, length = packet.meaning.place, packet.payload_bytes
        if not packet.meaning.carries_payload:
            return
        most = self._mtu or PATH_MTUS[-1]
        if place in (PacketPlace.FIRST, PacketPlace.MIDDLE) and length != self._mtu:
            expected = f"the path MTU is {self._mtu}" if self._mtu else "which is not a path MTU"
            self._add_violation(packet, FrameRule.PATH_MTU, f"{place.name} has {length} bytes, {expected}")
        elif length > most:
            self._add_violation(packet, FrameRule.PATH_MTU, f"{place.name} has {length} bytes, more than {most}")
        elif place is PacketPlace.LAST and length == 0:
            self._add_violation(packet, FrameRule.PATH_MTU, "LAST has no payload")

    def _check_sequence(self, previous: CapturedPacket, packet: CapturedPacket) -> None:
        before, now = previous.meaning, packet.meaning
        if before.place.ends and not now.place.starts:
            self._add_violation(packet, FrameRule.OPCODE_SEQUENCE, f"{_name(packet)} after {_name(previous)}: no FIRST")
        elif not before.place.ends and now.place.starts:
            self._add_violation(packet, FrameRule.OPCODE_SEQUENCE, f"{_name(packet)} after {_name(previous)}: no LAST")
        elif not now.place.starts and before.operation is not now.operation:
            self._add_violation(packet, FrameRule.OPCODE_SEQUENCE, f"{_name(packet)} after {_name(previous)}")

    def _add(self, previous: CapturedPacket | None, packet: CapturedPacket) -> None:
        place = packet.meaning.place
        if place.starts:
            self._bytes, self._reth_bytes = packet.payload_bytes, packet.reth_bytes
        elif previous is None or previous.meaning.place.ends:
            self._bytes = self._reth_bytes = None
        elif self._bytes is not None:
            self._bytes += packet.payload_bytes
        if place.ends:
            self._close(packet)

    def _close(self, packet: CapturedPacket) -> None:
        if packet.meaning.operation is PacketOperation.READ_REQUEST:
            self.messages.sizes[packet.reth_bytes or 0] += 1
        elif self._bytes is None:
            self.messages.partial += 1
        else:
            self.messages.sizes[self._bytes] += 1
            if self._reth_bytes is not None and self._reth_bytes != self._bytes:
                problem = f"the RETH announced {self._reth_bytes} bytes, the packets carried {self._bytes}"
                self._add_violation(packet, FrameRule.MESSAGE_LENGTH, problem)


def _name(packet: CapturedPacket) -> str:
    meaning = packet.meaning
    return f"{meaning.operation.name.replace('_', ' ')} {meaning.place.name}"


@dataclass(slots=True)
class Answers:
    """The responses in a flow.

    Attributes:
        naks: by reason, see `nak_name`.
        read_bytes: payload of READ responses, each PSN counted once.
        smallest_cnp_gap_ns: shortest time between two CNPs; None with fewer than two.
    """

    acks: int = 0
    naks: Counter[str] = field(default_factory=Counter)
    rnr_naks: int = 0
    atomic_acks: int = 0
    read_responses: int = 0
    read_bytes: int = 0
    cnps: int = 0
    smallest_cnp_gap_ns: int | None = None


def count_answers(flow: CapturedFlow) -> Answers:
    """Count the responses in a flow."""
    answers = Answers(cnps=len(flow.notifications), smallest_cnp_gap_ns=_smallest_gap(flow.notifications))
    read: set[Psn] = set()
    for packet in flow.responses:
        operation = packet.meaning.operation
        answers.read_responses += operation is PacketOperation.READ_RESPONSE
        answers.atomic_acks += operation is PacketOperation.ATOMIC_ACK
        if operation is PacketOperation.ACK:
            _count_ack(answers, packet.syndrome or 0)
        elif packet.psn not in read:
            read.add(packet.psn)
            answers.read_bytes += packet.payload_bytes
    return answers


def _count_ack(answers: Answers, syndrome: int) -> None:
    kind = syndrome >> 5
    if kind == 0:
        answers.acks += 1
    elif kind == 1:
        answers.rnr_naks += 1
    else:
        answers.naks[nak_name(syndrome)] += 1


def nak_name(syndrome: int) -> str:
    """The reason of a NAK: `sequence error`, or the number of a reserved syndrome."""
    try:
        return Syndrome(syndrome).name.lower().replace("_", " ")
    except ValueError:
        return f"{syndrome:#04x}"


def _smallest_gap(notifications: list[CapturedPacket]) -> int | None:
    times = sorted(one.time_ns for one in notifications if one.time_ns is not None)
    return min((after - before for before, after in pairwise(times)), default=None)


def check_answers(flow: CapturedFlow) -> Iterator[Violation]:
    """Violations that responses show without the requests: MSN, READ responses."""
    yield from _check_msn(flow)
    yield from _check_read_responses(flow)


def _check_msn(flow: CapturedFlow) -> Iterator[Violation]:
    acks = [one for one in flow.responses if one.meaning.operation is PacketOperation.ACK]
    for before, after in pairwise(acks):
        if compare(Psn(after.msn), Psn(before.msn)) >= 0:
            continue
        is_older = compare(after.psn, before.psn) < 0  # in every respect: it was sent earlier, and overtaken
        problem = f"MSN {after.msn} after MSN {before.msn} in frame {before.frame}"
        if not is_older:
            yield Violation(after.frame, FrameRule.MSN, flow.key.label, problem)
        elif after.source_port == before.source_port:
            problem = f"the ACK of PSN {after.psn:#x} arrives after that of PSN {before.psn:#x} in frame {before.frame}"
            yield Violation(after.frame, FrameRule.PACKET_ORDER, flow.key.label, problem)


def _check_read_responses(flow: CapturedFlow) -> Iterator[Violation]:
    """A READ repeated from its middle begins with FIRST again; a response that has ended cannot continue."""
    responses = [one for one in flow.responses if one.meaning.operation is PacketOperation.READ_RESPONSE]
    mtu = path_mtu(responses)
    for one in responses:
        if one.meaning.place.value in ("first", "middle") and one.payload_bytes != mtu:
            problem = f"READ RESPONSE {one.meaning.place.name} has {one.payload_bytes} bytes, the path MTU is {mtu}"
            yield Violation(one.frame, FrameRule.PATH_MTU, flow.key.label, problem)
    for before, after in pairwise(responses):
        follows = after.psn == add(before.psn, 1)
        if follows and before.meaning.place.ends and not after.meaning.place.starts:
            problem = f"READ RESPONSE {after.meaning.place.name} after {before.meaning.place.name}: no FIRST"
            yield Violation(after.frame, FrameRule.OPCODE_SEQUENCE, flow.key.label, problem)


_RESPONSES = {
    PacketOperation.READ_REQUEST: PacketOperation.READ_RESPONSE,
    PacketOperation.ATOMIC: PacketOperation.ATOMIC_ACK,
}


def path_mtu_of_reads(requests: Sequence[CapturedPacket]) -> int | None:
    """The path MTU that the PSNs after READ requests show most often; None if several fit, or none."""
    votes: Counter[int] = Counter()
    for packet, following in pairwise(requests):
        fitting = _fitting_mtus(packet, following)
        if len(fitting) == 1:
            votes[fitting[0]] += 1
    return votes.most_common(1)[0][0] if votes else None


def _fitting_mtus(packet: CapturedPacket, following: CapturedPacket) -> list[int]:
    if packet.meaning.operation is not PacketOperation.READ_REQUEST:
        return []
    step = distance(packet.psn, following.psn)
    return [mtu for mtu in PATH_MTUS if packets_of(packet.reth_bytes or 0, mtu) == step]


def psns_taken(requests: Sequence[CapturedPacket], mtu: int | None) -> dict[int, int]:
    """Number of PSNs that each READ request takes, by frame.

    Args:
        requests: of a flow, in the order of the capture.
        mtu: the path MTU; if unknown, the PSN of the next request decides, or else the READ is taken for a short one.
    """
    taken: dict[int, int] = {}
    for packet, following in zip_longest(requests, requests[1:]):
        if packet.meaning.operation is PacketOperation.READ_REQUEST:
            fitting = _fitting_mtus(packet, following) if mtu is None and following is not None else []
            taken[packet.frame] = packets_of(packet.reth_bytes or 0, mtu or max(fitting, default=PATH_MTUS[-1]))
    return taken


@dataclass(frozen=True, slots=True)
class Read:
    """A READ request; `start` and `end` are unwrapped PSNs, `end` is the first after it."""

    start: int
    end: int
    packet: CapturedPacket

    def payload_bytes(self, psn: int, mtu: int) -> int:
        """Payload of the response with a PSN."""
        return min(mtu, (self.packet.reth_bytes or 0) - (psn - self.start) * mtu)

    def address(self, psn: int, mtu: int) -> int:
        """Address of the bytes that the response with a PSN carries."""
        return (self.packet.reth_address or 0) + (psn - self.start) * mtu


@dataclass(slots=True)
class Reads:
    """The READs of a flow, without those that ask again for a part of an earlier one."""

    _reads: list[Read] = field(default_factory=list)  # by their PSNs

    def add(self, read: Read) -> None:
        """Take a READ that no other covers."""
        self._reads.insert(bisect_right(self._reads, read.start, key=lambda one: one.start), read)

    def covering(self, psn: int) -> Read | None:
        """The READ that takes a PSN; None if no READ does."""
        at = bisect_right(self._reads, psn, key=lambda one: one.start)
        return self._reads[at - 1] if at and psn < self._reads[at - 1].end else None


def repeat_problem(packet: CapturedPacket, psn: int, psns: int, *, read: Read, mtu: int | None) -> str | None:
    """What is wrong with a request that takes PSNs of an earlier READ: it must ask for the rest of it, or for a part.

    Args:
        packet: the request; `psn` is its unwrapped PSN, and `psns` the number of PSNs it takes.
        read: the earlier READ.
        mtu: the path MTU; None if unknown.
    """
    if packet.meaning.operation is not PacketOperation.READ_REQUEST:
        return f"PSN {packet.psn:#x} belongs to the READ in frame {read.packet.frame}"
    if psn + psns > read.end:
        return f"it takes {psns} PSNs, {read.end - psn} are left of the READ in frame {read.packet.frame}"
    if mtu is None:
        return None
    expected = read.address(psn, mtu)
    if packet.reth_address != expected:
        return f"it reads from {packet.reth_address or 0:#x}, but PSN {packet.psn:#x} is that of {expected:#x}"
    return None


def response_problem(packet: CapturedPacket, psn: int, *, request: Read | SentPacket, mtu: int | None) -> str | None:
    """What is wrong with the response of a READ or an atomic operation, given the request with its PSN."""
    operation = request.packet.meaning.operation
    needed = _RESPONSES.get(operation)
    if packet.meaning.operation is not needed:
        name = packet.meaning.operation.value
        return f"{name} to PSN {packet.psn:#x}, the {operation.value} in frame {request.packet.frame}"
    if mtu is None or not isinstance(request, Read) or not packet.meaning.place.ends:
        return None
    expected = request.payload_bytes(psn, mtu)
    if packet.payload_bytes != expected:
        return f"it has {packet.payload_bytes} bytes, PSN {packet.psn:#x} of the READ has {expected}"
    return None
