"""Where a queue pair sends: its packets and runs become calls on sockets."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from agents.transports.roce.ends import EPHEMERAL, Ends, packed, source_ports
from agents.transports.roce.shared import Shared
from agents.transports.roce.sockets import Sender, Senders, traffic_class_message
from agents.transports.roce.system_calls import cut_message
from emulator.errors import HostError
from emulator.roce.constants import UDP_PORT
from emulator.roce.icrc import UdpPath
from emulator.roce.messages import Message, Reply, Run, Verb
from emulator.roce.opcodes import Opcode
from emulator.roce.packet import CNP_PAYLOAD
from emulator.roce.psn import Psn, add
from emulator.roce.runs import Framing
from emulator.roce.single import WRITE, SinglePackets

_PORT_TRIES = 16
_RETH = struct.Struct(">QII")
_LIKENESS = attrgetter("size", "address", "imm")
_PSN_CARRY = 1 << 16  # a train has no carry into the upper byte of its PSNs
_MIDDLE = int(Opcode.RC_WRITE_MIDDLE)


Between: TypeAlias = Callable[[], bool]
"""Called between what is sent; False: send no more."""


class _Stretch(NamedTuple):
    """Packets in slots of the staging buffer: MIDDLE ones, the last perhaps LAST; fields as of `Framing.middles`."""

    psn: Psn
    slot: int
    packets: int
    ack_request: bool
    ends: bool

    def split(self, count: int, slot: int = 0) -> tuple[_Stretch, _Stretch]:
        """The first `count`, and the others, from another slot on."""
        psn, start, whole, ack_request, ends = self
        return (
            _Stretch(psn, start, count, ack_request=False, ends=False),
            _Stretch(add(psn, count), slot, whole - count, ack_request, ends),
        )


class Outlet:
    """Sends what a queue pair has to say.

    Every method raises OSError or HostError where it cannot; `send_problem` says it in words.
    """

    __slots__ = ("_paths", "_shared", "_to", "ends")

    def __init__(self, shared: Shared, ends: Ends) -> None:
        self._shared, self.ends = shared, ends
        self._to = (ends.peer_host, UDP_PORT)
        self._paths: list[tuple[Framing, Sender, SinglePackets]] = []

    @property
    def source_port(self) -> int | None:
        """Where packets come from; None: from several ports, or none has gone."""
        return self._paths[0][1].port if len(self._paths) == 1 else None

    def write(self, psn: Psn, message: Message) -> None:
        """A WRITE of one packet with immediate data."""
        paths = self._paths or self._open_paths()
        _, sender, singles = paths[message.key % len(paths) if len(paths) > 1 else 0]
        sender.send_whole(singles.write(psn, message.address, self._shared.rkey, message.size, message.imm), self._to)

    def writes(self, psn: Psn, messages: Sequence[Message]) -> None:
        """The same for each message, with PSNs that count up: those that are alike go in calls that the kernel cuts."""
        paths = self._paths or self._open_paths()
        for _, group in groupby(messages, _LIKENESS):
            alike, start, most = list(group), 0, 1
            if len(alike) > 1 and len(paths) == 1 and self._shared.is_cutting:
                most = self._shared.payload.train(WRITE.size, alike[0].size).packets
            while start < len(alike):
                count = min(most, len(alike) - start, _PSN_CARRY - (psn & _PSN_CARRY - 1))
                self._write_train(psn, alike[start : start + count])
                start += count
                psn = add(psn, count)

    def _write_train(self, psn: Psn, alike: Sequence[Message]) -> None:
        """Messages that are alike and fit one call."""
        count = len(alike)
        if count > 1 and self._shared.is_cutting:
            _, sender, singles = self._paths[0]
            train = singles.train(psn, alike[0], count, self._shared.rkey)
            try:
                sender.send((train.calls[count],), self._to, cut_message(train.stride), packets=count)
            except OSError as error:
                if not _is_about_cutting(error):
                    raise
                self._shared.is_cutting = False
            else:
                return
        for message in alike:
            self.write(psn, message)
            psn = add(psn, 1)

    def reply(self, reply: Reply) -> None:
        """An ACK or NAK."""
        _, sender, singles = self._path(0)
        datagram = singles.ack(reply.psn, reply.syndrome << 24 | reply.msn)
        dscp = self._shared.options.ack_dscp
        if dscp < 0:
            sender.send_whole(datagram, self._to)
        else:
            sender.send((datagram,), self._to, traffic_class_message(dscp << 2, is_v6=sender.is_v6))

    def notify(self) -> None:
        """A congestion notification."""
        framing, sender, _ = self._path(0)
        control = traffic_class_message(self._shared.options.cnp_dscp << 2, is_v6=sender.is_v6)
        sender.send(framing.notification(Opcode.CNP, CNP_PAYLOAD), self._to, control)

    def run(self, run: Run, between: Between | None = None) -> None:
        """Packets of one WRITE.

        Args:
            between: called wherever a turn's packets have gone and more follow; where it says False, they do not.
        """
        message, psn, offset, left, asks, _ = run
        framing, sender, _ = self._path(message.key)
        payload, last = self._shared.payload, message.packets - 1
        if not last:
            self._only(message, psn, framing, sender)
            return
        if not offset:
            data = framing.first(
                psn, address=message.address, rkey=self._shared.rkey, size=message.size, ack_request=asks and left == 1
            )
            sender.send_whole(data, self._to)
            offset, psn, left = 1, add(psn, 1), left - 1
        ends = offset + left > last
        last_bytes = message.size - last * payload.path_mtu
        # A LAST packet that is as long as the others goes with them.
        is_like_others = ends and left > 1 and message.verb is Verb.WRITE and last_bytes == payload.path_mtu
        alike = left if is_like_others or not ends else left - 1
        if alike:
            stretch = _Stretch(psn, payload.slot(offset), alike, asks and alike == left, is_like_others)
            if not self._send_alike(framing, sender, stretch, between):
                return
        if alike < left:
            imm = message.imm if message.verb is Verb.WRITE_IMM else None
            data = framing.last(add(psn, alike), slot=payload.slot(last), size=last_bytes, imm=imm)
            sender.send_whole(data, self._to)

    def _only(self, message: Message, psn: Psn, framing: Framing, sender: Sender) -> None:
        if message.verb is Verb.WRITE_IMM:
            self.write(psn, message)
            return
        reth = _RETH.pack(message.address, self._shared.rkey, message.size)
        sender.send(framing.lone(Opcode.RC_WRITE_ONLY, psn, reth, size=message.size, ack_request=True), self._to)

    def _send_alike(self, framing: Framing, sender: Sender, stretch: _Stretch, between: Between | None) -> bool:
        """Returns False where `between` did."""
        slots = self._shared.staging.slots
        while stretch.slot + stretch.packets > slots:
            section, stretch = stretch.split(slots - stretch.slot)
            if not self._send_section(framing, sender, section, between) or (between is not None and not between()):
                return False
        return self._send_section(framing, sender, stretch, between)

    def _send_section(self, framing: Framing, sender: Sender, section: _Stretch, between: Between | None) -> bool:
        """What the staging buffer has room for; as above."""
        shared, staging, to = self._shared, self._shared.staging, self._to
        _, slot, left, _, _ = section
        turn = left if between is None else shared.payload.slots
        batch, written, are_cut = shared.batch(is_v6=sender.is_v6), -1, True
        while True:
            # At first, and where somebody else has sent something in between, or the kernel has refused to cut it.
            if staging.written != written or are_cut is not shared.is_cutting:
                rest = section.split(section.packets - left, slot)[1] if left < section.packets else section
                are_cut = shared.is_cutting
                framing.middles(_MIDDLE, *rest, are_cut=are_cut)
                written = staging.written
            count = turn if turn < left else left
            if not are_cut:
                for packet in range(slot, slot + count):
                    sender.send(staging.pieces(packet, 1), to)
            else:
                try:
                    sender.send_cut(batch, slot, count, to)
                except OSError as error:
                    if not _is_about_cutting(error):
                        raise
                    shared.is_cutting = False  # what has gone of this turn goes again: the peer drops that
                    continue
            slot += count
            left -= count
            if not left:
                return True
            if between is not None and not between():
                return False

    def _path(self, message_number: int) -> tuple[Framing, Sender, SinglePackets]:
        paths = self._paths or self._open_paths()
        return paths[message_number % len(paths)] if len(paths) > 1 else paths[0]

    def _open_paths(self) -> list[tuple[Framing, Sender, SinglePackets]]:
        shared, ends = self._shared, self.ends
        source, target = packed(ends.host), packed(ends.peer_host)
        for wanted in source_ports(shared.options.source_port, ends, seed=shared.seed):
            port, sender = _first_free(shared.senders, ends.host, wanted)
            framing = Framing(UdpPath(source, target, port), ends.peer_qpn, shared.staging)
            self._paths.append((framing, sender, SinglePackets(framing, path_mtu=shared.payload.path_mtu)))
        return self._paths


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


def _is_about_cutting(error: OSError) -> bool:
    return error.errno in (22, 5, 95, 92)  # EINVAL, EIO, EOPNOTSUPP, ENOPROTOOPT


def send_problem(error: OSError | HostError, path_mtu: int) -> str:
    """Why nothing can be sent, in words."""
    if isinstance(error, HostError):
        return str(error)
    if error.errno == 90:  # EMSGSIZE
        return f"packets of path MTU {path_mtu} do not fit the interface: choose a smaller --path-mtu"
    return f"cannot send: {error.strerror}"
