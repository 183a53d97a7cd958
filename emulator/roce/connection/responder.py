"""The responder of a reliable connection: takes packets in order (or early, where allowed), owes ACKs and NAKs.

Payload is not kept: what is delivered is the fact that a message is complete. Everything about what is acknowledged,
refused or answered lives here.

Source: InfiniBand Architecture Specification, volume 1, section 9.7.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from emulator.roce.connection.memory import ATOMIC_BYTES, EVERYTHING, Access, Memory
from emulator.roce.connection.messages import (
    Arrival,
    AtomicResponse,
    ConnectionSettings,
    Delivered,
    Reply,
    ResponseRun,
    packets_of,
)
from emulator.roce.constants import LARGEST_MESSAGE_BYTES
from emulator.roce.wire.headers import Syndrome, credit_code
from emulator.roce.wire.opcodes import MEANINGS, Opcode, PacketOperation
from emulator.roce.wire.psn import PSN_MASK, ZERO_PSN, Psn, add, distance, wrap

REMEMBERED_READS: Final = 16
"""READs and atomics whose responses may be owed at once; more are dropped, and the requester repeats them. As many
results of atomics are kept for requests that come again."""

_HAS_IMM: Final = (Opcode.RC_SEND_LAST_IMM, Opcode.RC_SEND_ONLY_IMM, Opcode.RC_WRITE_LAST_IMM, Opcode.RC_WRITE_ONLY_IMM)
_TAKES_RECEIVE: Final = (Opcode.RC_SEND_FIRST, Opcode.RC_SEND_ONLY, *_HAS_IMM[1:])


class _OpcodeShape(NamedTuple):
    """What an opcode means that carries bytes of a message; `follows`: the operation that must be in progress."""

    operation: PacketOperation
    follows: PacketOperation | None
    starts: bool
    ends: bool
    has_imm: bool
    takes_receive: bool


def _shape(code: int) -> _OpcodeShape:
    operation, place = MEANINGS[code].operation, MEANINGS[code].place
    follows = None if place.starts else operation
    return _OpcodeShape(operation, follows, place.starts, place.ends, code in _HAS_IMM, code in _TAKES_RECEIVE)


_SHAPES: Final = {int(code): _shape(code) for code in MEANINGS if code < Opcode.RC_READ_REQUEST}
_ANSWERED: Final = frozenset((int(Opcode.RC_READ_REQUEST), int(Opcode.RC_COMPARE_SWAP), int(Opcode.RC_FETCH_ADD)))
_PROBE: Final = int(Opcode.RC_WRITE_ONLY)
_WRITE: Final = PacketOperation.WRITE  # looking it up costs as much as a call


@dataclass(slots=True, eq=False)
class _Read:
    """A READ that is being answered with `total` packets, or an atomic whose word was `original`."""

    request: Arrival
    total: int
    msn: int
    sent: int = 0
    original: int | None = None


@dataclass(slots=True, eq=False)
class Responder:
    """The receiving end.

    Attributes:
        expected: PSN of the next packet in order.
        memory: what the peer may access.
        receives: receive requests posted; None: as many as it takes, which `receive_writes` takes for granted.
        receive_bytes: room of each.
        delivered: messages that are complete; the owner takes them and clears the list.
        unacknowledged: packets taken since the last reply.
        duplicates: packets that the requester sent again although they had arrived.
        copies: packets that came twice although they were sent once: the network made the second one.
        is_probed: empty WRITEs that had arrived are probes: the requester asks whether a path works, see `migration`.
        probes: those. Nothing is owed for them, as `take_reply` may answer on another path: see `acknowledgement`.
        early_packets: those ahead of `expected`, without copies.
        refused_packets: those with a PSN that cannot be the peer's, of another service, or after the connection broke.
        reads, read_bytes: READs taken, each once, and what they requested.
        taken_bytes: payload of WRITEs and SENDs taken in order, each byte once.
        now_ns: when the packets that it is given were read; whoever reads them sets it.
    """

    settings: ConnectionSettings
    expected: Psn = ZERO_PSN
    memory: Memory = EVERYTHING
    receives: int | None = None
    receive_bytes: int = LARGEST_MESSAGE_BYTES
    delivered: list[Delivered] = field(default_factory=list)
    ack_requested: bool = False
    is_broken: bool = False
    broken_by: Syndrome | None = None
    unacknowledged: int = 0
    naks: int = 0
    duplicates: int = 0
    copies: int = 0
    is_probed: bool = False
    probes: int = 0
    early_packets: int = 0
    largest_displacement: int = 0
    refused_packets: int = 0
    reads: int = 0
    read_bytes: int = 0
    taken_bytes: int = 0
    now_ns: int = 0
    _path_mtu: int = field(init=False)
    _msn: int = 0
    _operation: PacketOperation | None = None  # of the message in progress; its bytes so far, in all, and its address:
    _received: int = 0
    _length: int = 0
    _address: int = 0
    _reads: deque[_Read] = field(default_factory=deque)
    _results: dict[Psn, int] = field(default_factory=dict)  # what the last atomics returned, oldest first
    _early: dict[Psn, Arrival] = field(default_factory=dict)
    _last_early: Psn | None = None  # the newest packet that came too early since the last NAK
    _early_ns: int = 0  # when it came
    _first_early: Psn | None = None  # where the requester was when the first of them came
    _early_again: Psn | None = None  # one of them came again, alone: the next packet tells a copy from a resend
    _old_again: Psn | None = None  # what would follow a single packet that was taken for a copy, if it was a resend
    _taken_ns: int = 0  # when a packet last came in order
    _nak: tuple[Psn, int] | None = None  # PSN and syndrome; void once that PSN has arrived
    _ack_owed: bool = False
    _refused: Psn | None = None  # the newest PSN that a NAK named: the requester goes back to it
    _resent: Psn | None = None  # the next PSN of a resend in progress that repeats what had arrived

    def __post_init__(self) -> None:
        self._path_mtu = self.settings.path_mtu

    def post_receives(self, count: int) -> None:
        """Allow `count` more messages that consume a receive request (SENDs, and WRITEs with immediate data)."""
        if self.receives is not None:
            self.receives += count

    @property
    def received_bytes(self) -> int:
        """Bytes of the message in progress received so far."""
        return self._received if self._operation is not None else 0

    @property
    def length(self) -> int:
        """Length of the WRITE in progress, bytes; 0 if there is none."""
        return self._length if self._operation is PacketOperation.WRITE else 0

    @property
    def is_urgent(self) -> bool:
        """Whether the requester waits for what is owed: a reply that it requested, or READ responses."""
        return self.ack_requested or self._nak is not None or bool(self._reads)

    @property
    def owes_responses(self) -> bool:
        """Whether `next_response` has something."""
        return bool(self._reads)

    @property
    def owes_reply(self) -> bool:
        """Whether `take_reply` has something now."""
        return (self._ack_owed or self._nak is not None) and not self._reads

    def take_reply(self) -> Reply | None:
        """The ACK or NAK that is owed, if any; one ACK covers everything taken so far."""
        if self._reads:
            return None  # an acknowledgement would say that the responses are in flight
        msn = wrap(self._msn)
        if self._nak is not None:
            reply = Reply(*self._nak, msn)
            self._nak = None
            self.naks += 1
        elif self._ack_owed:
            reply = Reply(add(self.expected, -1), credit_code(self._credits()), msn)
        else:
            return None
        self._ack_owed = self.ack_requested = False
        self.unacknowledged = 0
        return reply

    def acknowledgement(self) -> Reply:
        """An ACK for everything taken so far, whether it is owed or not."""
        return Reply(add(self.expected, -1), credit_code(self._credits()), wrap(self._msn))

    def _credits(self) -> int | None:
        """Receive requests, with the one of a SEND in progress: they count from the last message completed."""
        if self.receives is None:
            return None
        return self.receives + (self._operation is PacketOperation.SEND)

    def next_response(self, most: int) -> ResponseRun | AtomicResponse | None:
        """The response to an atomic, or at most `most` READ response packets that are owed; None if none are."""
        if not self._reads:
            return None
        read = self._reads[0]
        if read.original is not None:
            self._reads.popleft()
            return AtomicResponse(read.request.psn, read.original, wrap(read.msn))
        request, offset, last_bytes = read.request, read.sent, self._path_mtu
        count = min(most, read.total - offset)
        read.sent += count
        if read.sent == read.total:
            self._reads.popleft()
            last_bytes = request.length - (read.total - 1) * self._path_mtu
        content = self._content(request, offset, (count - 1) * self._path_mtu + last_bytes)
        return ResponseRun(add(request.psn, offset), offset, count, read.total, last_bytes, wrap(read.msn), content)

    def _content(self, request: Arrival, offset: int, size: int) -> bytes | None:
        address = request.address + offset * self._path_mtu
        region = self.memory.region(request.rkey, address, size, Access.READ) if size else None
        return region.read(address, size) if region is not None else None

    @property
    def middles_due(self) -> int:
        """MIDDLE packets of the WRITE in progress that may come next; 0 while early packets are waiting."""
        if self._operation is not _WRITE or self._early or self.is_broken:
            return 0
        return (self._length - self._received - 1) // self._path_mtu

    @property
    def is_reply_due(self) -> bool:
        """Whether the reply that is owed has to go at once: a NAK, or an ACK for a share of the window."""
        return self.unacknowledged >= self.settings.ack_interval or (self._nak is not None and not self._reads)

    def receive_middles(self, count: int, *, ack_request: bool) -> None:
        """Take MIDDLE packets that are due, no more than `middles_due`."""
        size = count * self._path_mtu
        self._received += size
        self.taken_bytes += size
        self._advance(count, ack_request)

    def receive_writes(self, writes: Delivered, ack_request: bool) -> bool:
        """Take WRITEs of one packet that are due; False: a message is in progress, or packets came early."""
        if self._operation is not None or self._early or self.is_broken:
            return False
        count = writes.messages
        self.expected = Psn(self.expected + count & PSN_MASK)
        self._msn += count
        self.taken_bytes += writes.size * count
        self.unacknowledged += count
        self._taken_ns = self.now_ns
        self._ack_owed, self._last_early, self._nak = True, None, None
        if ack_request:
            self.ack_requested = True
        self.delivered.append(writes)
        return True

    def _advance(self, packets: int, ack_request: bool) -> None:
        self.expected = add(self.expected, packets)
        self.unacknowledged += packets
        self._taken_ns = self.now_ns
        self._ack_owed, self._last_early, self._nak = True, None, None
        if ack_request:
            self.ack_requested = True

    def receive(self, arrival: Arrival) -> None:
        """Take packets of any kind; what is complete goes to `delivered`."""
        shape = _SHAPES.get(arrival.opcode)
        if arrival.psn == self.expected and shape is not None and not self.is_broken:
            self._last_early = None
            self._take(arrival, shape)
            if self._early:
                self._take_following()
        else:
            self._receive_unexpected(arrival)

    def _receive_unexpected(self, arrival: Arrival) -> None:
        """What is not in order, or a READ request."""
        ahead = distance(self.expected, arrival.psn)
        is_known = arrival.opcode in _SHAPES or arrival.opcode in _ANSWERED
        if self.is_broken or not is_known or abs(ahead) > self.settings.reach_packets:
            self.refused_packets += arrival.packets
        elif ahead > 0:
            self._take_early(arrival, ahead)
        elif arrival.opcode in _ANSWERED and not ahead:
            self._last_early = None
            self._take_answered(arrival)
            self._take_following()
        elif (rest := self._without_duplicates(arrival, -ahead)).packets:
            self.receive(rest)

    def _take_following(self) -> None:
        """Take what came early and is now next."""
        while not self.is_broken and (following := self._early.pop(self.expected, None)) is not None:
            self._take_next(following)

    def _without_duplicates(self, arrival: Arrival, behind: int) -> Arrival:
        if arrival.opcode in _ANSWERED:
            self.duplicates += 1
            if len(self._reads) < REMEMBERED_READS:
                self._answer_again(arrival, behind)
            return replace(arrival, packets=0)
        if self.is_probed and arrival.opcode == _PROBE and not arrival.length:
            self.probes += 1
            return replace(arrival, packets=0)
        old = min(behind, arrival.packets)
        if arrival.psn == self._old_again:  # it goes on: both are of a resend
            self.copies, self.duplicates = self.copies - 1, self.duplicates + 1
        elif self._is_copy(arrival.psn, behind, is_recent=old == behind or old == 1):
            self.copies += old
            self._old_again = add(arrival.psn, 1) if old == 1 and behind > max(1, self.unacknowledged) else None
            return self._without(arrival, old)
        self.duplicates += old
        self._resent, self._old_again = add(arrival.psn, old), None
        return self._without(arrival, old)

    def _without(self, arrival: Arrival, old: int) -> Arrival:
        """An arrival without its first packets, which had arrived."""
        self._ack_owed = self.ack_requested = True
        return replace(arrival, psn=add(arrival.psn, old), packets=arrival.packets - old)

    def _is_copy(self, psn: Psn, behind: int, *, is_recent: bool) -> bool:
        """Whether the network repeated packets that had arrived.

        A requester repeats what a NAK asked for, what follows it, and, after a silence, what was not acknowledged. It
        has had no silence yet for packets whose acknowledgement is still owed. What was acknowledged a moment ago is a
        copy if it is the newest, or alone: a host merges a train of packets, and passes on the copy of one after it.
        """
        is_silent = self.now_ns - self._taken_ns >= self.settings.timeout_ns // 2
        if psn == self._resent or (behind > self.unacknowledged and (is_silent or not is_recent)):
            return False
        return self._refused is None or distance(self._refused, psn) > 0

    def _answer_again(self, arrival: Arrival, behind: int) -> None:
        if arrival.opcode != Opcode.RC_READ_REQUEST:
            if (original := self._results.get(arrival.psn)) is not None:
                self._reads.append(_Read(arrival, 1, self._msn, original=original))
            return
        total = packets_of(arrival.length, self._path_mtu)
        if total <= behind and self._may_read(arrival):
            self._reads.append(_Read(arrival, total, self._msn))

    # Out of order.

    def _take_early(self, arrival: Arrival, ahead: int) -> None:
        if self._early_again is not None and self._settle_again(arrival):
            return
        # A requester that went back begins with the gap: the same packet twice, with one before it, is a copy. So is
        # one that was read together with the first: no NAK can have reached the requester in between.
        if arrival.psn == self._last_early and (ahead > 1 or self._nak is not None or self.now_ns == self._early_ns):
            self.copies += 1
            if arrival.packets == 1:
                return
            arrival, ahead = replace(arrival, psn=add(arrival.psn, 1), packets=arrival.packets - 1), ahead + 1
        elif arrival.packets == 1 and self._is_early_again(arrival.psn):
            self._early_again = arrival.psn
            return
        self.early_packets += arrival.packets
        self.largest_displacement = max(self.largest_displacement, ahead)
        is_taken = self.settings.is_ooo and ahead + arrival.packets <= self.settings.ooo_window
        if is_taken:
            for i in range(arrival.packets):
                psn = add(arrival.psn, i)
                self._early[psn] = replace(arrival, psn=psn, packets=1)
        # Going backwards among early packets means that the requester went back, and that the gap was lost again.
        elif self._last_early is None or distance(self._last_early, arrival.psn) <= 0:
            self._first_early = arrival.psn
            if self._nak is None:
                self._refuse(Syndrome.SEQUENCE_ERROR)
        if not is_taken:
            self._last_early, self._early_ns = add(arrival.psn, arrival.packets - 1), self.now_ns

    def _is_early_again(self, psn: Psn) -> bool:
        """Whether a packet came early before, since the requester last began at the gap, and not as the first."""
        first, last = self._first_early, self._last_early
        return first is not None and last is not None and distance(first, psn) > 0 >= distance(last, psn)

    def _settle_again(self, arrival: Arrival) -> bool:
        """What the early packet was that came again: returns whether `arrival` was taken with it, as a resend."""
        again, self._early_again = self._early_again, None
        if again is None or self._last_early is None or distance(again, arrival.psn) != 1:
            self.copies += 1
            return False
        self._last_early = None  # the requester went back, and what it sent before this was lost again
        for one in (replace(arrival, psn=again, packets=1), arrival):
            self._take_early(one, distance(self.expected, one.psn))
        return True

    def _refuse(self, syndrome: int) -> None:
        self._nak = self.expected, syndrome
        self._refused = self.expected

    def _break(self, syndrome: Syndrome) -> None:
        """Refuse for good: the connection is in error. Responses that are owed still precede the NAK."""
        self._refuse(syndrome)
        self._early.clear()
        self.is_broken, self.broken_by = True, syndrome

    # In order.

    def _take_next(self, arrival: Arrival) -> None:
        shape = _SHAPES.get(arrival.opcode)
        if shape is None:
            self._take_answered(arrival)
        else:
            self._take(arrival, shape)

    def _take(self, arrival: Arrival, shape: _OpcodeShape) -> None:
        problem = self._problem(arrival, shape)
        if problem is not None:
            self._break(problem)
            return
        packets, size = arrival.packets, arrival.size
        operation, _, starts, ends, has_imm, takes_receive = shape
        if takes_receive and self.receives is not None:
            if self.receives < packets:
                self._take_ready(arrival, shape, self.receives)
                return
            self.receives -= packets
        self._advance(packets, arrival.ack_request)
        self.taken_bytes += size * packets
        imm = arrival.imm if has_imm else None
        if starts and ends:
            self._msn += packets
            self.delivered.append(Delivered(operation, arrival.address, size, imm, packets))
            return
        if starts:
            self._operation, self._received = operation, size
            self._length, self._address = arrival.length, arrival.address
            return
        self._received += size * packets
        if ends:
            self._msn += 1
            self._operation = None
            self.delivered.append(Delivered(operation, self._address, self._received, imm))

    def _take_ready(self, arrival: Arrival, shape: _OpcodeShape, receives: int) -> None:
        """Take as many messages as there are receives; the peer is to repeat the others later."""
        if receives:
            self._take(replace(arrival, packets=receives), shape)
        self._refuse(Syndrome.RNR | self.settings.rnr_timer)
        self._last_early = add(arrival.psn, arrival.packets - 1)  # what follows is not a sequence error

    def _problem(self, arrival: Arrival, shape: _OpcodeShape) -> Syndrome | None:
        """Why packets that are next in order cannot be taken."""
        packets, size, length = arrival.packets, arrival.size, arrival.length
        operation, follows, starts, ends, _, _ = shape
        mtu = self._path_mtu
        if self._operation is not follows or size > mtu or (packets > 1 and starts is not ends):
            return Syndrome.INVALID_REQUEST
        if size < mtu and not (ends and (size or starts)):
            return Syndrome.INVALID_REQUEST
        if operation is not _WRITE:
            received = size if starts else self._received + size * packets
            has_room = received <= self.receive_bytes or (starts and self.receives == 0)
            return None if has_room else Syndrome.REMOTE_OPERATIONAL
        if not starts:
            size, length = self._received + size * packets, self._length
        elif length and self.memory.region(arrival.rkey, arrival.address, length, Access.WRITE) is None:
            return Syndrome.REMOTE_ACCESS
        fits = size == length if ends else size < length <= LARGEST_MESSAGE_BYTES
        return None if fits else Syndrome.INVALID_REQUEST

    def _may_read(self, arrival: Arrival) -> bool:
        region = self.memory.region(arrival.rkey, arrival.address, arrival.length, Access.READ)
        return not arrival.length or region is not None

    def _take_answered(self, arrival: Arrival) -> None:
        """Take a READ request or an atomic that is next."""
        if len(self._reads) == REMEMBERED_READS and self._operation is None:
            return  # like a lost packet
        if self._operation is not None:
            self._break(Syndrome.INVALID_REQUEST)
        elif arrival.opcode == Opcode.RC_READ_REQUEST:
            self._take_read(arrival)
        else:
            self._take_atomic(arrival)

    def _take_read(self, arrival: Arrival) -> None:
        if arrival.length > LARGEST_MESSAGE_BYTES:
            self._break(Syndrome.INVALID_REQUEST)
        elif not self._may_read(arrival):
            self._break(Syndrome.REMOTE_ACCESS)
        else:
            total = packets_of(arrival.length, self._path_mtu)
            self._msn += 1
            self.expected, self._nak = add(self.expected, total), None
            self._reads.append(_Read(arrival, total, self._msn))
            self.reads += 1
            self.read_bytes += arrival.length

    def _take_atomic(self, arrival: Arrival) -> None:
        region = self.memory.region(arrival.rkey, arrival.address, ATOMIC_BYTES, Access.ATOMIC)
        if region is None:
            self._break(Syndrome.REMOTE_ACCESS)
            return
        if arrival.address % ATOMIC_BYTES:
            self._break(Syndrome.INVALID_REQUEST)
            return
        if arrival.opcode == Opcode.RC_FETCH_ADD:
            original = region.fetch_add(arrival.address, arrival.swap_or_add)
        else:
            original = region.compare_swap(arrival.address, arrival.compare, arrival.swap_or_add)
        self._msn += 1
        self.expected, self._nak = add(self.expected, 1), None
        self._reads.append(_Read(arrival, 1, self._msn, original=original))
        self._results.pop(arrival.psn, None)  # of a time before PSNs began again at 0
        self._results[arrival.psn] = original
        if len(self._results) > REMEMBERED_READS:
            del self._results[next(iter(self._results))]
