"""Reads the socket of a rank: one reception per system call, or several with recvmmsg(2)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from agents.nic.stamps import STAMP_BYTES, STAMP_SPACE
from agents.nic.system_calls import (
    IPV6_TCLASS,
    SO_RXQ_OVFL,
    UDP_GRO,
    V4_NAME_BYTES,
    ControlMessages,
    SocketAddress,
    address_of,
    name_bytes,
)
from emulator.host.batches import CONTROL_HEADER, MESSAGE, PIECE, recvmmsg
from emulator.roce.tuning import KNOWN_PORTS, LARGEST_RECEPTION_BYTES

KNOWN_SIZES: Final = 64
CONTROL_BYTES: Final = STAMP_SPACE + 96
"""Room for a time stamp and three small control messages."""

_INT: Final = struct.Struct("=i")
_CE: Final = 3
_PORT: Final = struct.Struct(">H")
_PORT_AND_FLOW: Final = struct.Struct(">HI")
_SCOPE: Final = struct.Struct("=I")


Reception: TypeAlias = tuple[memoryview, int, SocketAddress, bool, bytes]
"""Datagrams from one sender, received together. A plain tuple, because one is made for every small packet.

packets: UDP payloads, one after the other, in a buffer that the next read overwrites.
stride: bytes of each; the last one can be shorter.
sender: address and port.
is_marked: a switch marked them (ECN).
stamp: when the kernel received the last of them, see `stamps`; empty: not known.
"""


class ControlFacts(NamedTuple):
    """The facts in control messages.

    Attributes:
        stride: bytes of each merged datagram; 0: not merged.
        is_marked: a switch marked them (ECN).
        drops: receptions that the socket has dropped so far; None: not reported.
    """

    stride: int = 0
    is_marked: bool = False
    drops: int | None = None


class SocketReader:
    """Reads receptions from one socket.

    Args:
        sock: a non-blocking socket.
        buffer: shared by all readers of a transport: each read is handled before the next one.
        batch: receives several at once, into the same buffer, from sockets that have stamps if this one has.
    """

    def __init__(self, sock: socket.socket, buffer: memoryview, batch: ReceiveBatch) -> None:
        self._fd, self._recvmsg_into = sock.fileno(), sock.recvmsg_into
        self._buffer, self._batch, self._has_stamps = buffer[:LARGEST_RECEPTION_BYTES], batch, batch.has_stamps
        self._buffers = (self._buffer,)
        self._views: dict[int, memoryview] = {}  # parts of the buffer for single datagrams, by size
        self._plain: ControlMessages = []  # the usual control messages of single datagrams without a mark
        self._calls = 0  # calls to read at once; 0: the last one was not full
        self.is_drained = False
        """Whether the last read emptied the socket."""
        self.queue_drops = 0
        """Receptions that the kernel dropped before this socket."""

    def read(self) -> Sequence[Reception] | None:
        """The next receptions, in order; None if the socket is empty."""
        if self._calls:
            return self._read_calls()
        try:
            size, control, _, sender = self._recvmsg_into(self._buffers, CONTROL_BYTES)
        except BlockingIOError:
            return None
        except OSError:  # an ICMP error: timeouts report the same problem
            return ()
        stamp = control.pop(0)[2] if self._has_stamps else b""
        if control == self._plain:
            return ((self._views.get(size) or self._view(size), size, sender, False, stamp),)
        facts = self._note(read_control(tuple(control)))
        if not facts.stride and not facts.is_marked:
            self._plain = control
        return ((self._buffer[:size], facts.stride or size, sender, facts.is_marked, stamp),)

    def expect(self, calls: int) -> None:
        """After a full call: read up to `calls` at once, as long as they are full."""
        self._calls = calls if calls > 1 else 0

    def _read_calls(self) -> Sequence[Reception] | None:
        batch = self._batch
        sizes = batch.receive(self._fd, self._calls)
        if not sizes:
            return None
        self.is_drained = len(sizes) < self._calls
        found, first, is_any_full = [], 0, False
        while first < len(sizes):
            facts, sender = batch.facts(first)
            self._note(facts)
            end = first + 1
            if facts.stride == batch.stride and not sizes[first] % batch.stride:
                is_any_full = True
                end = batch.end_of_like(first, sizes)
            packets = batch.packets(first, end, sizes)
            stamp = batch.stamp(end - 1) if self._has_stamps else b""
            found.append((packets, facts.stride or len(packets), sender, facts.is_marked, stamp))
            first = end
        if not is_any_full:
            self._calls, self.is_drained = 0, False
        return found

    def _view(self, size: int) -> memoryview:
        if len(self._views) == KNOWN_SIZES:
            self._views.clear()
        view = self._views[size] = self._buffer[:size]
        return view

    def _note(self, facts: ControlFacts) -> ControlFacts:
        if facts.drops is not None:
            self.queue_drops = facts.drops
        return facts


class ReceiveBatch:
    """Receives several receptions into consecutive pieces of a buffer.

    Args:
        buffer: must not move in memory.
        stride: bytes of a full packet.
        per_call: full packets that fit a piece. Larger receptions are received in full as well.
        most: number of pieces.
        is_v6: address family of the sockets.
        has_stamps: whether they give time stamps.
    """

    def __init__(
        self, buffer: memoryview, *, stride: int, per_call: int, most: int, is_v6: bool, has_stamps: bool = False
    ) -> None:
        self.has_stamps = has_stamps
        self.stride, self._buffer, self._piece_bytes = stride, buffer, stride * per_call
        self._rest_bytes = max(0, LARGEST_RECEPTION_BYTES - self._piece_bytes)
        self._rests = bytearray(most * self._rest_bytes + 1)  # the part of each reception that does not fit its piece
        # A struct mmsghdr per reception; after all of them, control messages and sender of each.
        self._name_bytes = name_bytes(is_v6=is_v6)
        self._origin_at, self._origin_bytes = most * MESSAGE.itemsize, CONTROL_BYTES + self._name_bytes
        self._state = bytearray(self._origin_at + most * self._origin_bytes)
        self._stamps_at = self._origin_at + CONTROL_HEADER.size
        self._facts_at, self._facts_bytes = self._origin_at, self._origin_bytes
        if has_stamps:
            self._facts_at, self._facts_bytes = self._origin_at + STAMP_SPACE, self._origin_bytes - STAMP_SPACE
        self._messages = np.frombuffer(self._state, MESSAGE, most)
        self._address, index = address_of(self._state), np.arange(most)
        self._pieces = np.zeros((most, 2), PIECE)
        self._pieces["base"] = np.stack(
            [address_of(buffer) + index * self._piece_bytes, address_of(self._rests) + index * self._rest_bytes], axis=1
        )
        self._pieces["length"] = self._piece_bytes, self._rest_bytes
        header, origins = self._messages["header"], self._address + self._origin_at + index * self._origin_bytes
        header["name"], header["name_length"] = origins + CONTROL_BYTES, self._name_bytes
        header["pieces"] = self._pieces.ctypes.data + index * self._pieces.strides[0]
        header["piece_count"] = 2
        header["control"], header["control_length"] = origins, CONTROL_BYTES
        self._fresh = bytes(self._state)

    def receive(self, fd: int, most: int) -> Sequence[int]:
        """Receive up to `most` receptions, at most one per piece; returns the bytes of each."""
        self._state[:] = self._fresh
        count: int = max(0, recvmmsg(fd, self._address, most, 0, None))
        sizes: list[int] = self._messages["bytes"][:count].tolist()
        return sizes

    def facts(self, index: int) -> tuple[ControlFacts, SocketAddress]:
        """The facts in the control messages of a reception, and its sender."""
        return _read_origin(bytes(self._origin(index)), self._name_bytes)

    def stamp(self, index: int) -> bytes:
        """The kernel's time stamp of a reception from a socket that gives them."""
        start = self._stamps_at + index * self._origin_bytes
        return bytes(self._state[start : start + STAMP_BYTES])

    def end_of_like(self, first: int, sizes: Sequence[int]) -> int:
        """The index after the receptions that continue the first: same sender and facts, all but the last full."""
        end, origin = first + 1, self._origin(first)
        while (
            end < len(sizes)
            and sizes[end - 1] == self._piece_bytes
            and sizes[end] <= self._piece_bytes
            and not sizes[end] % self.stride
            and self._origin(end) == origin
        ):
            end += 1
        return end

    def packets(self, first: int, end: int, sizes: Sequence[int]) -> memoryview:
        """The packets of consecutive receptions."""
        start, size = first * self._piece_bytes, sum(sizes[first:end])
        if end - first > 1 or size <= self._piece_bytes:
            return self._buffer[start : start + size]
        rest = first * self._rest_bytes
        piece = self._buffer[start : start + self._piece_bytes]
        return memoryview(bytes(piece) + self._rests[rest : rest + size - self._piece_bytes])

    def _origin(self, index: int) -> bytearray:
        """Control messages without the time stamp, and the sender."""
        start = self._facts_at + index * self._origin_bytes
        return self._state[start : start + self._facts_bytes]


