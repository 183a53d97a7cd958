"""Several receptions in one system call: recvmmsg(2)."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from agents.transports.roce.system_calls import (
    CONTROL_HEADER,
    MESSAGE_BYTES,
    V4_NAME_BYTES,
    ControlMessages,
    Message,
    Piece,
    SocketAddress,
    address_of,
    control_bytes,
    name_bytes,
    recvmmsg,
    socket_address,
)

CONTROL_BYTES = 96
"""Room for three control messages."""
LARGEST_BYTES = 1 << 16
"""More than any reception has."""
_KNOWN_SENDERS = 64
_PORT, _PORT_AND_FLOW, _SCOPE = struct.Struct(">H"), struct.Struct(">HI"), struct.Struct("=I")
_SIZE_AT = Message.bytes.offset


_Key: TypeAlias = tuple[SocketAddress, tuple[tuple[int, int, bytes], ...]]
Expected: TypeAlias = Sequence[bytes]
"""What stands in the state if all receptions fill their pieces and are alike, for every number of them."""


class Receptions:
    """Takes what waits in a socket, into pieces of a buffer that stand on end.

    Args:
        buffer: where it goes; it must not move.
        stride: bytes of a full packet.
        per_call: full packets that a piece has room for. What is larger than a piece is whole all the same: `content`.
        most: pieces.
        is_v6: of the sockets.
    """

    def __init__(self, buffer: memoryview, *, stride: int, per_call: int, most: int, is_v6: bool) -> None:
        self._buffer, self._stride, self._most = buffer, stride, most
        self._piece_bytes = stride * per_call
        self._name_bytes = name_bytes(is_v6=is_v6)
        self._controls = most * MESSAGE_BYTES
        self._names = self._controls + most * CONTROL_BYTES
        self._beyond_bytes = max(0, LARGEST_BYTES - self._piece_bytes)
        self._beyond = bytearray(most * self._beyond_bytes + 1)
        self._pieces = (Piece * (2 * most))()
        self._state = bytearray(self._names + most * self._name_bytes)  # messages, control messages, senders
        self._address = address_of(self._state)
        for index in range(most):
            self._lay_out(index, address_of(buffer))
        self._fresh = bytes(self._state)
        words = memoryview(self._state)[: self._controls].cast("I")
        self._sizes = words[_SIZE_AT // words.itemsize :: MESSAGE_BYTES // words.itemsize]
        self._expected: dict[_Key, Expected] = {}

    def _lay_out(self, index: int, begin: int) -> None:
        piece, beyond = self._pieces[2 * index], self._pieces[2 * index + 1]
        piece.base, piece.length = begin + index * self._piece_bytes, self._piece_bytes
        beyond.base, beyond.length = address_of(self._beyond) + index * self._beyond_bytes, self._beyond_bytes
        header = Message.from_buffer(self._state, index * MESSAGE_BYTES).header
        header.name = self._address + self._names + index * self._name_bytes
        header.name_length = self._name_bytes
        header.pieces, header.piece_count = ctypes.pointer(piece), 2
        header.control = self._address + self._controls + index * CONTROL_BYTES
        header.control_length = CONTROL_BYTES

    def take(self, fd: int, most: int) -> int:
        """Receive up to `most`, which must not be more than there are pieces; returns how many came."""
        self._state[:] = self._fresh
        count: int = recvmmsg(fd, self._address, most, 0, None)
        return count if count > 0 else 0

    def expected(self, sender: SocketAddress, control: ControlMessages) -> Expected:
        """What full calls from this sender look like, with these control messages."""
        key = sender, tuple(control)
        return self._expected.get(key) or self._expect(key)

    def all_alike(self, count: int, expected: Expected) -> int:
        """Bytes of the `count` received, if all are as expected, the last one perhaps shorter; else 0.

        They stand on end, and are full packets.
        """
        sizes, full = self._sizes, self._piece_bytes
        last = sizes[count - 1]
        if last == full:
            return count * full if self._state == expected[count] else 0
        if last > full or last % self._stride:
            return 0
        sizes[count - 1] = full
        is_as_expected = self._state == expected[count]
        sizes[count - 1] = last
        return (count - 1) * full + last if is_as_expected else 0

    def alike(self, index: int, count: int, expected: Expected) -> tuple[int, int]:
        """Of the `count` received, those from `index` on that are as expected.

        Returns:
            How many, and their bytes. They stand on end: all but the last one fill their pieces, with full packets.
        """
        first, sizes, full = index, self._sizes, self._piece_bytes
        end = first
        while end < count and sizes[end] == full:
            end += 1
        if not self._are_like(first, end, expected):
            end = first
            while end < count and self._are_like(end, end + 1, expected):
                end += 1
        size = (end - first) * full
        if end < count and sizes[end] < full and not sizes[end] % self._stride and self._is_like(end, expected):
            return end + 1 - first, size + sizes[end]
        return end - first, size

    def _are_like(self, first: int, end: int, expected: Expected) -> bool:
        """Of full calls."""
        state, model, controls, names = self._state, expected[end], self._controls, self._names
        messages = slice(first * MESSAGE_BYTES, end * MESSAGE_BYTES)
        control = slice(controls + first * CONTROL_BYTES, controls + end * CONTROL_BYTES)
        name = slice(names + first * self._name_bytes, names + end * self._name_bytes)
        return state[messages] == model[messages] and state[control] == model[control] and state[name] == model[name]

    def _is_like(self, index: int, expected: Expected) -> bool:
        """Whatever its size."""
        size = self._sizes[index]
        self._sizes[index] = self._piece_bytes
        is_like = self._are_like(index, index + 1, expected)
        self._sizes[index] = size
        return is_like

    def size(self, index: int) -> int:
        """Bytes of a reception."""
        return self._sizes[index]

    def is_any_beyond(self, count: int) -> bool:
        """Whether one of the first `count` is larger than its piece."""
        return any(self.size(index) > self._piece_bytes for index in range(count))

    def move(self, index: int, size: int) -> None:
        """Move `size` bytes from that piece on to the start of the buffer."""
        if index:
            start = index * self._piece_bytes
            self._buffer[:size] = self._buffer[start : start + size]

    def content(self, index: int) -> bytes:
        """A reception, even if it is larger than its piece."""
        size, start, beyond = self.size(index), index * self._piece_bytes, index * self._beyond_bytes
        piece = bytes(self._buffer[start : start + min(size, self._piece_bytes)])
        return piece + self._beyond[beyond : beyond + max(0, size - self._piece_bytes)]

    def control(self, index: int) -> ControlMessages:
        """Its control messages, as socket.recvmsg gives them."""
        header = Message.from_buffer(self._state, index * MESSAGE_BYTES).header
        start = self._controls + index * CONTROL_BYTES
        return _read_control(bytes(self._state[start : start + header.control_length]))

    def sender(self, index: int) -> SocketAddress:
        """Where it comes from."""
        start = self._names + index * self._name_bytes
        return _read_name(bytes(self._state[start : start + self._name_bytes]))

    def _expect(self, key: _Key) -> Expected:
        while len(self._expected) >= _KNOWN_SENDERS:
            del self._expected[next(iter(self._expected))]
        sender, control = key
        written, name = control_bytes(control), socket_address(*sender)
        state = bytearray(self._fresh)
        states = [bytes(state)]
        for index in range(self._most):
            message = Message.from_buffer(state, index * MESSAGE_BYTES)
            message.header.control_length, message.bytes = len(written), self._piece_bytes
            start = self._controls + index * CONTROL_BYTES
            state[start : start + len(written)] = written
            start = self._names + index * self._name_bytes
            state[start : start + len(name)] = name
            states.append(bytes(state))
        self._expected[key] = states
        return states


@lru_cache(maxsize=_KNOWN_SENDERS)
def _read_control(written: bytes) -> ControlMessages:
    control, start = [], 0
    while start + CONTROL_HEADER.size <= len(written):
        length, level, kind = CONTROL_HEADER.unpack_from(written, start)
        control.append((level, kind, written[start + CONTROL_HEADER.size : start + length]))
        start += socket.CMSG_SPACE(length - CONTROL_HEADER.size)
    return control


@lru_cache(maxsize=_KNOWN_SENDERS)
def _read_name(name: bytes) -> SocketAddress:
    if len(name) == V4_NAME_BYTES:
        return socket.inet_ntoa(name[4:8]), _PORT.unpack_from(name, 2)[0]
    port, flow = _PORT_AND_FLOW.unpack_from(name, 2)
    return socket.inet_ntop(socket.AF_INET6, name[8:24]), port, flow, _SCOPE.unpack_from(name, 24)[0]
