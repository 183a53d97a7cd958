"""Several calls that the kernel cuts into datagrams, in one system call: sendmmsg(2)."""

from __future__ import annotations

import ctypes
from typing import Any

from agents.transports.roce.system_calls import (
    MESSAGE_BYTES,
    Header,
    Message,
    Piece,
    address_of,
    control_bytes,
    cut_message,
    name_bytes,
    sendmmsg,
)
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.payload import Staging


class SendBatch:
    """Calls of packets that stand in a staging buffer.

    Args:
        staging: where they stand; whose they are may change from one call of `send` to the next.
        is_v6: of the addresses that they go to.
    """

    def __init__(self, staging: Staging, *, is_v6: bool) -> None:
        self.staging = staging
        self._per_call, self._is_compact, self._stride = (
            staging.payload.per_call,
            staging.is_compact,
            staging.packet_bytes,
        )
        self._step = staging.step
        self._buffer, self._content = address_of(staging.buffer), address_of(staging.content)
        calls = -(-staging.slots // self._per_call)
        self._per_message = 2 * self._per_call + 1 if self._is_compact else 1
        self._name = ctypes.create_string_buffer(name_bytes(is_v6=is_v6))
        control = control_bytes(cut_message(staging.packet_bytes))
        self._control = ctypes.create_string_buffer(control, len(control))
        self._pieces = (Piece * (calls * self._per_message))()
        self._messages = (Message * calls)()
        for index, message in enumerate(self._messages):
            header = message.header
            header.name, header.name_length = ctypes.addressof(self._name), len(self._name)
            header.pieces = ctypes.pointer(self._pieces[index * self._per_message])
            header.piece_count = self._per_message
            header.control, header.control_length = ctypes.addressof(self._control), len(self._control)
        self._counts, self._lengths = _fields(self._messages, Header.piece_count), _fields(self._pieces, Piece.length)
        self._named = b""
        self._starts: dict[int, int] = {}  # slot → address of the message that begins with it
        self._lay_out(0)

    def send(self, fd: int, name: bytes, slot: int, count: int) -> int:
        """Hand over `count` packets from `slot` on, not beyond the last slot.

        Args:
            fd: of the socket.
            name: see `socket_address`.

        Returns:
            How many packets the kernel took, of whole calls. Where it took fewer, the next call has a problem: sent
            alone, it says which.
        """
        if name is not self._named:
            self._name.raw = self._named = name
        start = self._starts.get(slot)
        if start is None:
            start = self._lay_out(slot)
        calls, rest = divmod(count, self._per_call)
        if rest:
            return self._send_less(fd, start, calls, rest)
        taken: int = sendmmsg(fd, start, calls, 0)
        return self._per_call * taken if taken > 0 else 0

    def _send_less(self, fd: int, start: int, calls: int, rest: int) -> int:
        """So many full calls, and one of `rest` packets."""
        last = (start - ctypes.addressof(self._messages)) // MESSAGE_BYTES + calls
        self._end_after(last, rest)
        taken: int = sendmmsg(fd, start, calls + 1, 0)
        self._end_after(last, self._per_call)
        return min(calls * self._per_call + rest, self._per_call * max(0, taken))

    def _lay_out(self, slot: int) -> int:
        """Have messages begin with that slot; returns the address of the first.

        An ICRC and the next packet's header stand on end, and are one piece.
        """
        begin = ctypes.addressof(self._messages)
        places = range(slot, self.staging.slots, self._per_call)
        self._starts = {place: begin + index * MESSAGE_BYTES for index, place in enumerate(places)}
        for index in range(len(self._messages)):
            start = self._buffer + (slot + index * self._per_call) * self._step
            first = index * self._per_message
            self._pieces[first].base = start
            if self._is_compact:
                for packet in range(self._per_call):
                    content, icrc = self._pieces[first + 2 * packet + 1], self._pieces[first + 2 * packet + 2]
                    content.base, content.length = self._content, self._stride - BTH_BYTES - ICRC_BYTES
                    icrc.base, icrc.length = start + packet * self._step + BTH_BYTES, self._step
                self._pieces[first].length = BTH_BYTES
            self._end_after(index, self._per_call)
        return begin

    def _end_after(self, index: int, packets: int) -> None:
        """A call has so many packets; `per_call` again undoes it."""
        first, counts, lengths = index * self._per_message, self._counts, self._lengths
        if not self._is_compact:
            lengths[first] = packets * self._stride
            return
        last = counts[index] - 1
        if last < 2 * self._per_call:
            lengths[first + last] = self._step
        counts[index] = 2 * packets + 1
        lengths[first + 2 * packets] = ICRC_BYTES


def _fields(array: Any, field: Any) -> memoryview:
    """That field, a size_t, of all structures in an array."""
    size = ctypes.sizeof(ctypes.c_size_t)
    words = memoryview(array).cast("B").cast("P")
    step: int = ctypes.sizeof(array[0]) // size
    return words[field.offset // size :: step]
