"""Flows over ZeroMQ: the sending and the receiving end, their messages, windows and acknowledgements.

A flow is a directed pair of ranks with its own TCP connection. All flows of an agent share one ROUTER socket, which
identifies connections by name: `>` + run + src + dst if this agent opened it, `<` + run + src + dst if a peer did (the
peer sends that name). The sender sends

    header: tag u64, size u64 (of the whole transfer), sequence u64, kind u8
    payload, in a frame of its own, unless the transfer is a control transfer

and the receiver sends acknowledgements: how many payload and control messages have arrived so far, u64 each. Payload is
constant bytes; it is received and dropped without creating a Python object.
"""

from __future__ import annotations

import errno
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from struct import Struct
from typing import Protocol

import zmq

from agents.transports.base import EndpointEvents
from emulator.control.observations import FlowCounters

MORE = int(zmq.SNDMORE) | int(zmq.NOBLOCK)
LAST = int(zmq.NOBLOCK)

CONTROL, PART, END = range(3)
"""Kinds of message: a control transfer, a piece of payload, the piece that ends its transfer."""

HEADER = Struct("<QQQB")
ACKNOWLEDGEMENT = Struct("<QQ")
_NAME = Struct(">c8sII")

WINDOW_MESSAGES = 1024
"""Maximum unacknowledged messages per flow; the window in bytes is reached first unless messages are small."""

KEPT_FRAMES = 16
"""Payload frames kept for reuse, one per size: sizes repeat from step to step."""


def outgoing_name(run: bytes, src: int, dst: int) -> bytes:
    """The sender's name of a flow's connection; `run` has 8 bytes."""
    return _NAME.pack(b">", run, src, dst)


def incoming_name(run: bytes, src: int, dst: int) -> bytes:
    """The receiver's name of a flow's connection."""
    return _NAME.pack(b"<", run, src, dst)


def parse_incoming_name(name: bytes, run: bytes) -> tuple[int, int] | None:
    """(src, dst) of a connection that a peer opened; None if it does not belong to this run."""
    if len(name) != _NAME.size:
        return None
    kind, its_run, src, dst = _NAME.unpack(name)
    return (src, dst) if kind == b"<" and its_run == run else None


class FlowOwner(Protocol):
    """The endpoint that a flow belongs to, as far as the flow uses it."""

    @property
    def rank(self) -> int:
        """The endpoint's rank."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether it has its directory and has delivered what arrived before."""
        ...

    @property
    def events(self) -> EndpointEvents:
        """The receiver of events; set once live."""
        ...

    @property
    def arrived(self) -> Callable[[int, int, int, int], None]:
        """Called with peer, tag, size and time of a complete transfer."""
        ...

    def fail(self, peer: int, reason: str) -> None:
        """Give up on `peer` and report it later from the event loop."""
        ...


