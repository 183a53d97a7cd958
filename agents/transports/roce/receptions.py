"""Several receptions in one system call: recvmmsg(2)."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from agents.transports.roce.system_calls import (
    MESSAGE_BYTES,
    V4_NAME_BYTES,
    ControlMessages,
    Message,
    Piece,
    SocketAddress,
    address_of,
    name_bytes,
    recvmmsg,
    socket_address,
)

CONTROL_BYTES = 96
"""Room for three control messages."""
LARGEST_BYTES = 1 << 16
"""More than any reception has."""
_KNOWN_SENDERS = 64
_CONTROL_HEADER = struct.Struct("@Nii")  # struct cmsghdr: length, level, type
_PORT, _PORT_AND_FLOW, _SCOPE = struct.Struct(">H"), struct.Struct(">HI"), struct.Struct("=I")
_SIZE_AT = Message.bytes.offset


_Key: TypeAlias = tuple[SocketAddress, tuple[tuple[int, int, bytes], ...]]
_Expected: TypeAlias = Sequence[bytes]
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
        self._expected: dict[_Key, _Expected] = {}

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
        """Receive up to `most`, not more than there are pieces; returns how many came."""
        self._state[:] = self._fresh
        return max(0, int(recvmmsg(fd, self._address, min(most, self._most), 0, None)))

    def alike(self, index: int, count: int, control: ControlMessages, sender: SocketAddress) -> tuple[int, int]:
        """Of the `count` received, those from `index` on that come from this sender with these control messages.

        Returns:
            How many, and their bytes. They stand on end: all but the last one fill their pieces, with full packets.
        """
        key = sender, tuple(control)
        expected = self._expected.get(key) or self._expect(key)
        if not index and self._state == expected[count]:
            return count, count * self._piece_bytes
        first, end = index, 0
        if not index and self._are_like(count - 1, expected):
            index, end = count - 1, (count - 1) * self._piece_bytes
        while index < count:
            size = self.size(index)
            if size > self._piece_bytes or size % self._stride or not self._is_like(index, expected):
                break
            index, end = index + 1, end + size
            if size < self._piece_bytes:
                break
        return index - first, end

    def _are_like(self, count: int, expected: _Expected) -> bool:
        state, model, controls, names = self._state, expected[count], self._controls, self._names
        messages_end, controls_end = count * MESSAGE_BYTES, controls + count * CONTROL_BYTES
        names_end = names + count * self._name_bytes
        return (
            state[:messages_end] == model[:messages_end]
            and state[controls:controls_end] == model[controls:controls_end]
            and state[names:names_end] == model[names:names_end]
        )

    def _is_like(self, index: int, expected: _Expected) -> bool:
        message, control = index * MESSAGE_BYTES, self._controls + index * CONTROL_BYTES
        name = self._names + index * self._name_bytes
        state, model = self._state, expected[index + 1]
        size = slice(message, message + _SIZE_AT)
        return (
            state[size] == model[size]
            and state[control : control + CONTROL_BYTES] == model[control : control + CONTROL_BYTES]
            and state[name : name + self._name_bytes] == model[name : name + self._name_bytes]
        )

    def size(self, index: int) -> int:
        """Bytes of a reception."""
        return int(Message.from_buffer(self._state, index * MESSAGE_BYTES).bytes)

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

    def _expect(self, key: _Key) -> _Expected:
        while len(self._expected) >= _KNOWN_SENDERS:
            del self._expected[next(iter(self._expected))]
        sender, control = key
        written, name = _write_control(control), socket_address(*sender)
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


def _write_control(control: ControlMessages) -> bytes:
    written = b""
    for level, kind, data in control:
        message = _CONTROL_HEADER.pack(socket.CMSG_LEN(len(data)), level, kind) + data
        written += message.ljust(socket.CMSG_SPACE(len(data)), b"\0")
    return written


@lru_cache(maxsize=_KNOWN_SENDERS)
def _read_control(written: bytes) -> ControlMessages:
    control, start = [], 0
    while start + _CONTROL_HEADER.size <= len(written):
        length, level, kind = _CONTROL_HEADER.unpack_from(written, start)
        control.append((level, kind, written[start + _CONTROL_HEADER.size : start + length]))
        start += socket.CMSG_SPACE(length - _CONTROL_HEADER.size)
    return control


@lru_cache(maxsize=_KNOWN_SENDERS)
def _read_name(name: bytes) -> SocketAddress:
    if len(name) == V4_NAME_BYTES:
        return socket.inet_ntoa(name[4:8]), _PORT.unpack_from(name, 2)[0]
    port, flow = _PORT_AND_FLOW.unpack_from(name, 2)
    return socket.inet_ntop(socket.AF_INET6, name[8:24]), port, flow, _SCOPE.unpack_from(name, 24)[0]
