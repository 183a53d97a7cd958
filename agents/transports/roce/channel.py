"""One queue pair on sockets: what it sends goes to its outlet, what is received becomes arrivals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from agents.transports.roce.closer_look import CloserLook
from agents.transports.roce.ends import Ends
from agents.transports.roce.outlet import Outlet, send_problem
from agents.transports.roce.parties import Neighbour, Owner
from agents.transports.roce.port import PortPacer
from agents.transports.roce.shared import CALLS_AT_ONCE, Shared
from agents.transports.roce.verification import Verification
from emulator.errors import HostError
from emulator.roce.constants import ACKS_PER_WINDOW
from emulator.roce.messages import Arrival, ConnectionSettings, Delivered, Message
from emulator.roce.opcodes import Opcode
from emulator.roce.psn import Psn
from emulator.roce.queue_pair import QueuePair
from emulator.roce.requester import NEVER
from emulator.roce.runs import ACK_REQUEST, BTH, FIRST, LAST_IMM, Prediction, without_ack_requests
from emulator.roce.single import WRITE

_LAST = int(Opcode.RC_WRITE_LAST)
_MIDDLE_BYTE = bytes([Opcode.RC_WRITE_MIDDLE])


class Channel:
    """One queue pair between two ranks.

    Args:
        shared: with all channels of the process.
        link: that it belongs to.
        ends: the two ranks.
        settings, make: of the queue pair, and what makes it.
        port: paces what is sent; None: nothing does.
        neighbour: the peer, where it is in the same process.
    """

    __slots__ = (
        "_ack_every",
        "_closer_look",
        "_has_alarm",
        "_has_more",
        "_headers",
        "_held",
        "_held_psn",
        "_is_free",
        "_is_owing",
        "_is_waiting",
        "_link",
        "_outlet",
        "_port",
        "_prediction",
        "_shared",
        "_verification",
        "calls_at_once",
        "drops",
        "ends",
        "is_dead",
        "neighbour",
        "owed_since",
        "pair",
        "posted_bytes",
        "posted_messages",
    )

    def __init__(
        self,
        shared: Shared,
        link: Owner,
        ends: Ends,
        *,
        settings: ConnectionSettings,
        make: Callable[[], QueuePair],
        port: PortPacer | None = None,
        neighbour: Neighbour | None = None,
    ) -> None:
        self._shared, self._link, self.ends, self._port = shared, link, ends, port
        self.pair = make()
        self._outlet, self._verification = Outlet(shared, ends), Verification(shared, ends)
        self._prediction = Prediction(opcode=Opcode.RC_WRITE_MIDDLE, dest_qp=ends.own_qpn)
        self._headers = shared.inspection.headers(shared.staging.stride)
        self._ack_every = max(1, settings.window_packets // ACKS_PER_WINDOW)
        self.calls_at_once = max(1, min(CALLS_AT_ONCE, self._ack_every // shared.payload.per_call))
        """Full calls that may be taken together: an acknowledgement does not wait for more than it is for."""
        self._is_free = port is None and not self.pair.is_paced  # nothing but the window holds up what is sent
        self._has_alarm = self._has_more = self._is_owing = self._is_waiting = self.is_dead = False
        self._held: list[Message] = []  # taken as sent, from that PSN on
        self._held_psn = Psn(0)
        self._closer_look: CloserLook | None = None
        self.neighbour = neighbour if port is None else None
        self.owed_since = self.posted_bytes = self.posted_messages = 0
        self.drops: Counter[str] | None = None
        """Packets that came to this queue pair and were not wanted, by reason."""

    @property
    def source_port(self) -> int | None:
        """Where its packets come from; None: from several ports, or none has gone."""
        return self._outlet.source_port

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that the peer has acknowledged."""
        return self.posted_bytes - self.pair.requester.unacknowledged_bytes

    # Sending.

    def post(self, message: Message) -> None:
        """Queue a message. Its key becomes its number, by which source ports take turns."""
        message.key = self.posted_messages
        self.posted_bytes += message.size
        self.posted_messages += 1
        self.pair.requester.post(message)

    def hold(self, message: Message, holding: list[Channel], now: int) -> bool:
        """Have a WRITE of one packet with immediate data go at the end of the batch, or queue it behind others.

        Args:
            holding: the channels that have such ones.

        Returns:
            Whether it is ready.
        """
        psn = self.pair.requester.start(message, now) if self._is_free and not self._has_more else None
        if psn is None:
            self.post(message)
            return False
        message.key = self.posted_messages
        self.posted_bytes += message.size
        self.posted_messages += 1
        if not self._held:
            holding.append(self)
            self._held_psn = psn
        self._held.append(message)
        return True

    def let_go(self) -> None:
        """Send what is held."""
        held, self._held = self._held, []
        if self.is_dead or not held:
            return
        self._shared.active.add(self)
        try:
            if len(held) == 1:
                self._outlet.write(self._held_psn, held[0])
            else:
                self._outlet.writes(self._held_psn, held)
        except (OSError, HostError) as error:
            self._link.broke(send_problem(error, self._shared.options.path_mtu))

    def send(self, now: int, turns: int = 1) -> None:
        """Send what may go now; to a neighbour, so many turns at most, who takes what has come between them."""
        if self._held:
            self.let_go()
            if self.is_dead:
                return
        pair, most = self.pair, max(self._ack_every, 2 * self._shared.staging.slots)
        try:
            if self._port is not None:
                self._send_through(self._port, now)
            elif self.neighbour is not None:
                self._send_some(now, turns)
            else:
                while (run := pair.next_run(now, most)) is not None:
                    self._outlet.run(run)
        except (OSError, HostError) as error:
            self._link.broke(send_problem(error, self._shared.options.path_mtu))
            return
        if self.is_dead:
            return
        if pair.requester.in_flight:
            self._shared.active.add(self)
        if pair.paced_until != NEVER and not self._has_alarm:
            self._has_alarm = True
            self._shared.clock.call_at(pair.paced_until, self._resume)

    def send_more(self, now: int, turns: int) -> None:
        """Go on where the last turn ended. Not to be called while anything that came is taken."""
        self._has_more = False
        if not self.is_dead:
            self.send(now, turns)

    def reply(self) -> None:
        """Send the ACK or NAK that is owed."""
        self._is_owing = False
        reply = self.pair.responder.take_reply()
        if reply is None or self.is_dead:
            return
        try:
            self._outlet.reply(reply)
            if self._port is not None:
                self._port.charge_small(self._shared.clock.now())
        except (OSError, HostError) as error:
            self._link.broke(send_problem(error, self._shared.options.path_mtu))

    def handle_timer(self, now: int) -> None:
        """No answer came in time."""
        requester = self.pair.requester
        requester.handle_timer(now)
        if requester.failure is not None:
            self._link.broke(requester.failure)
        else:
            self.send(now)

    def close(self) -> None:
        """Send nothing more."""
        self.is_dead = True
        self._shared.active.discard(self)

    def _resume(self) -> None:
        self._has_alarm = False
        if not self.is_dead:
            self.send(self._shared.clock.now())

    def _send_some(self, now: int, turns: int) -> None:
        """Send as much in a turn as the neighbour then finds in the core's cache; the rest has a time of its own."""
        if self._has_more:
            return
        turn = self._shared.payload.slots
        left, since = turn * turns, 0
        between = self._let_neighbour_take if turns > 1 else None
        self._has_more = True  # what the neighbour makes this rank send waits: packets before it have not gone yet
        try:
            while left > 0 and (run := self.pair.next_run(now, max(left, turn))) is not None:
                self._outlet.run(run, between)
                if self.is_dead:
                    return
                left -= run.packets
                since += run.packets
                if between is not None and since >= turn:
                    since = 0
                    if not between():
                        return
        finally:
            self._has_more = False
        if left <= 0 and self.pair.requester.backlog:
            self._has_more = True
            self._shared.unfinished.append(self)

    def _let_neighbour_take(self) -> bool:
        """Returns whether to go on."""
        if self.neighbour is not None:
            self.neighbour.catch_up()
        return not self.is_dead

    def _send_through(self, port: PortPacer, now: int) -> None:
        """Send while the port lets payload through; control need not wait."""
        is_control, most = self.ends.index == 0, min(self._shared.payload.slots, port.most_packets)
        while is_control or port.is_free(now):
            run = self.pair.next_run(now, most)
            if run is None:
                return
            port.charge(run, now)
            self._outlet.run(run)
        if self.pair.requester.backlog and not self._is_waiting:
            self._is_waiting = True
            port.wait(self._take_turn)
        self.pair.paced_until = NEVER  # the port says when

    def _take_turn(self, now: int) -> None:
        self._is_waiting = False
        if not self.is_dead:
            self.send(now)

    # Receiving.

    @property
    def dropped(self) -> int:
        """Packets that came and were not wanted."""
        return self.drops.total() if self.drops else 0

    def drop(self, reason: str, count: int = 1) -> None:
        """Count packets that came and are not wanted."""
        self._shared.drops[reason] += count
        if self.drops is None:
            self.drops = Counter()
        self.drops[reason] += count

    def take_single_write(
        self, size: int, port: int, flags: int, word: int, tag: int, rkey: int, length: int, imm: int, now: int,
        start: int = 0, place: int = 0,
    ) -> bool:  # fmt: skip
        """Take a WRITE of one packet; False: not taken, it needs a closer look.

        Args:
            size: bytes of the packet.
            flags, word: second byte and last word of its BTH, whose FECN and BECN are 0.
            tag, rkey, length, imm: of its RETH and immediate data.
            start: where it is in the buffer.
            place: among the packets it came with.
        """
        responder = self.pair.responder
        if word & 0xFFFFFF != responder.expected or rkey != self._shared.rkey:
            return False
        if not self._verification.is_single_write(size, port, length, flags, start, place):
            return False
        if not responder.take_write(responder.expected, length, length, word >= ACK_REQUEST):
            return False
        if responder.unacknowledged >= self._ack_every:
            self.mind_reply(now)
        elif not self._is_owing and responder.is_urgent:
            self._owe(now)
        self._link.arrived(self.ends.index, tag, length, imm, now)
        return True

    def take_train(self, stride: int, count: int, port: int, now: int) -> bool:
        """Take WRITEs of one packet that came on end, all alike; False: not taken, they need a closer look."""
        _, flags, _, _, word, tag, rkey, length, imm = WRITE.unpack_from(self._shared.buffer)
        responder = self.pair.responder
        if word & 0xFFFFFF != responder.expected or rkey != self._shared.rkey:
            return False
        if not self._verification.is_train(stride, count, port, size=length, flags=flags):
            return False
        if not responder.take_write(responder.expected, length, length, word >= ACK_REQUEST, count):
            return False
        if responder.is_urgent or responder.unacknowledged >= self._ack_every:
            self.mind_reply(now)
        self._link.arrived(self.ends.index, tag, length, imm, now, count)
        return True

    def take_first(self, size: int, port: int, *, word: int, tag: int, rkey: int, length: int, now: int) -> bool:
        """Take the FIRST packet of a WRITE at the start of the buffer; False: not taken, it needs a closer look.

        Args:
            size: bytes of the packet.
            word: last word of its BTH, whose flags, FECN and BECN are 0.
            tag, rkey, length: of its RETH.
        """
        responder, mtu = self.pair.responder, self._shared.payload.path_mtu
        if word & 0xFFFFFF != responder.expected or rkey != self._shared.rkey or size != FIRST.size + mtu + 4:
            return False
        if not self._verification.is_edge(size, port, header=FIRST.size, packet=0, size=mtu):
            return False
        if not responder.take_first(tag, length, ack_request=word >= ACK_REQUEST):
            return False
        if word >= ACK_REQUEST or responder.unacknowledged >= self._ack_every:
            self.mind_reply(now)
        return True

    def take_last(self, size: int, port: int, *, flags: int, word: int, imm: int | None, now: int) -> bool:
        """Take the LAST packet of a WRITE at the start of the buffer; as `take_first`, but `flags` may have a pad."""
        responder, header = self.pair.responder, BTH.size if imm is None else LAST_IMM.size
        pad = flags >> 4
        length = size - header - 4 - pad
        mtu = self._shared.payload.path_mtu
        if word & 0xFFFFFF != responder.expected or flags & ~0x30 or not 0 < length <= mtu or size & 3:
            return False
        packet = responder.received_bytes // mtu
        if not self._verification.is_edge(size, port, header=header, packet=packet, size=length):
            return False
        delivered = responder.take_last(length, imm=imm, ack_request=word >= ACK_REQUEST)
        if delivered is None:
            return False
        self.mind_reply(now)
        self._link.delivered(self.ends.index, delivered, now)
        return True

    def take_ack(self, port: int, psn: Psn, aeth: int, now: int) -> bool:
        """Take the ACK at the start of the buffer, FECN and BECN 0; False: not taken, it is damaged."""
        if not self._verification.is_ack(port):
            return False
        self.answered(psn, aeth >> 24, now)
        return True

    @property
    def closer_look(self) -> CloserLook:
        """What takes packets that something is special about."""
        if self._closer_look is None:
            self._closer_look = CloserLook(self, self._shared, self._verification)
        return self._closer_look

    def take_usual(self, count: int, first: int = 0) -> bool:
        """Take `count` full MIDDLE packets that stand in the buffer from packet `first` on, where they are exactly
        those that are due, and no sample; False: see `take_run`.
        """
        responder, verification = self.pair.responder, self._verification
        if not verification.unwatched or self.is_dead or not self._shared.payload.is_constant:
            return False
        if self._headers[first : first + count].tobytes() != self._prediction.headers(responder.expected, count):
            return False
        if not responder.take_middles(count):
            return False
        verification.unwatched -= 1
        if responder.unacknowledged >= self._ack_every:
            self.mind_reply(self._shared.clock.now())
        return True

    def take_run(self, stride: int, count: int, port: int, now: int) -> bool:
        """Take `count` packets of `stride` bytes from the start of the buffer: MIDDLE ones, and a LAST one of their
        length; False: not taken, they need a closer look.
        """
        shared, responder = self._shared, self.pair.responder
        headers = shared.inspection.headers(stride)[:count].tobytes()
        predicted = self._prediction.headers(responder.expected, count)
        asks = ends = False
        if headers != predicted:
            ends = count > 1 and headers[-BTH.size] == _LAST
            if ends:
                headers = headers[: -BTH.size] + _MIDDLE_BYTE + headers[1 - BTH.size :]
            asks = headers != predicted
            if asks and without_ack_requests(headers) != predicted:
                return False
        if stride != shared.staging.stride or not self._verification.is_run_right(
            stride, count, port, received_bytes=responder.received_bytes
        ):
            return False
        if not responder.take_middles(count - ends):
            return False
        if asks:
            responder.ack_requested = True
        if ends:
            self._take_end(asks=asks, now=now)
        elif asks or responder.unacknowledged >= self._ack_every:
            self.mind_reply(now)
        return True

    def _take_end(self, *, asks: bool, now: int) -> None:
        """The LAST packet, full and without immediate data, of a run whose others are taken."""
        responder, mtu = self.pair.responder, self._shared.payload.path_mtu
        delivered = responder.take_last(mtu, imm=None, ack_request=asks)
        if delivered is None:  # the message is longer: as it would be of a packet alone, that is the end
            self.arrived(Arrival(Opcode.RC_WRITE_LAST, responder.expected, 1, mtu, asks), now)
            return
        self.mind_reply(now)
        self._link.delivered(self.ends.index, delivered, now)

    def marked(self, packets: int, now: int) -> None:
        """So many packets came with the congestion mark and were not dropped."""
        if packets <= 0 or self.is_dead or not self.pair.marked(packets, now):
            return
        try:
            self._outlet.notify()
            if self._port is not None:
                self._port.charge_small(now)
        except (OSError, HostError) as error:
            self._link.broke(send_problem(error, self._shared.options.path_mtu))

    def arrived(self, arrival: Arrival, now: int) -> None:
        """Intact packets came, which the responder has not taken yet."""
        responder = self.pair.responder
        refused = responder.refused_packets
        responder.receive(arrival)
        if responder.refused_packets > refused:
            self.drop("refused", responder.refused_packets - refused)
        if responder.delivered:
            delivered = responder.delivered
            responder.delivered = []
            for one in delivered:
                self._link.delivered(self.ends.index, one, now)
        self.mind_reply(now)
        if responder.is_broken:  # said here, too: a peer that has nothing on its way takes no NAK
            self._link.broke("what came in turn continues no message, or is longer or shorter than it said")

    def mind_reply(self, now: int) -> None:
        """Owe a reply if the peer waits for one; send it if it has become time."""
        responder = self.pair.responder
        is_time = responder.unacknowledged >= self._ack_every or responder.is_refusing
        if not self._is_owing and (is_time or responder.is_urgent):
            self._owe(now)
        if is_time:
            self._shared.reply()

    def _owe(self, now: int) -> None:
        self._is_owing, self.owed_since = True, now
        self._shared.owing.append(self)

    def delivered(self, delivered: Delivered, now: int) -> None:
        """A message is complete."""
        self._link.delivered(self.ends.index, delivered, now)

    def answered(self, psn: Psn, syndrome: int, now: int) -> None:
        """An ACK or NAK came."""
        requester = self.pair.requester
        refused = requester.refused_packets
        messages = self.pair.acknowledge(psn, syndrome, now)
        if requester.refused_packets > refused:
            self.drop("refused")
        if messages:
            self._link.completed(self.ends.index, messages, now)
        if requester.failure is not None:
            self._link.broke(requester.failure)
        elif requester.backlog and not requester.is_full:
            self.send(now)