class ZmqExchange:
    """The socket that all flows of an agent share, and the flows that have something to send at the end of a pass.

    Args:
        message_bytes: maximum payload per message.
        window_bytes: unacknowledged payload per flow, approximately.
        budget_bytes: unacknowledged payload of all flows together, approximately: it bounds the receivers' memory.

    Attributes:
        unacknowledged: payload of all flows on its way, bytes.
        ready: flows that have something to send and may send it.
        starved: flows that wait for the budget.
        owing: flows that have something to acknowledge.
    """

    def __init__(self, socket: zmq.Socket[bytes], *, message_bytes: int, window_bytes: int, budget_bytes: int) -> None:
        self.send = socket.send
        self.receive = socket.recv
        self.receive_into = socket.recv_into
        self.message_bytes, self.window_bytes, self.budget_bytes = message_bytes, window_bytes, budget_bytes
        self.unacknowledged = 0
        self.ready: list[OutFlow] = []
        self.starved: deque[OutFlow] = deque()
        self.owing: list[InFlow] = []
        self._payload = memoryview(bytes(range(256)) * -(-message_bytes // 256))
        self.frame = lru_cache(maxsize=KEPT_FRAMES)(self._make_frame)

    def _make_frame(self, size: int) -> zmq.Frame:
        # Copied once, then sent by reference any number of times: ZeroMQ need not report when it has sent a frame.
        return zmq.Frame(self._payload[:size], copy=True)

    def settle(self) -> None:
        """Send what flows have ready and the acknowledgements they owe."""
        if self.starved and self.unacknowledged < self.budget_bytes:
            for _ in range(len(self.starved)):
                self.starved.popleft().become_ready()
        ready, self.ready = self.ready, []
        for flow in ready:
            flow.send_ready()
        owing, self.owing = self.owing, []
        for incoming in owing:
            incoming.acknowledge()


class OutFlow:
    """The sending end: queues transfers, cuts them into messages and limits the unacknowledged ones.

    Attributes:
        broken: why nothing can be sent any more; None: the flow works.
    """

    __slots__ = (
        "_acknowledged",
        "_acknowledged_ns",
        "_control_acknowledged",
        "_control_in_flight",
        "_control_queue",
        "_control_sent",
        "_exchange",
        "_in_flight",
        "_in_flight_bytes",
        "_is_ready",
        "_left",
        "_owner",
        "_queue",
        "_sent",
        "broken",
        "counters",
        "name",
        "peer",
    )

    def __init__(self, exchange: ZmqExchange, owner: FlowOwner, *, peer: int, name: bytes) -> None:
        self._exchange, self._owner, self.peer, self.name = exchange, owner, peer, name
        self.counters = FlowCounters(src=owner.rank, dst=peer)
        self.broken: str | None = None
        self._queue: deque[tuple[int, int]] = deque()  # tag, size
        self._left = 0  # bytes of the first transfer in the queue that are still to be sent
        self._control_queue: list[int] = []
        self._in_flight: deque[tuple[int, int | None]] = deque()  # bytes of a message, tag where it ends a transfer
        self._in_flight_bytes = 0
        self._control_in_flight: deque[int] = deque()
        self._sent = self._acknowledged = 0
        self._control_sent = self._control_acknowledged = 0
        self._is_ready = False
        self._acknowledged_ns = 0  # when the last acknowledgement came, or nothing was outstanding

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that the receiver has acknowledged."""
        return self.counters.bytes - self._in_flight_bytes

    @property
    def silent_since_ns(self) -> int | None:
        """Since when the receiver owes an acknowledgement without sending one; None: it owes none."""
        return self._acknowledged_ns if self._in_flight or self._control_in_flight else None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued and nothing is unacknowledged."""
        return not (self._queue or self._control_queue or self._in_flight or self._control_in_flight)

    def post(self, tag: int, size: int) -> None:
        """Queue a transfer."""
        if size:
            if not self._queue:
                self._left = size
            self._queue.append((tag, size))
        else:
            self._control_queue.append(tag)
        self.become_ready()

    def become_ready(self) -> None:
        """Have the exchange call `send_ready` when it next sends."""
        if not self._is_ready:
            self._is_ready = True
            self._exchange.ready.append(self)

    def send_ready(self) -> None:
        """Send what the window and the budget allow, control messages first."""
        self._is_ready = False
        if not (self._in_flight or self._control_in_flight):
            self._acknowledged_ns = time.monotonic_ns()
        try:
            if self._control_queue:
                self._send_control()
            if self._queue:
                self._send_payload()
        except zmq.ZMQError as error:
            self._owner.fail(self.peer, f"cannot send: {error}")

    def _send_control(self) -> None:
        send, name = self._exchange.send, self.name
        for tag in self._control_queue:
            send(name, MORE)
            send(HEADER.pack(tag, 0, self._control_sent, CONTROL), LAST)
            self._control_sent += 1
        self._control_in_flight.extend(self._control_queue)
        self.counters.messages += len(self._control_queue)
        self._control_queue.clear()

    def _send_payload(self) -> None:
        exchange, queue, in_flight = self._exchange, self._queue, self._in_flight
        while queue and self._in_flight_bytes < exchange.window_bytes and len(in_flight) < WINDOW_MESSAGES:
            if exchange.unacknowledged >= exchange.budget_bytes:
                exchange.starved.append(self)
                return
            self._send_message(exchange, *queue[0])
            if not self._left:
                queue.popleft()
                self._left = queue[0][1] if queue else 0

    def _send_message(self, exchange: ZmqExchange, tag: int, size: int) -> None:
        cut = min(self._left, exchange.message_bytes)
        self._left -= cut
        ends = not self._left
        exchange.send(self.name, MORE)
        exchange.send(HEADER.pack(tag, size, self._sent, END if ends else PART), MORE)
        exchange.send(exchange.frame(cut), LAST, copy=False)
        self._sent += 1
        self._in_flight.append((cut, tag if ends else None))
        self._in_flight_bytes += cut
        exchange.unacknowledged += cut
        self.counters.bytes += cut
        self.counters.messages += 1

    def receive(self, scratch: bytearray) -> None:
        """Receive an acknowledgement from the socket."""
        size = self._exchange.receive_into(scratch, flags=LAST)
        if self.broken is not None:
            return
        payload, control = ACKNOWLEDGEMENT.unpack_from(scratch)
        if size != ACKNOWLEDGEMENT.size or payload > self._sent or control > self._control_sent:
            self._owner.fail(self.peer, "it acknowledged messages that were never sent")
            return
        now = self._acknowledged_ns = time.monotonic_ns()
        if control > self._control_acknowledged:
            self._take_control(control, now)
        if payload > self._acknowledged:
            self._take_payload(payload, now)

    def _take_control(self, control: int, now: int) -> None:
        peer, acknowledged = self.peer, self._owner.events.acknowledged
        done, self._control_acknowledged = control - self._control_acknowledged, control
        for _ in range(done):
            acknowledged(peer, self._control_in_flight.popleft(), now)

    def _take_payload(self, payload: int, now: int) -> None:
        messages = [self._in_flight.popleft() for _ in range(payload - self._acknowledged)]
        self._acknowledged = payload
        self._forget(sum(size for size, _ in messages))
        if self._queue:
            self.become_ready()
        for _, tag in messages:
            if tag is not None:
                self._owner.events.acknowledged(self.peer, tag, now)

    def _forget(self, size: int) -> None:
        self._in_flight_bytes -= size
        self._exchange.unacknowledged -= size

    def lose(self, reason: str) -> None:
        """The connection is lost: a failure now if something is outstanding, else at the next post."""
        if self.is_idle:
            self.drop(reason)
        else:
            self._owner.fail(self.peer, reason)

    def snapshot(self) -> FlowCounters:
        """A copy of the counters."""
        return replace(self.counters)

    def drop(self, reason: str) -> None:
        """Stop sending, drop everything queued and outstanding, and release its budget."""
        self.broken = reason
        self._forget(self._in_flight_bytes)
        for things in (self._queue, self._control_queue, self._in_flight, self._control_in_flight):
            things.clear()


class InFlow:
    """The receiving end: checks the sequence, reports what arrived, acknowledges once per pass."""

    __slots__ = ("_control", "_exchange", "_is_owing", "_owner", "_payload", "is_ignored", "name", "peer")

    def __init__(self, exchange: ZmqExchange, owner: FlowOwner, *, peer: int, name: bytes) -> None:
        self._exchange, self._owner, self.peer, self.name = exchange, owner, peer, name
        self._payload = self._control = 0  # messages received
        self._is_owing = False
        self.is_ignored = False

    def receive(self, scratch: bytearray) -> None:
        """Receive a message from the socket."""
        exchange = self._exchange
        header_size = exchange.receive_into(scratch, flags=LAST)
        tag, size, sequence, kind = HEADER.unpack_from(scratch)
        if kind == CONTROL:
            expected, self._control = self._control, self._control + 1
        else:
            exchange.receive_into(scratch, flags=LAST)  # truncated to the scratch buffer: no copy of the payload
            expected, self._payload = self._payload, self._payload + 1
        if self.is_ignored:
            return
        if sequence != expected or header_size != HEADER.size:
            self._owner.fail(self.peer, f"message {expected} is missing")
            return
        if not self._is_owing:
            self.owe()
        if kind != PART:
            self._owner.arrived(self.peer, tag, size, time.monotonic_ns())

    def owe(self) -> None:
        """Acknowledge at the end of this pass."""
        self._is_owing = True
        self._exchange.owing.append(self)

    def acknowledge(self) -> None:
        """Acknowledge what has arrived, once the endpoint is live. A sender that is gone is ignored."""
        self._is_owing = False
        if self.is_ignored or not self._owner.is_live:
            return
        try:
            self._exchange.send(self.name, MORE)
            self._exchange.send(ACKNOWLEDGEMENT.pack(self._payload, self._control), LAST)
        except zmq.ZMQError as error:
            if error.errno != errno.EHOSTUNREACH:
                self._owner.fail(self.peer, f"cannot acknowledge: {error}")
