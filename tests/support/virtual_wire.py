"""Two queue pairs and a wire between them that loses, doubles and overtakes packets, on a clock of its own."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from random import Random

from msgspec.structs import replace

from emulator.roce.connection.messages import (
    Arrival,
    ConnectionSettings,
    Delivered,
    Message,
    PacketRun,
    ResponseRun,
    Verb,
)
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.connection.send_queue import NEVER
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.psn import Psn, add, wrap
from tests.support.segments import Segment, response_segments, segments

LATENCY_NS = 5_000
NAK_OR_RNR = 0x60  # the bits of a syndrome that an ACK does not have

Reply = tuple[int, int, int]
"""PSN, syndrome and MSN of an ACK or NAK."""


class End:
    """A queue pair and what its owner has heard."""

    def __init__(self, pair: QueuePair, first_psn: int) -> None:
        self.pair, self._first_psn = pair, first_psn
        self.delivered: list[Delivered] = []
        self.completed: list[Message] = []
        self.responses: dict[int, int] = {}  # PSN of a READ response that came → its bytes

    def complete(self, messages: Iterable[Message]) -> None:
        """The requester says that these are done; of a READ, all bytes must be here by then."""
        for message in messages:
            self.completed.append(message)
            if message.verb is Verb.READ:
                first = self._first_psn + message.first
                psns = (wrap(first + packet) for packet in range(message.packets))
                assert sum(self.responses[psn] for psn in psns) == message.size


class Wire:
    """Runs two ends until nothing is left to do.

    `receives`: receive requests that both ends have at any time; None: as many as they need.
    `tap(side, packet, is_arriving)` is called for every packet to a side, when it is sent and when it arrives.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        seed: int,
        loss: float = 0.0,
        duplication: float = 0.0,
        reordering: float = 0.0,
        first_psns: tuple[int, int] = (0, 0),
        receives: int | None = None,
        tap: Callable[[int, Arrival | Reply, bool], None] = lambda side, what, is_arriving: None,
    ) -> None:
        self.settings, self.now, self.receives = settings, 0, receives
        a, b = first_psns
        self.ends = (
            End(QueuePair(settings, send_psn=a, expect_psn=b), a),
            End(QueuePair(settings, send_psn=b, expect_psn=a), b),
        )
        for end in self.ends:
            end.pair.responder.receives = receives
        self.is_cut = False
        self.sent = 0
        self._tap = tap
        self._random = Random(seed)
        self._loss, self._duplication, self._reordering = loss, duplication, reordering
        self._heap: list[tuple[int, int, int, Arrival | Reply | int]] = []
        self._order = 0

    def run(self, *, limit_ns: int = 10**13) -> None:
        """Let time pass until both ends are idle or failed."""
        self._send()
        while not all(end.pair.requester.is_idle or end.pair.requester.failure for end in self.ends):
            due = min(end.pair.deadline_ns for end in self.ends)
            if self._heap and self._heap[0][0] <= due:
                self.now, _, side, what = heapq.heappop(self._heap)
                self._take(side, what)
            else:
                assert due < NEVER, "a hang: packets are outstanding and nothing will happen"
                self.now = max(self.now, due)
                for end in self.ends:
                    end.pair.requester.handle_timer(self.now)
            assert self.now < limit_ns
            self._send()

    def _take(self, side: int, what: Arrival | Reply | int) -> None:
        if isinstance(what, int):
            self.ends[side].pair.responder.post_receives(what)
            return
        self._tap(side, what, True)
        end = self.ends[side]
        if not isinstance(what, Arrival):  # an ACK or NAK
            end.pair.acknowledge(Psn(what[0]), what[1], self.now, what[2])
            end.complete(end.pair.completed or ())
            end.pair.completed = None
        elif what.opcode in (0x0D, 0x0E, 0x0F, 0x10):
            end.responses |= {int(add(what.psn, packet)): what.size for packet in range(what.packets)}
            end.complete(end.pair.requester.take_response(what.psn, what.packets, self.now))
        else:
            before = len(end.delivered)
            end.pair.responder.receive(what)
            end.delivered += end.pair.responder.delivered
            end.pair.responder.delivered.clear()
            if self.receives is not None:
                self._later(side, sum(map(takes_receive, end.delivered[before:])))

    def _later(self, side: int, receives: int) -> None:
        """Post receive requests in place of those taken, after a while."""
        self._order += 1
        heapq.heappush(self._heap, (self.now + 100_000, self._order, side, receives))

    def _send(self) -> None:
        for side, end in enumerate(self.ends):
            responder = end.pair.responder
            while (responses := responder.next_response(64)) is not None:
                for segment in response_segments(responses, self.settings.path_mtu):
                    self._transmit(1 - side, segment, responses)
            is_time = responder.is_urgent or responder.unacknowledged >= max(1, self.settings.window_packets // 4)
            reply = responder.take_reply() if is_time else None
            if reply is not None:
                is_ack = not reply.syndrome & NAK_OR_RNR
                assert is_ack or responder.is_broken or reply.psn == responder.expected, "a NAK of what has arrived"
                self._put(1 - side, (reply.psn, reply.syndrome, reply.msn))
            peer = self.ends[1 - side].pair.requester
            is_last = not peer.backlog and responder.expected == add(peer.oldest_psn, peer.in_flight)
            assert not (is_last and responder.owes_reply), "everything is here, and only a timeout will say so"
            while (run := end.pair.next_run(self.now, 64)) is not None:
                assert run.packets <= 64
                for segment in segments(run, self.settings.path_mtu):
                    self._transmit(1 - side, segment, run)

    def _transmit(self, side: int, segment: Segment, run: PacketRun | ResponseRun) -> None:
        for arrival in arrivals(segment, run, self.settings):
            self._put(side, arrival)

    def _put(self, side: int, what: Arrival | Reply) -> None:
        self.sent += 1
        self._tap(side, what, False)
        if self.is_cut or self._random.random() < self._loss:
            return
        for _ in range(2 if self._random.random() < self._duplication else 1):
            late = self._random.randrange(4 * LATENCY_NS) if self._random.random() < self._reordering else 0
            self._order += 1
            heapq.heappush(self._heap, (self.now + LATENCY_NS + late, self._order, side, what))


def arrivals(segment: Segment, run: PacketRun | ResponseRun, settings: ConnectionSettings) -> Iterator[Arrival]:
    """What a receiver parses from the packets of a segment, one by one."""
    for i in range(segment.packets):
        arrival = Arrival(
            segment.opcode,
            add(segment.psn, i),
            size=segment.size,
            ack_request=segment.ack_request and i == segment.packets - 1,
        )
        if isinstance(run, PacketRun):
            message = run.message
            skipped = segment.offset * settings.path_mtu
            if segment.has_reth:
                arrival = replace(
                    arrival, address=message.address + skipped, rkey=message.rkey, length=message.size - skipped
                )
            if segment.has_imm:
                arrival = replace(arrival, imm=message.imm)
        yield arrival


def expected(message: Message) -> Delivered:
    """What the peer must hear of a SEND or WRITE."""
    operation, has_imm = message.verb.value
    address = message.address if operation is PacketOperation.WRITE else 0
    return Delivered(operation, address, message.size, message.imm if has_imm else None)


def takes_receive(delivered: Delivered) -> int:
    """How many receive requests it took."""
    return delivered.messages if delivered.operation is PacketOperation.SEND or delivered.imm is not None else 0
