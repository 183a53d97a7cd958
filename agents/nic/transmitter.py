"""Sends the messages, replies and notifications of a queue pair as calls on sockets."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from agents.nic.context import Context
from agents.nic.sockets import Sender, Senders, traffic_class_message
from agents.nic.system_calls import cut_message
from emulator.errors import HostError
from emulator.roce.connection.messages import AtomicResponse, Message, PacketRun, Reply, ResponseRun, Verb
from emulator.roce.connection.qp_facts import QpFacts, packed
from emulator.roce.constants import FIRST_SOURCE_PORT, UDP_PORT
from emulator.roce.wire.framing import (
    Framing,
    Opcodes,
    Segments,
    atomic_response,
    message_segments,
    read_request,
    response_segments,
)
from emulator.roce.wire.headers import Buffer
from emulator.roce.wire.icrc import UdpPath
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import Psn, add

_PORT_TRIES: Final = 16
_READ: Final = int(Opcode.RC_READ_REQUEST)
_ATOMIC_ACK: Final = int(Opcode.RC_ATOMIC_ACK)
_READ_VERB: Final = Verb.READ
_WRITE_IMM: Final = Verb.WRITE_IMM
_ALIKE: Final = attrgetter("size", "address", "imm")
_NOT_CUTTING: Final = (errno.EINVAL, errno.EIO, errno.EOPNOTSUPP, errno.ENOPROTOOPT)

_Path: TypeAlias = tuple[Framing, Sender]


class _Slice(NamedTuple):
    """Staged packets of a run: MIDDLE packets, the last one possibly LAST; fields as in `Framing.middles`."""

    psn: Psn
    slot: int
    packets: int
    ack_request: bool
    ends: bool

    def after(self, packets: int) -> _Slice:
        """The slice without its first `packets`."""
        psn, slot, count, ack_request, ends = self
        return _Slice(add(psn, packets), slot + packets, count - packets, ack_request, ends)


class _Train(NamedTuple):
    """Consecutive packets of one message: `packets` of `total` from `offset` on; `message`: asks for a time stamp."""

    segments: Segments
    psn: Psn
    offset: int
    packets: int
    total: int
    last_bytes: int
    ack_request: bool = False
    message: Message | None = None

    def part(self, start: int, end: int) -> _Train:
        """Its packets `start` to `end`, the latter excluded."""
        asks = self.ack_request and end == self.packets
        return self._replace(
            psn=add(self.psn, start), offset=self.offset + start, packets=max(0, end - start), ack_request=asks
        )


class Transmitter:
    """Sends the packets of one queue pair.

    Every method raises OSError or HostError if it fails; see `send_problem`.
    """

    __slots__ = ("_context", "_facts", "_paths", "_to")

    def __init__(self, context: Context, facts: QpFacts) -> None:
        self._context, self._facts = context, facts
        self._to = (facts.peer_host, UDP_PORT)
        self._paths: list[_Path] = []

    @property
    def source_port(self) -> int | None:
        """UDP source port; None if there are several, or nothing has been sent."""
        return self._paths[0][1].port if len(self._paths) == 1 else None

    def writes(self, psn: Psn, messages: Sequence[Message]) -> None:
        """Send WRITEs of one packet with immediate data; equal ones leave in calls that the kernel cuts."""
        paths = self._paths or self._open_paths()
        if len(messages) == 1:
            framing, sender = paths[0] if len(paths) == 1 else self._path(messages[0].key)
            self._send_start(sender, framing.write(psn, messages[0]), messages[0])
            return
        for _, group in groupby(messages, _ALIKE):
            alike = list(group)
            while alike:
                sent = self._write_alike(psn, alike) if len(alike) > 1 and len(paths) == 1 else 0
                if not sent:
                    self.writes(psn, alike[:1])
                    sent = 1
                psn, alike = add(psn, sent), alike[sent:]

    def _write_alike(self, psn: Psn, alike: Sequence[Message]) -> int:
        """Send as many as fit one call; returns their number, 0 if the kernel does not cut."""
        (framing, sender), count = self._paths[0], len(alike)
        if not self._context.is_cutting:
            return 0
        batch, count = framing.writes(psn, alike[0], count)
        pieces, control = (batch.calls[count],), cut_message(batch.packet_bytes)
        sent = [one.sent for one in alike[:count] if one.sent is not None]
        try:
            if sent:
                sender.send_first(pieces, self._to, sent, control, packets=count)
            else:
                sender.send(pieces, self._to, control, packets=count)
        except OSError as error:
            self._stop_cutting(error)
            return 0
        for one in alike[:count] if sent else ():
            one.sent = None  # what is sent again does not ask
        return count

    def reply(self, reply: Reply) -> None:
        """Send an ACK or NAK."""
        framing, sender = self._path(0)
        dscp = self._context.options.ack_dscp
        if dscp < 0:
            sender.send_whole(framing.ack(reply), self._to)
        else:
            sender.send((framing.ack(reply),), self._to, traffic_class_message(dscp << 2, is_v6=sender.is_v6))

    def notify(self) -> None:
        """Send a congestion notification."""
        framing, sender = self._path(0)
        control = traffic_class_message(self._context.options.cnp_dscp << 2, is_v6=sender.is_v6)
        sender.send((framing.notification(),), self._to, control)

    def send_run(self, run: PacketRun) -> None:
        """Send the packets of a run."""
        for _ in self.turns(run, self._context.staging.slots):
            pass

    def respond(self, run: ResponseRun | AtomicResponse) -> None:
        """Send READ responses, or the response to an atomic."""
        if isinstance(run, AtomicResponse):
            framing, sender = self._path(0)
            packet = framing.single(_ATOMIC_ACK, run.psn, atomic_response(run), ack_request=False)
            sender.send_whole(packet, self._to)
            return
        train = _Train(response_segments(run), run.psn, run.offset, run.packets, run.total, run.last_bytes)
        if run.content is not None:
            self._send_content(train, self._path(0), memoryview(run.content))
            return
        for _ in self._send_train(train, self._path(0), self._context.staging.slots):
            pass

    def _send_content(self, train: _Train, path: _Path, content: memoryview) -> None:
        """Send packets that have a content of their own, one by one."""
        segments, psn, offset, packets, total, _, asks, _ = train
        (framing, sender), mtu = path, self._context.payload.path_mtu
        for place in range(packets):
            opcode, headers = segments.at(offset + place, total)
            piece = content[place * mtu : (place + 1) * mtu]
            is_asking = asks and place == packets - 1
            packet = framing.with_content(opcode, add(psn, place), headers, piece, ack_request=is_asking)
            sender.send_whole(packet, self._to)

    def turns(self, run: PacketRun, turn: int) -> Iterator[None]:
        """Send the packets of a run; yields after every `turn` packets if more follow."""
        message, psn, path_mtu = run.message, run.psn, self._context.payload.path_mtu
        framing, sender = path = self._path(message.key)
        if message.verb is _READ_VERB:
            sender.send_whole(framing.single(_READ, psn, read_request(run, path_mtu)), self._to)
            return
        if message.packets == 1 and message.verb is _WRITE_IMM and not message.content:
            self._send_start(sender, framing.write(psn, message), message)
            return
        last_bytes = message.size - (message.packets - 1) * path_mtu
        train = _Train(
            message_segments(message),
            psn,
            run.offset,
            run.packets,
            message.packets,
            last_bytes,
            run.ack_request,
            message if message.sent is not None else None,
        )
        if message.content:
            before = (message.size - len(message.content)) // path_mtu - run.offset  # packets without it
            if before > 0:
                count = min(before, run.packets)
                yield from self._send_train(train.part(0, count), path, turn)
            start = max(before, 0)
            self._send_content(
                train.part(start, run.packets), path, memoryview(message.content)[(start - before) * path_mtu :]
            )
        else:
            yield from self._send_train(train, path, turn)

    def _send_train(self, train: _Train, path: _Path, turn: int) -> Iterator[None]:
        segments, psn, offset, left, total, last_bytes, asks, message = train
        (framing, sender), payload, opcodes, last = path, self._context.payload, segments.opcodes, total - 1
        if not last:
            only = framing.single(opcodes.only, psn, segments.only, last_bytes, ack_request=asks)
            self._send_start(sender, only, message)
            return
        if not offset:
            if left == total == 2 and self._send_both(train, path):
                return
            ends_here = asks and left == 1
            first = framing.single(opcodes.first, psn, segments.first, payload.path_mtu, ack_request=ends_here)
            self._send_start(sender, first, message)
            offset, psn, left = 1, add(psn, 1), left - 1
        ends = offset + left > last
        # A LAST packet of the same length is staged with the others.
        is_last_alike = ends and left > 1 and not segments.last and last_bytes == payload.path_mtu
        alike = left if is_last_alike or not ends else left - 1
        slot, rest = payload.slot(offset), left - alike
        while alike:
            count = min(alike, self._context.staging.slots - slot)
            alike -= count
            is_all = not alike and not rest
            part = _Slice(psn, slot, count, asks and is_all, is_last_alike and is_all)
            yield from self._send_slice(framing, sender, part, turn, opcodes)
            psn, slot = add(psn, count), 0
            if alike:
                yield
        if rest:
            slot = payload.slot(last)
            packet = framing.single(opcodes.last, psn, segments.last, last_bytes, slot, ack_request=asks)
            sender.send_whole(packet, self._to)

    def _send_both(self, train: _Train, path: _Path) -> bool:
        """Send a message of two packets as one call that the kernel cuts; False: it cannot, and nothing was sent."""
        segments, psn, _, _, _, last_bytes, asks, message = train
        (framing, sender), payload, opcodes = path, self._context.payload, segments.opcodes
        if not self._context.is_cutting or len(segments.last) > len(segments.first):
            return False
        # A packet is valid until the next one of its length is made.
        first = bytes(framing.single(opcodes.first, psn, segments.first, payload.path_mtu, ack_request=False))
        last = framing.single(
            opcodes.last, add(psn, 1), segments.last, last_bytes, payload.slot(1), ack_request=asks, ip_id=1
        )
        pieces, control = (first, last), cut_message(len(first))
        try:
            if message is None or message.sent is None:
                sender.send(pieces, self._to, control, packets=2)
            else:
                sender.send_first(pieces, self._to, (message.sent,), control, packets=2)
        except OSError as error:
            self._stop_cutting(error)
            return False
        if message is not None:
            message.sent = None  # what is sent again does not ask
        return True

    def _send_slice(
        self, framing: Framing, sender: Sender, whole: _Slice, turn: int, opcodes: Opcodes
    ) -> Iterator[None]:
        """Send packets that fit the staging buffer, a turn at a time."""
        context, staging, to = self._context, self._context.staging, self._to
        batch, version, are_cut, sent = context.send_batch(is_v6=sender.is_v6), -1, True, 0
        while sent < whole.packets:
            # Not yet staged, or overwritten by another queue pair between turns, or the kernel refused to cut.
            if staging.version != version or are_cut is not context.is_cutting:
                are_cut = context.is_cutting
                framing.middles(staging, *whole.after(sent), are_cut=are_cut, opcodes=opcodes)
                version = staging.version
            slot, count = whole.slot + sent, min(turn, whole.packets - sent)
            if not are_cut:
                for one in range(slot, slot + count):
                    sender.send(staging.pieces(one, 1), to)
            else:
                try:
                    sender.send_cut(batch, slot, count, to)
                except OSError as error:
                    self._stop_cutting(error)
                    continue  # packets of this turn that have left are sent again: the peer drops them
            sent += count
            if sent < whole.packets:
                yield

    def _send_start(self, sender: Sender, packet: Buffer, message: Message | None) -> None:
        """Send the first packet of a message; the first time, somebody may ask when it leaves."""
        if message is None or message.sent is None:
            sender.send_whole(packet, self._to)
        else:
            sent, message.sent = message.sent, None
            sender.send_first((packet,), self._to, (sent,))

    def _stop_cutting(self, error: OSError) -> None:
        """Send every packet alone from now on, if the error means that the kernel does not cut."""
        if error.errno not in _NOT_CUTTING:
            raise error
        self._context.is_cutting = False

    def _path(self, message_number: int) -> _Path:
        paths = self._paths or self._open_paths()
        return paths[message_number % len(paths)] if len(paths) > 1 else paths[0]

    def _open_paths(self) -> list[_Path]:
        context, facts = self._context, self._facts
        source, target = packed(facts.host), packed(facts.peer_host)
        for wanted in facts.source_ports:
            sender = _first_free(context.senders, facts.host, wanted)
            framing = Framing(UdpPath(source, target, sender.port), facts.peer_qpn, context.payload)
            self._paths.append((framing, sender))
        return self._paths


def _first_free(senders: Senders, host: str, port: int) -> Sender:
    """A sending socket at a port, or at the next free one."""
    for attempt in range(_PORT_TRIES):
        try:
            return senders.get(host, FIRST_SOURCE_PORT | (port + attempt & 0x3FFF))
        except HostError:
            if attempt == _PORT_TRIES - 1:
                raise
    raise AssertionError
