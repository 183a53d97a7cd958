"""Where a queue pair sends: its packets and runs become calls on sockets."""

from __future__ import annotations

import struct

from agents.roce.icrc import UdpPath
from agents.roce.messages import Message, Reply, Run, Verb
from agents.roce.opcodes import Opcode
from agents.roce.packet import CNP_PAYLOAD, UDP_PORT
from agents.roce.psn import Psn, add
from agents.roce.runs import Framing, Pieces
from agents.roce.segments import Segment, segments
from agents.roce.single import SinglePackets
from agents.transports.roce.ends import EPHEMERAL, Ends, packed, source_ports
from agents.transports.roce.shared import Shared
from agents.transports.roce.sockets import Sender, Senders, traffic_class_message
from emulator.errors import HostError

_PORT_TRIES = 16
_RETH = struct.Struct(">QII")
_IMM = struct.Struct(">I")


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
        _, sender, singles = self._path(message.first)
        datagram = singles.write(
            psn, address=message.address, rkey=self._shared.rkey, size=message.size, imm=message.imm
        )
        sender.send_whole(datagram, self._to)

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

    def run(self, run: Run) -> None:
        """Packets of one message."""
        message = run.message
        if message.packets == 1 and message.verb is Verb.WRITE_IMM:
            self.write(run.psn, message)
            return
        framing, sender, _ = self._path(message.first)
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
                sender.send_cut(view, self._to, call_bytes=shared.payload.per_call * stride, stride=stride)
            except OSError as error:
                if not _is_about_cutting(error):
                    raise
                shared.is_cutting = False  # what went already is doubled: the peer drops that
            else:
                return
        view = framing.middles(opcode, psn, slot=slot, count=count, ack_request=ack_request, are_cut=False)
        for start in range(0, len(view), stride):
            sender.send((view[start : start + stride],), self._to)

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
