"""When frames crossed the ports of a lab's switch, by the kernel: packet sockets read beside the tester.

Nothing of this passes through the agents: it is what their own time stamps are compared with.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from emulator.device.lab.commands import inside
from emulator.roce.constants import UDP_PORT
from emulator.roce.wire.opcodes import Opcode
from emulator.units import NS_PER_S

_ALL_PROTOCOLS: Final = 3
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE, _BUFFER_BYTES = 35, 33, 64 << 20
_TIMESPEC: Final = struct.Struct("=qq")
_ETHER_TYPE, _UDP_PORT, _IPV4, _ROCE = slice(12, 14), slice(36, 38), b"\x08\x00", UDP_PORT.to_bytes(2, "big")
_BTH: Final = struct.Struct("!42xB3xII")
"""Of a RoCEv2 frame over IPv4 without options: opcode, queue pair, acknowledge bit and packet sequence number."""
_LASTS = Opcode.RC_WRITE_LAST, Opcode.RC_WRITE_LAST_IMM
_PSN_MASK, _LONGEST = 0xFFFFFF, 1 << 16
STAMP_SPACE: Final = socket.CMSG_SPACE(_TIMESPEC.size)
"""A struct timespec as a control message."""


class Seen(NamedTuple):
    """A RoCEv2 frame at a port, and when the kernel saw it, ns."""

    opcode: int
    queue_pair: int
    psn: int
    time_ns: int


class PortStamps:
    """Frames from one port of a switch to another, stamped at both.

    Args:
        ends: sockets at the port where they enter, and at that where they leave.
    """

    def __init__(self, ends: tuple[socket.socket, socket.socket]) -> None:
        self._ends = ends

    def crossing_ns(self) -> list[int]:
        """What each message of two packets since the last call took through the switch, see `crossings`."""
        entered, left = (seen(end) for end in self._ends)
        return crossings(entered, left)


def crossings(entered: Iterable[Seen], left: Iterable[Seen]) -> list[int]:
    """From when the first packet of a message of two came to when the second left, ns; in the order in which they came.

    Messages of which a packet was seen twice, as those sent again, are left out.
    """
    firsts = _once(one for one in entered if one.opcode == Opcode.RC_WRITE_FIRST)
    lasts = _once(one for one in left if one.opcode in _LASTS)
    ends = ((begin_ns, lasts.get((pair, psn + 1 & _PSN_MASK))) for (pair, psn), begin_ns in firsts.items())
    return [end_ns - begin_ns for begin_ns, end_ns in ends if end_ns is not None]


def _once(frames: Iterable[Seen]) -> dict[tuple[int, int], int]:
    """(queue pair, sequence number) → time, of what is there once."""
    found: dict[tuple[int, int], list[int]] = {}
    for one in frames:
        found.setdefault((one.queue_pair, one.psn), []).append(one.time_ns)
    return {key: one for key, (one, *more) in found.items() if not more}


def seen(end: socket.socket) -> Iterator[Seen]:
    """The RoCEv2 frames that a socket has."""
    while True:
        try:
            frame, control, *_ = end.recvmsg(_LONGEST, STAMP_SPACE)
        except BlockingIOError:
            return
        if len(frame) < _BTH.size or frame[_ETHER_TYPE] != _IPV4 or frame[_UDP_PORT] != _ROCE:
            continue
        for _, kind, value in control:
            if kind == _SO_TIMESTAMPNS:
                opcode, queue_pair, psn = _BTH.unpack_from(frame)
                seconds, rest = _TIMESPEC.unpack_from(value)
                yield Seen(opcode, queue_pair, psn & _PSN_MASK, seconds * NS_PER_S + rest)


def open_port(port: str) -> socket.socket:
    """A packet socket at a port of this namespace that does not block, with the kernel's stamps."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    end.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    end.bind((port, _ALL_PROTOCOLS))
    return end


@contextmanager
def port_stamps(namespace: str, ports: Sequence[str]) -> Iterator[PortStamps]:
    """Stamp what crosses from the first port to the second.

    Raises:
        HostError: the namespace cannot be entered.
    """
    with ExitStack() as stack:
        with inside(namespace):
            first, second = (stack.enter_context(open_port(port)) for port in ports)
        yield PortStamps((first, second))
