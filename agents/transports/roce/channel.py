"""One queue pair on sockets: turns its runs into calls and what is received into arrivals."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from agents.clock import Clock
from agents.roce.headers import P_KEYS
from agents.roce.icrc import UdpPath
from agents.roce.messages import Arrival, ConnectionSettings, Delivered, Message, Run, Verb
from agents.roce.opcodes import MEANINGS, Opcode, Operation, Service
from agents.roce.packet import CNP_PAYLOAD, UDP_PORT
from agents.roce.psn import Psn, add, distance
from agents.roce.queue_pair import QueuePair
from agents.roce.requester import NEVER
from agents.roce.runs import BTH, Framing, Inspection, Payload, Pieces, Prediction, Staging
from agents.roce.segments import Segment, segments
from agents.transports.roce.ends import EPHEMERAL, Ends, packed, source_ports
from agents.transports.roce.options import ECN_CODE_POINTS, RoceOptions
from agents.transports.roce.port import PortPacer
from agents.transports.roce.sockets import (
    ControlMessages,
    Sender,
    Senders,
    cut_message,
    traffic_class_message,
)
from emulator.errors import HostError

_PORT_TRIES = 16
_KNOWN_PORTS = 64

_RETH = struct.Struct(">QII")
_RETH_IMM = struct.Struct(">QIII")
_IMM = struct.Struct(">I")
_AETH = struct.Struct(">I")
_HEADER_BYTES = {
    code: 12 + meaning.extension_bytes for code, meaning in MEANINGS.items() if meaning.service is Service.RC
}
_RETH_CODES = frozenset((Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_ONLY, Opcode.RC_READ_REQUEST))
_IMM_CODES = frozenset((Opcode.RC_SEND_LAST_IMM, Opcode.RC_SEND_ONLY_IMM, Opcode.RC_WRITE_LAST_IMM))
_WRITES = frozenset(code for code, meaning in MEANINGS.items() if code < 0x20 and meaning.operation is Operation.WRITE)
_NO_PAYLOAD = frozenset((Opcode.RC_READ_REQUEST, Opcode.RC_ACK))
_REFUSED = frozenset(
    code for code, meaning in MEANINGS.items() if meaning.operation in (Operation.ATOMIC, Operation.ATOMIC_ACK)
) | {Opcode.RC_SEND_LAST_INVALIDATE, Opcode.RC_SEND_ONLY_INVALIDATE}


@dataclass(slots=True)
class Shared:
    """What all channels of a transport have in common.

    Attributes:
        drops: packets that were received and not wanted, by reason.
        active: channels with packets on their way.
        owing: channels whose responder owes a reply.
    """

    options: RoceOptions
    clock: Clock
    senders: Senders
    payload: Payload
    staging: Staging
    inspection: Inspection
    buffer: memoryview
    drops: Counter[str]
    active: set[Channel]
    owing: list[Channel]
    cut: ControlMessages
    seed: int
    rkey: int
    is_cutting: bool = True

    def reply(self) -> None:
        """Send every reply that is owed: control's must not come after those of payload that it overtook."""
        if self.owing:
            owing, self.owing = self.owing, []
            for channel in owing:
                channel.reply()


class Owner(Protocol):
    """Whom a channel tells."""

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """A message from the peer is complete."""
        ...

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """The peer has these messages."""
        ...

    def broke(self, reason: str) -> None:
        """The connection is in error."""
        ...


