"""A queue pair on sockets: when it sends, how it handles received packets, and which replies it owes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from agents.nic.context import Context
from agents.nic.port import PortPacer
from agents.nic.send_problem import send_problem
from agents.nic.timeline import QueuePairBins
from agents.nic.transmitter import Transmitter
from emulator.errors import HostError
from emulator.roce.connection.messages import Delivered, Message
from emulator.roce.connection.qp_facts import QpFacts, packed
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.connection.receiver import Receiver
from emulator.roce.connection.send_queue import NEVER
from emulator.roce.tuning import CALLS_AT_ONCE
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.psn import ZERO_PSN, Psn

_PROBLEMS: Final = (OSError, HostError)
_ACCESS: Final = "the peer accessed memory with a key, range or operation that it was not given"
_INVALID: Final = "a packet in order does not continue a message, or the message is longer or shorter than announced"


def _refusal(syndrome: Syndrome | None) -> str:
    """Why this end has refused a request for good."""
    return _ACCESS if syndrome is Syndrome.REMOTE_ACCESS else _INVALID


class QueuePairOwner(Protocol):
    """Receives the events of queue pairs; `index` is the one that the owner gave the queue pair."""

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """Messages from the peer are complete."""
        ...

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """The peer has acknowledged these messages."""
        ...

    def broke(self, reason: str) -> None:
        """The connection has failed."""
        ...


class PacketReceiver(Protocol):
    """Takes the packets that come to a queue pair; see `emulator.roce.connection.receiver.Receiver.receive`."""

    def receive(self, packets: memoryview, stride: int, port: int, now: int) -> Sequence[memoryview]:
        """Receive packets back to back, each of `stride` bytes; returns those of other queue pairs."""
        ...


class LocalPeer(Protocol):
    """A NIC of the same process."""

    host: str
    port: PortPacer | None

    def drain(self) -> None:
        """Receive what waits in the socket."""
        ...

    def catch_up(self) -> None:
        """Receive what waits in the socket, once the NIC has started."""
        ...


class AgendaItem(Protocol):
    """What passes ask of a queue pair, see Channel."""

    is_dead: bool
    owed_since: int
    local_peer: LocalPeer | None

    @property
    def host(self) -> str:
        """The address of this end."""
        ...

    @property
    def is_idle(self) -> bool:
        """Everything posted is acknowledged."""
        ...

    @property
    def deadline_ns(self) -> int:
        """When an answer is overdue."""
        ...

    def defer_timeout(self, duration_ns: int, now: int) -> None:
        """See Requester."""
        ...

    def handle_timer(self, now: int) -> None:
        """See Channel."""
        ...

    def reply(self) -> None:
        """See Channel."""
        ...

    def send_more(self, now: int, turns: int) -> None:
        """See Channel."""
        ...


@dataclass(slots=True)
class Agenda:
    """The work of the passes of a process.

    Attributes:
        active: queue pairs with packets in flight.
        owing: queue pairs that owe a reply.
        unfinished: queue pairs to local peers that may have more to send.
    """

    active: set[AgendaItem] = field(default_factory=set)
    owing: list[AgendaItem] = field(default_factory=list)
    unfinished: deque[AgendaItem] = field(default_factory=deque)

    def reply(self) -> None:
        """Send all replies that are owed: an ACK of control must not follow those of payload that it overtook."""
        if self.owing:
            owing, self.owing = self.owing, []
            for channel in owing:
                channel.reply()


@dataclass(slots=True, eq=False)
class Channel:
    """One queue pair.

    Attributes:
        context, agenda: of the process.
        owner: receives the events.
        facts: both ends.
        pair: the protocol.
        index: the owner's name for it.
        is_control: what it sends does not wait for the port.
        receiver: takes what comes to it; None: one that knows the payload of the peer.
        transmitter: sends what it is given; None: one of the reliable connection.
        port: paces what is sent; None: no pacing.
        local_peer: the peer, if it is in the same process and no port paces.
        calls_at_once: full calls to receive together, few enough that an acknowledgement does not wait for more.
        bins, bin_ends_ns: what it carries by time, and when the present bin ends; None, NEVER: it is not recorded.
    """

    context: Context
    agenda: Agenda
    owner: QueuePairOwner
    facts: QpFacts
    pair: QueuePair
    index: int = 0
    is_control: bool = False
    receiver: PacketReceiver | None = None
    transmitter: Transmitter | None = None
    port: PortPacer | None = None
    local_peer: LocalPeer | None = None
    calls_at_once: int = field(init=False)
    is_dead: bool = False
    owed_since: int = 0
    posted_bytes: int = 0
    posted_messages: int = 0
    bins: QueuePairBins | None = None
    bin_ends_ns: int = NEVER
    _transmitter: Transmitter = field(init=False)
    _receiver: PacketReceiver = field(init=False)
    _is_free: bool = field(init=False)  # only the window delays what is sent
    _has_alarm: bool = False
    _has_more: bool = False
    _is_owing: bool = False
    _is_waiting: bool = False
    _ready: list[Message] = field(default_factory=list)  # sent as from _ready_psn on, at the end of the batch
    _ready_psn: Psn = ZERO_PSN

    def __post_init__(self) -> None:
        context, facts = self.context, self.facts
        self._transmitter = self.transmitter or Transmitter(context, facts)
        self._receiver = self.receiver or Receiver(
            self.pair,
            context.payload,
            source=packed(facts.peer_host),
            destination=packed(facts.host),
            qpn=facts.qpn,
            rkey=facts.rkey,
            verify_every=context.options.verify_every,
        )
        self.calls_at_once = max(1, min(CALLS_AT_ONCE, self.pair.settings.ack_interval // context.payload.per_call))
        self._is_free = self.port is None and not self.pair.is_paced
        if self.port is not None:
            self.local_peer = None

    @property
    def host(self) -> str:
        """See AgendaItem."""
        return self.facts.host

    @property
    def is_idle(self) -> bool:
        """See AgendaItem."""
        return self.pair.requester.is_idle

    @property
    def deadline_ns(self) -> int:
        """See AgendaItem."""
        return self.pair.requester.deadline_ns

    def defer_timeout(self, duration_ns: int, now: int) -> None:
        """See AgendaItem."""
        self.pair.requester.defer_timeout(duration_ns, now)

    @property
    def source_port(self) -> int | None:
        """UDP source port of its packets; None if there are several, or nothing has been sent."""
        return self._transmitter.source_port

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that the peer has acknowledged."""
        return self.posted_bytes - self.pair.requester.unacknowledged_bytes

    # Sending.

    def post(self, message: Message) -> None:
        """Queue a message. Its key becomes its number, which selects the source port."""
        self._count(message)
        self.pair.requester.post(message)

    def post_single(self, message: Message, ready: list[Channel], now: int) -> bool:
        """Queue a WRITE of one packet with immediate data, which leaves at the end of the batch if the queue is empty.

        Args:
            message: the WRITE.
            ready: channels with such messages; this one is added.
            now: the time, ns.

        Returns:
            Whether it leaves at the end of the batch.
        """
        psn = self.pair.requester.start(message, now) if self._is_free and not self._has_more else None
        if psn is None:
            self.post(message)
            return False
        self._count(message)
        if not self._ready:
            ready.append(self)
            self._ready_psn = psn
        self._ready.append(message)
        return True

    def _count(self, message: Message) -> None:
        message.key = self.posted_messages
        self.posted_bytes += message.size
        self.posted_messages += 1

    def send_ready(self) -> None:
        """Send the single packets that are ready."""
        ready, self._ready = self._ready, []
        if self.is_dead or not ready:
            return
        self.agenda.active.add(self)
        try:
            self._transmitter.writes(self._ready_psn, ready)
        except _PROBLEMS as error:
            self._fail(error)

    def send(self, now: int, turns: int = 1) -> None:
        """Send what the window allows; to a local peer at most `turns` turns, between which the peer receives."""
        if self._ready:
            self.send_ready()
        if self.is_dead:
            return
        pair = self.pair
        try:
            if self.port is not None:
                self._send_paced(self.port, now)
            elif self.local_peer is not None:
                self._send_local(self.local_peer, now, turns)
            else:
                most = max(pair.settings.ack_interval, 2 * self.context.staging.slots)
                while (run := pair.next_run(now, most)) is not None:
                    self._transmitter.send_run(run)
        except _PROBLEMS as error:
            self._fail(error)
        if self.is_dead:
            return
        if pair.requester.in_flight:
            self.agenda.active.add(self)
        if pair.paced_until != NEVER and not self._has_alarm:
            self._has_alarm = True
            self.context.clock.call_at(pair.paced_until, self._on_alarm)

    def send_more(self, now: int, turns: int) -> None:
        """Continue after the last turn. Not to be called while a reception is handled: the peer reads here."""
        self._has_more = False
        if not self.is_dead:
            self.send(now, turns)

    def _send_local(self, peer: LocalPeer, now: int, turns: int) -> None:
        """Send a turn at a time, which the peer reads from the cache of the core; the rest leaves in a later pass."""
        if self._has_more:
            return
        turn = self.context.payload.slots
        left, since = turn * turns, 0
        self._has_more = True  # new packets for the peer wait: earlier ones have not left yet
        try:
            while left > 0 and (run := self.pair.next_run(now, max(left, turn))) is not None:
                if turns == 1:
                    self._transmitter.send_run(run)
                else:
                    for _ in self._transmitter.turns(run, turn):
                        peer.catch_up()
                        if self.is_dead:
                            return
                left -= run.packets
                since += run.packets
                if turns > 1 and since >= turn:
                    since = 0
                    peer.catch_up()
                if self.is_dead:
                    return
        finally:
            self._has_more = False
        if left <= 0 and self.pair.requester.backlog:
            self._has_more = True
            self.agenda.unfinished.append(self)

    def _send_paced(self, port: PortPacer, now: int) -> None:
        """Send while the port is free; control does not wait for it, unless the machine's owner limits it."""
        is_control, most = self.is_control and port.limit is None, min(self.context.payload.slots, port.most_packets)
        while is_control or port.is_free(now):
            run = self.pair.next_run(now, most)
            if run is None:
                return
            port.charge(run, now)
            self._transmitter.send_run(run)
        if self.pair.requester.backlog and not self._is_waiting:
            self._is_waiting = True
            port.wait(self._on_turn)
        self.pair.paced_until = NEVER  # the port calls back

    def _on_turn(self, now: int) -> None:
        self._is_waiting = False
        self.send(now)

    def _on_alarm(self) -> None:
        self._has_alarm = False
        self.send(self.context.clock.now())

    def reply(self) -> None:
        """Send what is owed: READ responses, then the ACK or NAK."""
        self._is_owing = False
        responder = self.pair.responder
        if responder.owes_responses:
            self._respond()
        reply = responder.take_reply()
        if reply is not None:
            self._send_small(lambda: self._transmitter.reply(reply))

    def _respond(self) -> None:
        """Send READ responses, as many as fit a turn; the rest leaves in a later pass."""
        run = self.pair.responder.next_response(self.context.payload.slots)
        if run is not None:
            self._send_small(lambda: self._transmitter.respond(run))
        if self.pair.responder.owes_responses and not self.is_dead:
            self._is_owing = True
            self.agenda.owing.append(self)
            self.agenda.unfinished.append(self)

    def _send_small(self, send: Callable[[], None]) -> None:
        """Send a packet that does not wait for the port."""
        if self.is_dead:
            return
        try:
            send()
        except _PROBLEMS as error:
            self._fail(error)
        else:
            if self.port is not None:
                self.port.charge_small(self.context.clock.now())

    def handle_timer(self, now: int) -> None:
        """Handle a timeout: no acknowledgement came in time."""
        if now >= self.bin_ends_ns:
            self._turn_bin(now)
        requester = self.pair.requester
        requester.handle_timer(now)
        if requester.failure is not None:
            self._gave_up(requester.failure, now)
        else:
            self.send(now)

    def _gave_up(self, reason: str, now: int) -> None:
        """Retries are exhausted."""
        self.owner.broke(reason)

    def close(self) -> None:
        """Stop sending."""
        self.is_dead = True
        self.agenda.active.discard(self)

    def _fail(self, error: OSError | HostError) -> None:
        path_mtu, has_sent = self.context.options.path_mtu, self.acknowledged_bytes > 0
        self.owner.broke(send_problem(error, self.facts, path_mtu=path_mtu, has_sent=has_sent))

    # Receiving.

    def receive(
        self, packets: memoryview, stride: int, port: int, now: int, is_marked: bool = False
    ) -> Sequence[memoryview]:
        """Receive packets and act on them: reply, deliver, complete, continue to send.

        Args:
            packets, stride, port, now: as for `Receiver.receive`.
            is_marked: a switch marked the packets (ECN).

        Returns:
            Packets of other queue pairs.
        """
        if now >= self.bin_ends_ns:
            self._turn_bin(now)
        pair = self.pair
        dropped = pair.drops.total() if is_marked else 0
        others = self._receiver.receive(packets, stride, port, now)
        if pair.completed is not None:
            completed, pair.completed = pair.completed, None
            self._answered(completed, now)
            if len(packets) == stride and not is_marked:  # a single ACK: nothing for the responder
                return others
        responder = pair.responder
        if not self._is_owing and responder.is_urgent:
            self._owe(now)
        if responder.is_reply_due:
            self._owe(now)
            self.agenda.reply()
        if responder.delivered:
            delivered, responder.delivered = responder.delivered, []
            deliver, index = self.owner.delivered, self.index
            for one in delivered:
                deliver(index, one, now)
            if responder.ack_requested and len(packets) > stride and delivered[-1].messages == 1:
                self.agenda.reply()  # the sender of several packets waits; what the delivery posted has left already
        if responder.is_broken:  # reported at this end as well: a peer with nothing in flight ignores the NAK
            self.owner.broke(_refusal(responder.broken_by))
        if is_marked:
            self._marked(-(-len(packets) // stride) - len(others) - (pair.drops.total() - dropped), now)
        return others

    def _turn_bin(self, now: int) -> None:
        if self.bins is not None:
            self.bin_ends_ns = self.bins.turn(now)

    def _owe(self, now: int) -> None:
        if not self._is_owing:
            self._is_owing, self.owed_since = True, now
            self.agenda.owing.append(self)

    def _answered(self, completed: Sequence[Message], now: int) -> None:
        requester = self.pair.requester
        if completed:
            self.owner.completed(self.index, completed, now)
        if requester.failure is not None:
            self.owner.broke(requester.failure)
        elif requester.backlog and not requester.is_full:
            self.send(now)

    def _marked(self, packets: int, now: int) -> None:
        """Handle packets with a congestion mark that were not dropped; send a CNP if one is due."""
        if packets > 0 and not self.is_dead and self.pair.marked(packets, now):
            self._send_small(self._transmitter.notify)