@lru_cache(maxsize=KNOWN_PORTS)
def read_control(control: tuple[tuple[int, int, bytes], ...]) -> ControlFacts:
    """The facts in the control messages of a reception."""
    stride, is_marked, drops = 0, False, None
    for level, kind, data in control:
        if (level, kind) == (socket.IPPROTO_UDP, UDP_GRO):
            (stride,) = _INT.unpack(data[:4])
        elif (level, kind) in ((socket.IPPROTO_IP, socket.IP_TOS), (socket.IPPROTO_IPV6, IPV6_TCLASS)):
            is_marked = data[0] & 3 == _CE
        elif (level, kind) == (socket.SOL_SOCKET, SO_RXQ_OVFL):
            (drops,) = _INT.unpack(data[:4])
    return ControlFacts(stride, is_marked, drops)


@lru_cache(maxsize=KNOWN_PORTS)
def _read_origin(written: bytes, name_bytes: int) -> tuple[ControlFacts, SocketAddress]:
    """Parse control messages, and the struct sockaddr of `name_bytes` after them."""
    control, start, name_at = [], 0, len(written) - name_bytes
    while start + CONTROL_HEADER.size <= name_at:
        length, level, kind = CONTROL_HEADER.unpack_from(written, start)
        if length < CONTROL_HEADER.size:  # the rest is unused
            break
        control.append((level, kind, written[start + CONTROL_HEADER.size : start + length]))
        start += socket.CMSG_SPACE(length - CONTROL_HEADER.size)
    return read_control(tuple(control)), socket_name(written[name_at:])


def socket_name(name: bytes) -> SocketAddress:
    """The address in a struct sockaddr_in or sockaddr_in6."""
    if len(name) == V4_NAME_BYTES:
        return socket.inet_ntoa(name[4:8]), _PORT.unpack_from(name, 2)[0]
    port, flow = _PORT_AND_FLOW.unpack_from(name, 2)
    return socket.inet_ntop(socket.AF_INET6, name[8:24]), port, flow, _SCOPE.unpack_from(name, 24)[0]
