"""What sockets take, and batches: several calls, which the kernel cuts into datagrams, with one system call."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from emulator.host.batches import CONTROL_HEADER, MESSAGE, PIECE, sendmmsg
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.wire.payload import Staging

UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
IPV6_RECVTCLASS: Final = 66
IPV6_TCLASS: Final = 67
SO_TIMESTAMPNS: Final = 35
SO_TIMESTAMPING: Final = 37
SO_RXQ_OVFL: Final = 40

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
"""An address as Python's sockets return it: host and port, for IPv6 also flow label and scope."""
ControlMessages: TypeAlias = Sequence[tuple[int, int, bytes]]

V4_NAME_BYTES: Final = 16
V6_NAME_BYTES: Final = 28


def address_of(buffer: memoryview | bytearray) -> int:
    """The address of a buffer, which must not move in memory."""
    return np.frombuffer(buffer, np.uint8).ctypes.data


def name_bytes(*, is_v6: bool) -> int:
    """Size of a struct sockaddr_in or sockaddr_in6, bytes."""
    return V6_NAME_BYTES if is_v6 else V4_NAME_BYTES


def socket_address(host: str, port: int, flow: int = 0, scope: int = 0) -> bytes:
    """A struct sockaddr_in or sockaddr_in6."""
    if ":" in host:
        head = struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, flow)
        return head + socket.inet_pton(socket.AF_INET6, host) + struct.pack("=I", scope)
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)


@lru_cache(maxsize=64)
def cut_message(stride: int) -> ControlMessages:
    """The control message that makes the kernel cut a call into datagrams of `stride` bytes."""
    return ((socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", stride)),)


def control_bytes(control: ControlMessages) -> bytes:
    """Control messages as C structures."""
    written = b""
    for level, kind, data in control:
        message = CONTROL_HEADER.pack(socket.CMSG_LEN(len(data)), level, kind) + data
        written += message.ljust(socket.CMSG_SPACE(len(data)), b"\0")
    return written


class SendBatch:
    """Sends packets of a staging buffer.

    Args:
        staging: the buffer; packets in it can change between calls of `send`.
        is_v6: address family of the peers.
    """

    def __init__(self, staging: Staging, *, is_v6: bool) -> None:
        self.staging, self._per_call, self._is_compact = staging, staging.payload.per_call, staging.is_compact
        calls = -(-staging.slots // self._per_call)
        self._name = np.zeros(name_bytes(is_v6=is_v6), np.uint8)
        self._control = np.frombuffer(control_bytes(cut_message(staging.packet_bytes)), np.uint8)
        self._pieces = np.zeros((calls, 2 * self._per_call + 1 if self._is_compact else 1), PIECE)
        self._messages = np.zeros(calls, MESSAGE)
        header = self._messages["header"]
        header["name"], header["name_length"] = self._name.ctypes.data, len(self._name)
        header["pieces"] = self._pieces.ctypes.data + np.arange(calls) * self._pieces.strides[0]
        header["control"], header["control_length"] = self._control.ctypes.data, len(self._control)
        self._counts, self._lengths = header["piece_count"], self._pieces["length"]
        self._buffer, self._named, self._begin = address_of(staging.buffer), b"", self._messages.ctypes.data
        if self._is_compact:
            self._pieces["base"][:, 1::2], self._lengths[:, 1::2] = address_of(staging.content), len(staging.content)
            self._lengths[:, 0], self._lengths[:, 2::2], self._lengths[:, -1] = BTH_BYTES, staging.step, ICRC_BYTES
        else:
            self._lengths[:] = self._per_call * staging.packet_bytes
        self._counts[:] = self._pieces.shape[1]
        self._full_lengths = self._lengths[0].copy()
        self._calls: dict[int, int] = {}  # first slot → index of the call
        self._lay_out(0)

    def send(self, fd: int, name: bytes, slot: int, count: int) -> int:
        """Hand over `count` packets from `slot` on, not beyond the last slot.

        Args:
            fd: of the socket.
            name: see `socket_address`.

        Returns:
            How many packets the kernel took, in whole calls. If it took fewer, there is a problem with the next call:
            sent alone, that call reports it.
        """
        if name is not self._named:
            self._name[:] = np.frombuffer(name, np.uint8)
            self._named = name
        first = self._calls.get(slot)
        if first is None:
            self._lay_out(slot)
            first = 0
        calls, rest = divmod(count, self._per_call)
        start = self._begin + first * MESSAGE.itemsize
        if not rest:
            taken: int = sendmmsg(fd, start, calls, 0)
            return self._per_call * max(0, taken)
        last = first + calls
        if self._is_compact:
            self._counts[last], self._lengths[last, 2 * rest] = 2 * rest + 1, ICRC_BYTES
        else:
            self._lengths[last] = rest * self.staging.packet_bytes
        taken = sendmmsg(fd, start, calls + 1, 0)
        self._counts[last], self._lengths[last] = self._pieces.shape[1], self._full_lengths
        return min(count, self._per_call * max(0, taken))

    def _lay_out(self, slot: int) -> None:
        """Make the first call begin with a slot. An ICRC and the header after it are one piece."""
        step, per_call, bases = self.staging.step, self._per_call, self._pieces["base"]
        begins = self._buffer + (slot + np.arange(len(bases)) * per_call) * step
        bases[:, 0] = begins
        if self._is_compact:
            bases[:, 2::2] = begins[:, None] + (BTH_BYTES + np.arange(per_call) * step)
        self._calls = {start: call for call, start in enumerate(range(slot, self.staging.slots, per_call))}
