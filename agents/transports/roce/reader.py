"""Reads what waits in a rank's socket: one reception per system call, or several with recvmmsg(2)."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from agents.transports.roce.system_calls import (
    CONTROL_HEADER,
    IPV6_TCLASS,
    MESSAGE_BYTES,
    SO_RXQ_OVFL,
    UDP_GRO,
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
from emulator.roce.tuning import KNOWN_PORTS, LARGEST_RECEPTION_BYTES

CONTROL_BYTES = 96
"""Room for three control messages."""

_INT = struct.Struct("=i")
_CE = 3
_PORT, _PORT_AND_FLOW, _SCOPE = struct.Struct(">H"), struct.Struct(">HI"), struct.Struct("=I")
_BYTES_AT = Message.bytes.offset

_FrozenControl: TypeAlias = tuple[tuple[int, int, bytes], ...]


class Reception(NamedTuple):
    """Datagrams from one sender that were received together.

    Attributes:
        packets: UDP payloads on end, in a buffer that the next read overwrites.
        stride: bytes of each, the last one perhaps shorter.
        sender: address and port.
        is_marked: a switch has marked them (ECN).
    """

    packets: memoryview
    stride: int
    sender: SocketAddress
    is_marked: bool = False


class ControlFacts(NamedTuple):
    """What control messages report: bytes of each merged datagram (0: not merged), the mark, the socket's drops."""

    stride: int = 0
    is_marked: bool = False
    drops: int | None = None


class Usual(NamedTuple):
    """What receptions that are alike have in common, and the state of a batch that has none but full ones of them."""

    sender: SocketAddress
    states: Sequence[bytes]


class Reader:
    """Reads receptions from one socket.

    Args:
        sock: the socket, not blocking.
        buffer: of all readers of a transport: what one has read is handled before the next one reads.
        batch: receives several at once, into the same buffer.
    """

    def __init__(self, sock: socket.socket, buffer: memoryview, batch: ReceiveBatch) -> None:
        self._fd, self._recvmsg_into = sock.fileno(), sock.recvmsg_into
        self._buffer, self._batch = buffer[:LARGEST_RECEPTION_BYTES], batch
        self._buffers = (self._buffer,)
        self._plain: ControlMessages = []  # control messages of lone datagrams without a mark, most probably
        self._merged: _FrozenControl = ()  # of full calls
        self._calls = 0  # so many full calls are read at once; 0: none came last
        self._usual = Usual(("", 0), ())
        self.is_drained = False
        """Whether the last read has emptied the socket."""
        self.queue_drops = 0
        """Receptions that the kernel has dropped before this socket."""

    def read(self) -> Sequence[Reception] | None:
        """What has come, in order; None: nothing has."""
        if self._calls:
            return self._read_calls()
        try:
            size, control, _, sender = self._recvmsg_into(self._buffers, CONTROL_BYTES)
        except BlockingIOError:
            return None
        except OSError:  # an ICMP error that the kernel passes on: timeouts report it as well
            return ()
        if control == self._plain:
            return (tuple.__new__(Reception, (self._buffer[:size], size, sender, False)),)  # twice as fast as a call
        facts = self._facts(control)
        if facts.stride == self._batch.stride and not facts.is_marked:
            self._merged = tuple(control)
        elif not facts.stride and not facts.is_marked:
            self._plain = control
        return (Reception(self._buffer[:size], facts.stride or size, sender, facts.is_marked),)

    def expect(self, sender: SocketAddress, calls: int) -> None:
        """A full call came last from this sender: read up to so many at once, as long as like ones come."""
        if calls > 1 and self._merged:
            self._calls, self._usual = calls, self._batch.usual(sender, self._merged)

    def _read_calls(self) -> Sequence[Reception] | None:
        count = self._batch.receive(self._fd, self._calls)
        if not count:
            return None
        self.is_drained = count < self._calls
        receptions, are_usual = self._batch.receptions(count, self._usual, self._facts)
        if not are_usual:
            self._calls, self.is_drained = 0, False
        return receptions

    def _facts(self, control: ControlMessages) -> ControlFacts:
        facts = read_control(tuple(control))
        if facts.drops is not None:
            self.queue_drops = facts.drops
        return facts