class Channel:
    """One queue pair between two ranks."""

    __slots__ = (
        "_ack_every",
        "_elsewhere",
        "_has_alarm",
        "_is_owing",
        "_is_waiting",
        "_link",
        "_paths",
        "_port",
        "_prediction",
        "_shared",
        "_to",
        "_verified",
        "_verifiers",
        "drops",
        "ends",
        "is_dead",
        "owed_since",
        "packets",
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
    ) -> None:
        self._shared, self._link, self.ends, self._port = shared, link, ends, port
        self.pair = make()
        self._to = (ends.peer_host, UDP_PORT)
        self._paths: list[tuple[Framing, Sender]] = []
        self._verifiers: dict[int, Framing] = {}
        self._prediction = Prediction(opcode=Opcode.RC_WRITE_MIDDLE, dest_qp=ends.own_qpn)
        self._elsewhere = Prediction(opcode=Opcode.RC_WRITE_MIDDLE, dest_qp=ends.own_qpn)
        self._ack_every = max(1, settings.window_packets // 4)
        self._has_alarm = self._is_owing = self._is_waiting = self.is_dead = False
        self.owed_since = self._verified = 0
        self.packets = self.posted_bytes = self.posted_messages = 0
        self.drops: Counter[str] | None = None
        """Packets that came to this queue pair and were not wanted, by reason."""

    @property
    def source_port(self) -> int | None:
        """Where its packets come from; None: from several ports, or none has gone."""
        return self._paths[0][1].port if len(self._paths) == 1 else None

    # Sending.

    def post(self, message: Message) -> None:
        """Queue a message."""
        self.posted_bytes += message.size
        self.posted_messages += 1
        self.pair.requester.post(message)

    def send(self, now: int) -> None:
        """Send what may go now."""
        pair, most = self.pair, self._shared.payload.slots
        try:
            if self._port is not None:
                self._send_through(self._port, now)
            else:
                while (run := pair.next_run(now, most)) is not None:
                    self._send_run(run)
        except (OSError, HostError) as error:
            self._link.broke(_send_problem(error, self._shared.options.path_mtu))
            return
        if pair.requester.in_flight:
            self._shared.active.add(self)
        if pair.paced_until != NEVER and not self._has_alarm:
            self._has_alarm = True
            self._shared.clock.call_at(pair.paced_until, self._resume)

    def reply(self) -> None:
        """Send the ACK or NAK that is owed."""
        self._is_owing = False
        reply = self.pair.responder.take_reply()
        if reply is None or self.is_dead:
            return
        try:
            framing, sender = self._path(0)
            pieces = framing.lone(Opcode.RC_ACK, reply.psn, _AETH.pack(reply.syndrome << 24 | reply.msn))
            sender.send(pieces, self._to, self._ack_control())
            if self._port is not None:
                self._port.charge_small(self._shared.clock.now())
        except (OSError, HostError) as error:
            self._link.broke(_send_problem(error, self._shared.options.path_mtu))

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

    def _send_through(self, port: PortPacer, now: int) -> None:
        """Send while the port lets payload through; control need not wait."""
        is_control, most = self.ends.index == 0, min(self._shared.payload.slots, port.most_packets)
        while is_control or port.is_free(now):
            run = self.pair.next_run(now, most)
            if run is None:
                return
            port.charge(run, now)
            self._send_run(run)
        if self.pair.requester.backlog and not self._is_waiting:
            self._is_waiting = True
            port.wait(self._take_turn)
        self.pair.paced_until = NEVER  # the port says when

    def _take_turn(self, now: int) -> None:
        self._is_waiting = False
        if not self.is_dead:
            self.send(now)

    def _send_run(self, run: Run) -> None:
        message = run.message
        self.packets += run.packets
        framing, sender = self._path(message.first)
        if message.packets == 1 and message.verb is Verb.WRITE_IMM:
            extension = _RETH_IMM.pack(message.address, self._shared.rkey, message.size, message.imm)
            sender.send(
                framing.lone(
                    Opcode.RC_WRITE_ONLY_IMM, run.psn, extension, size=message.size, ack_request=run.ack_request
                ),
                self._to,
            )
            return
        for segment in segments(run, self._shared.payload.path_mtu):
            if segment.opcode == Opcode.RC_WRITE_MIDDLE:
                self._send_middles(segment, framing, sender)
            else:
                sender.send(self._lone(segment, message, framing), self._to)

    def _lone(self, segment: Segment, message: Message, framing: Framing) -> Pieces:
        extension = b""
        if segment.has_reth:
            extension = _RETH.pack(message.address, self._shared.rkey, message.size)
        if segment.has_imm:
            extension += _IMM.pack(message.imm)
        return framing.lone(
            segment.opcode,
            segment.psn,
            extension,
            slot=self._shared.payload.slot(segment.offset),
            size=segment.size,
            ack_request=segment.ack_request,
        )

    def _send_middles(self, segment: Segment, framing: Framing, sender: Sender) -> None:
        payload, psn, left = self._shared.payload, segment.psn, segment.packets
        slot = payload.slot(segment.offset)
        while left:
            count = min(left, payload.slots - slot)
            left -= count
            asks = segment.ack_request and not left
            self._send_slots(framing, sender, psn=psn, slot=slot, count=count, ack_request=asks)
            psn, slot = add(psn, count), 0

    def _send_slots(
        self, framing: Framing, sender: Sender, *, psn: Psn, slot: int, count: int, ack_request: bool
    ) -> None:
        shared = self._shared
        stride, opcode = shared.staging.stride, Opcode.RC_WRITE_MIDDLE
        if shared.is_cutting:
            view = framing.middles(opcode, psn, slot=slot, count=count, ack_request=ack_request, are_cut=True)
            try:
                call = shared.payload.per_call * stride
                for start in range(0, len(view), call):
                    sender.send((view[start : start + call],), self._to, shared.cut)
            except OSError as error:
                if not _is_about_cutting(error):
                    raise
                shared.is_cutting = False  # what went already is doubled: the peer drops that
            else:
                return
        view = framing.middles(opcode, psn, slot=slot, count=count, ack_request=ack_request, are_cut=False)
        for start in range(0, len(view), stride):
            sender.send((view[start : start + stride],), self._to)

    def _path(self, message_number: int) -> tuple[Framing, Sender]:
        paths = self._paths or self._open_paths()
        return paths[message_number % len(paths)] if len(paths) > 1 else paths[0]

    def _open_paths(self) -> list[tuple[Framing, Sender]]:
        shared, ends = self._shared, self.ends
        source, target = packed(ends.host), packed(ends.peer_host)
        for wanted in source_ports(shared.options.source_port, ends, seed=shared.seed):
            port, sender = _first_free(shared.senders, ends.host, wanted)
            framing = Framing(UdpPath(source, target, port), ends.peer_qpn, shared.staging)
            self._paths.append((framing, sender))
        return self._paths

    def _ack_control(self) -> ControlMessages:
        dscp = self._shared.options.ack_dscp
        return () if dscp < 0 else traffic_class_message(dscp << 2, is_v6=":" in self.ends.host)

    def drop(self, reason: str, count: int = 1) -> None:
        """Count packets that came and are not wanted."""
        self._shared.drops[reason] += count
        if self.drops is None:
            self.drops = Counter()
        self.drops[reason] += count

    def _notify(self) -> None:
        framing, sender = self._path(0)
        control = traffic_class_message(self._shared.options.cnp_dscp << 2, is_v6=":" in self.ends.host)
        sender.send(framing.notification(Opcode.CNP, CNP_PAYLOAD), self._to, control)

    # Receiving.

    def take_lone(self, size: int, port: int, bth: tuple[int, int, int, int, int], now: int) -> None:
        """Take the packet of `size` bytes at the start of the buffer."""
        opcode, flags, _, _, word = bth
        header = _HEADER_BYTES.get(opcode)
        if header is None or opcode in _REFUSED:
            if opcode == Opcode.CNP:
                self._take_notification(size, port, now)
            else:
                self.drop("opcode")
            return
        length = size - header - 4
        pad = flags >> 4 & 3
        if length < pad or size & 3 or (length and opcode in _NO_PAYLOAD):
            self.drop("length")
            return
        length -= pad
        if not self._is_intact(size, port, header=header, length=length, opcode=opcode, psn=word & 0xFFFFFF):
            return
        self.take(opcode, Psn(word & 0xFFFFFF), length, asks=word >> 31 == 1, now=now)

    def take(self, opcode: int, psn: Psn, length: int, *, asks: bool, now: int) -> None:
        """Take the intact packet at the start of the buffer."""
        buffer = self._shared.buffer
        if opcode == Opcode.RC_ACK:
            (aeth,) = _AETH.unpack_from(buffer, 12)
            self._acknowledged(self.pair.acknowledge(psn, aeth >> 24, now), now)
            return
        if opcode == Opcode.RC_WRITE_ONLY_IMM:
            self._take_write(psn, length, asks=asks, now=now)
            return
        if opcode not in _WRITES:
            self.drop("opcode")  # neither SEND nor READ is part of the profile
            return
        address = size = imm = 0
        if opcode in _RETH_CODES:
            address, rkey, size = _RETH.unpack_from(buffer, 12)
            if rkey != self._shared.rkey:
                self.drop("rkey")
                return
        elif opcode in _IMM_CODES:
            (imm,) = _IMM.unpack_from(buffer, 12)
        self._arrived(Arrival(opcode, psn, 1, length, asks, address, 0, size, imm), now)

    def _take_write(self, psn: Psn, length: int, *, asks: bool, now: int) -> None:
        address, rkey, size, imm = _RETH_IMM.unpack_from(self._shared.buffer, 12)
        if rkey != self._shared.rkey:
            self.drop("rkey")
        elif self.pair.responder.take_write(psn, size=length, length=size, ack_request=asks):
            self._mind_reply(now)
            self._link.delivered(self.ends.index, Delivered(Operation.WRITE, address, size, imm), now)
        else:
            self._arrived(Arrival(Opcode.RC_WRITE_ONLY_IMM, psn, 1, length, asks, address, 0, size, imm), now)

    def take_many(self, stride: int, count: int, port: int, now: int) -> None:
        """Take `count` packets of `stride` bytes from the start of the buffer."""
        shared, responder = self._shared, self.pair.responder
        headers = shared.inspection.headers(stride, count)
        predicted = self._prediction.headers(responder.expected, count)
        if headers != predicted and _without_ack_request(headers) != predicted:
            if not self._take_elsewhere(headers, stride, port, now):
                self._take_each(stride, count, port, now)
            return
        is_right = stride == shared.staging.stride and self._is_right(stride, count, port)
        if not (is_right and responder.take_middles(count)):
            self._take_each(stride, count, port, now)
            return
        if headers != predicted:
            responder.ack_requested = True
        self._mind_reply(now)

    def _take_elsewhere(self, headers: bytes, stride: int, port: int, now: int) -> bool:
        """MIDDLE packets in order among themselves, but not the next ones: the first one's ICRC stands for all."""
        shared, expected = self._shared, self.pair.responder.expected
        psn = Psn(int.from_bytes(headers[9:12]))
        count = len(headers) // BTH.size
        if stride != shared.staging.stride or not (shared.payload.is_constant or distance(expected, psn) > 0):
            return False
        if _without_ack_request(headers) != self._elsewhere.headers(psn, count):
            return False
        if not self._verifier(port).is_intact_in_full(shared.buffer[:stride]):
            return False
        asks = headers[-4] >= 0x80
        self._arrived(Arrival(Opcode.RC_WRITE_MIDDLE, psn, count, shared.payload.path_mtu, asks), now)
        return True

    def _take_each(self, stride: int, count: int, port: int, now: int) -> None:
        """Packet by packet, as though they had come so."""
        buffer = self._shared.buffer
        datagrams = [bytes(buffer[start : start + stride]) for start in range(0, stride * count, stride)]
        for datagram in datagrams:
            buffer[:stride] = datagram
            bth = BTH.unpack_from(buffer)
            if bth[1] & 0xF or bth[2] not in P_KEYS or bth[3] & 0xFFFFFF != self.ends.own_qpn:
                self.drop("header")
            elif not self.is_dead:
                self.take_lone(stride, port, bth, now)

    def marked(self, packets: int, now: int) -> None:
        """Packets came with the congestion mark."""
        if not self.is_dead and self.pair.marked(packets, now):
            self._notify()

    def _arrived(self, arrival: Arrival, now: int) -> None:
        responder = self.pair.responder
        responder.receive(arrival)
        if responder.delivered:
            delivered = responder.delivered
            responder.delivered = []
            for one in delivered:
                self._link.delivered(self.ends.index, one, now)
        self._mind_reply(now)

    def _mind_reply(self, now: int) -> None:
        """Owe a reply if the peer waits for one; send it if it has become time."""
        responder = self.pair.responder
        is_time = responder.unacknowledged >= self._ack_every or responder.is_refusing
        if not self._is_owing and (is_time or responder.is_urgent):
            self._is_owing, self.owed_since = True, now
            self._shared.owing.append(self)
        if is_time:
            self._shared.reply()

    def _acknowledged(self, messages: Sequence[Message], now: int) -> None:
        requester = self.pair.requester
        if messages:
            self._link.completed(self.ends.index, messages, now)
        if requester.failure is not None:
            self._link.broke(requester.failure)
        elif requester.backlog:
            self.send(now)

    def _take_notification(self, size: int, port: int, now: int) -> None:
        packet = self._shared.buffer[:size]
        if size != 12 + len(CNP_PAYLOAD) + 4 or not self._verifier(port).is_intact_in_full(packet):
            self.drop("icrc")
            return
        self.pair.notified(now)

    # Verifying.

    def _verifier(self, port: int) -> Framing:
        verifier = self._verifiers.get(port)
        if verifier is None:
            if len(self._verifiers) >= _KNOWN_PORTS:
                self._verifiers.clear()
            path = UdpPath(packed(self.ends.peer_host), packed(self.ends.host), port)
            verifier = self._verifiers[port] = Framing(path, self.ends.own_qpn, self._shared.staging)
        return verifier

    def _is_intact(self, size: int, port: int, *, header: int, length: int, opcode: int, psn: int) -> bool:
        """Whether a lone packet's ICRC is right; counts it where not. Payload is compared as often as was promised."""
        shared, responder = self._shared, self.pair.responder
        packet = shared.buffer[:size]
        slot, knows_slot = 0, True
        if length and opcode not in (Opcode.RC_WRITE_ONLY_IMM, Opcode.RC_WRITE_ONLY, Opcode.RC_WRITE_FIRST):
            slot = shared.payload.slot(responder.received_bytes // shared.payload.path_mtu)
            knows_slot = psn == responder.expected
        if not self._verifier(port).is_intact(packet, header_bytes=header, slot=slot, size=length):
            self.drop("icrc")
            return False
        if not (length and knows_slot and (self._is_sample() or not shared.payload.is_constant)):
            return True
        if bytes(packet[header : header + length]) == bytes(shared.payload.take(slot, length)):
            return True
        self.drop("payload")
        return False

    def _is_sample(self) -> bool:
        self._verified += 1
        return self._verified % self._shared.options.verify_every == 0

    def _is_right(self, stride: int, count: int, port: int) -> bool:
        """Whether payload and ICRC of predicted MIDDLE packets are right.

        Random payload is compared always, a constant one where this is a sample; the first ICRC where it is a sample.
        """
        shared, payload, is_sample = self._shared, self._shared.payload, self._is_sample()
        if payload.is_constant and not is_sample:
            return True
        first = payload.slot(self.pair.responder.received_bytes // payload.path_mtu)
        expected = payload.rows[first : first + count]
        if len(expected) < count:
            expected = np.concatenate((expected, payload.rows[: count - len(expected)]))
        if (shared.inspection.rows(stride, count)[:, 12:-4] != expected).any():
            return False
        return not is_sample or self._verifier(port).is_intact_in_full(shared.buffer[:stride])


def _first_free(senders: Senders, host: str, port: int) -> tuple[int, Sender]:
    """A sending socket at this port, or at the next one that nobody else has."""
    problem: HostError | None = None
    for attempt in range(_PORT_TRIES):
        candidate = EPHEMERAL | (port + attempt & 0x3FFF)
        try:
            sender = senders.get(host, candidate)
            return sender.port, sender
        except HostError as error:
            problem = error
    assert problem is not None
    raise problem


def _without_ack_request(headers: bytes) -> bytes:
    """BTHs on end, the last of which may ask for an acknowledgement."""
    masked = bytearray(headers)
    masked[-4] &= 0x7F
    return bytes(masked)


def _is_about_cutting(error: OSError) -> bool:
    return error.errno in (22, 5, 95, 92)  # EINVAL, EIO, EOPNOTSUPP, ENOPROTOOPT


def _send_problem(error: OSError | HostError, path_mtu: int) -> str:
    if isinstance(error, HostError):
        return str(error)
    if error.errno == 90:  # EMSGSIZE
        return f"packets of path MTU {path_mtu} do not fit the interface: choose a smaller --path-mtu"
    return f"cannot send: {error.strerror}"


def shared_state(
    *, options: RoceOptions, clock: Clock, senders: Senders, seed: int, rkey: int, payload_seed: int | None
) -> Shared:
    """What the channels of one transport share."""
    payload = Payload(path_mtu=options.path_mtu, seed=payload_seed)
    staging = Staging(payload)
    buffer = bytearray(1 << 16)
    return Shared(
        options=options,
        clock=clock,
        senders=senders,
        payload=payload,
        staging=staging,
        inspection=Inspection(buffer),
        buffer=memoryview(buffer),
        drops=Counter(),
        active=set(),
        owing=[],
        cut=cut_message(staging.stride),
        seed=seed,
        rkey=rkey,
    )


def data_traffic_class(options: RoceOptions) -> int:
    """TOS or traffic class of data."""
    return options.dscp << 2 | ECN_CODE_POINTS[options.ecn]