class ReceiveBatch:
    """Receives what waits in a socket into pieces of a buffer that stand on end.

    Args:
        buffer: it must not move.
        stride: bytes of a full packet.
        per_call: full packets that a piece has room for. Larger receptions are complete, too.
        most: pieces.
        is_v6: address family of the sockets.
    """

    def __init__(self, buffer: memoryview, *, stride: int, per_call: int, most: int, is_v6: bool) -> None:
        self.stride = stride
        self._buffer, self._most = buffer, most
        self._piece_bytes = stride * per_call
        self._name_bytes = name_bytes(is_v6=is_v6)
        self._controls = most * MESSAGE_BYTES
        self._names = self._controls + most * CONTROL_BYTES
        self._beyond_bytes = max(0, LARGEST_RECEPTION_BYTES - self._piece_bytes)
        self._beyond = bytearray(most * self._beyond_bytes + 1)  # of each reception, what its piece has no room for
        self._pieces = (Piece * (2 * most))()
        self._state = bytearray(self._names + most * self._name_bytes)  # messages, control messages, senders
        self._address = address_of(self._state)
        for index in range(most):
            self._lay_out(index, address_of(buffer))
        self._fresh = bytes(self._state)
        words = memoryview(self._state)[: self._controls].cast("I")
        self._sizes = words[_BYTES_AT // words.itemsize :: MESSAGE_BYTES // words.itemsize]
        self._usual: dict[tuple[SocketAddress, _FrozenControl], Usual] = {}

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

    def receive(self, fd: int, most: int) -> int:
        """Receive up to `most`, no more than there are pieces; returns how many came."""
        self._state[:] = self._fresh
        count: int = recvmmsg(fd, self._address, most, 0, None)
        return max(count, 0)

    def receptions(
        self, count: int, usual: Usual, facts: Callable[[ControlMessages], ControlFacts]
    ) -> tuple[list[Reception], bool]:
        """What the last call has received; usual ones that stand on end are one reception.

        Returns:
            Receptions, and whether any is usual.
        """
        full = self._piece_bytes
        if self._state == usual.states[count]:
            return [Reception(self._buffer[: count * full], self.stride, usual.sender)], True
        sizes = self._sizes[:count].tolist()
        for index, size in enumerate(sizes):
            if 0 < size < full and not size % self.stride:
                self._sizes[index] = full  # a shorter call of full packets is as usual as a full one
        found: list[Reception] = []
        is_any_usual, index = False, 0
        while index < count:
            first, index = index, self._usual_until(index, sizes, usual.states)
            if index > first:
                is_any_usual, end = True, (index - 1) * full + sizes[index - 1]
                found.append(Reception(self._buffer[first * full : end], self.stride, usual.sender))
            else:
                found.append(self._reception(index, sizes[index], facts))
                index += 1
        return found, is_any_usual

    def _usual_until(self, first: int, sizes: Sequence[int], states: Sequence[bytes]) -> int:
        """The index behind the usual receptions that begin with the first and stand on end; nothing does behind a
        shorter one.
        """
        end = first
        while end < len(sizes) and self._sizes[end] == self._piece_bytes:
            end += 1
            if sizes[end - 1] < self._piece_bytes:
                break
        if end == first or not self._are_usual(first, first + 1, states):
            return first
        while not self._are_usual(first, end, states):
            end -= 1
        return end

    def _are_usual(self, first: int, end: int, states: Sequence[bytes]) -> bool:
        state, model, name = self._state, states[end], self._name_bytes
        for start, size in ((0, MESSAGE_BYTES), (self._controls, CONTROL_BYTES), (self._names, name)):
            part = slice(start + first * size, start + end * size)
            if state[part] != model[part]:
                return False
        return True

    def _reception(self, index: int, size: int, facts: Callable[[ControlMessages], ControlFacts]) -> Reception:
        start, name = index * self._piece_bytes, self._names + index * self._name_bytes
        packets = self._buffer[start : start + min(size, self._piece_bytes)]
        if size > self._piece_bytes:
            beyond = index * self._beyond_bytes
            packets = memoryview(bytes(packets) + self._beyond[beyond : beyond + size - self._piece_bytes])
        header = Message.from_buffer(self._state, index * MESSAGE_BYTES).header
        control = self._controls + index * CONTROL_BYTES
        stride, is_marked, _ = facts(_control_messages(bytes(self._state[control : control + header.control_length])))
        sender = _socket_name(bytes(self._state[name : name + self._name_bytes]))
        return Reception(packets, stride or size, sender, is_marked)

    def usual(self, sender: SocketAddress, control: _FrozenControl) -> Usual:
        """What full calls from this sender look like, with these control messages."""
        key = sender, control
        return self._usual.get(key) or self._expect(key)

    def _expect(self, key: tuple[SocketAddress, _FrozenControl]) -> Usual:
        while len(self._usual) >= KNOWN_PORTS:
            del self._usual[next(iter(self._usual))]
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
        usual = self._usual[key] = Usual(sender, states)
        return usual


@lru_cache(maxsize=KNOWN_PORTS)
def read_control(control: _FrozenControl) -> ControlFacts:
    """What the kernel reports beside the bytes of a reception."""
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
def _control_messages(written: bytes) -> ControlMessages:
    control, start = [], 0
    while start + CONTROL_HEADER.size <= len(written):
        length, level, kind = CONTROL_HEADER.unpack_from(written, start)
        control.append((level, kind, written[start + CONTROL_HEADER.size : start + length]))
        start += socket.CMSG_SPACE(length - CONTROL_HEADER.size)
    return control


@lru_cache(maxsize=KNOWN_PORTS)
def _socket_name(name: bytes) -> SocketAddress:
    if len(name) == V4_NAME_BYTES:
        return socket.inet_ntoa(name[4:8]), _PORT.unpack_from(name, 2)[0]
    port, flow = _PORT_AND_FLOW.unpack_from(name, 2)
    return socket.inet_ntop(socket.AF_INET6, name[8:24]), port, flow, _SCOPE.unpack_from(name, 24)[0]
