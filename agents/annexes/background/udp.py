"""Background traffic over plain UDP: numbered datagrams, which the receiver counts.

A datagram begins with 32 bytes: the tag of the flow, the number of datagrams of its message, its number in the flow,
the number of its message, a checksum of the identity of the sender's clock, and when the message was due on it. One
with 0 datagrams ends the flow; its number is that of all before.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time
from collections import deque
from zlib import crc32

from agents.annexes.background.ends import FlowTally, open_socket
from agents.annexes.background.gaps import Gaps, Pauses
from agents.nic.stamps import STAMP_SPACE, Stamps, stamp_ns
from agents.nic.system_calls import SO_TIMESTAMPNS, UDP_GRO, cut_message
from emulator.control.flows import FlowGap
from emulator.errors import HostError
from emulator.flows.background import UDP_HEADER_BYTES, BackgroundTask
from emulator.host.clock import clock_id
from emulator.roce.tuning import LARGEST_CALL_BYTES, LARGEST_RECEPTION_BYTES, MOST_SEGMENTS

_HEADER = struct.Struct(">IIQIIQ")
_CALLS_PER_TURN = 32
"""Calls after which the ranks of the agent have their turn."""
_FULL = (errno.EAGAIN, errno.ENOBUFS)
_PASSING = (errno.ECONNREFUSED, errno.EPERM, errno.EINTR)  # EPERM: a filter of this host dropped it
_MOST_INCOMPLETE = 1 << 16
"""Messages that lack datagrams and are remembered: more have lost some."""
_CONTROL_BYTES = socket.CMSG_SPACE(4) + STAMP_SPACE
_RETRY_S, _END_GAP_S, _ENDS = 0.001, 0.02, 3


class UdpSender:
    """The sending end. Implements SendingEnd."""

    def __init__(self, task: BackgroundTask, device: str | None) -> None:
        assert _HEADER.size == UDP_HEADER_BYTES
        self._task, self._device, self._loop = task, device, asyncio.get_running_loop()
        self._to = (task.peer_address, task.port)
        self._stride = task.schedule.wire.packet_bytes + UDP_HEADER_BYTES
        most_bytes = task.options.call_bytes or LARGEST_CALL_BYTES
        self._per_call = max(1, min(MOST_SEGMENTS, most_bytes // self._stride))
        self._buffer = bytearray(self._per_call * self._stride)
        self._view, self._cut = memoryview(self._buffer), cut_message(self._stride)
        self._clock = crc32(clock_id().encode())
        self._waiting: deque[tuple[int, int]] = deque()  # size and due time of messages
        self._sent_of_first = 0  # datagrams
        self._is_scheduled = self._is_closed = False
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._pauses = Pauses(task.schedule.interval_ns)
        self.tally = FlowTally(task.schedule.wire, packets=0)

    async def open(self) -> None:
        """See End."""
        self._socket = open_socket(self._task, socket.SOCK_DGRAM, self._device, 0)

    async def failed(self) -> None:
        """See End."""
        await self._failure

    def counted(self) -> None:
        """See End."""
        self.tally.gaps = self._pauses.found()

    def offer(self, size_bytes: int, due_ns: int) -> None:
        """See SendingEnd."""
        self._waiting.append((size_bytes, due_ns))

    def send(self) -> None:
        """See SendingEnd."""
        if not self._is_scheduled:
            self._turn()

    async def finish(self) -> None:
        """See End."""
        self._waiting.clear()
        for _ in range(_ENDS):
            _HEADER.pack_into(self._buffer, 0, self._task.tag, 0, self.tally.packets or 0, 0, self._clock, 0)
            self._call(UDP_HEADER_BYTES, 1)
            await asyncio.sleep(_END_GAP_S)

    def close(self) -> None:
        """See End."""
        self._is_closed = True
        self._waiting.clear()
        if hasattr(self, "_socket"):
            self._socket.close()

    def _turn(self) -> None:
        self._is_scheduled = False
        calls = _CALLS_PER_TURN
        while self._waiting and not self._is_closed:
            if not calls:
                self._is_scheduled = True
                self._loop.call_soon(self._turn)
                return
            calls -= 1
            if not self._send_some():
                self._is_scheduled = True
                self._loop.call_later(_RETRY_S, self._turn)
                return

    def _send_some(self) -> bool:
        """Send what fits one call of the first message that waits; False: the kernel takes nothing now."""
        (size, due_ns), first = self._waiting[0], self._sent_of_first
        payload = self._stride - UDP_HEADER_BYTES
        total = -(-size // payload)
        count = min(self._per_call, total - first)
        sent, message = self.tally.packets or 0, self.tally.messages & 0xFFFFFFFF
        for place in range(count):
            _HEADER.pack_into(
                self._buffer, place * self._stride, self._task.tag, total, sent + place, message, self._clock, due_ns
            )
        length = count * self._stride
        if first + count == total:
            length -= total * payload - size
        if not self._call(length, count):
            return False
        self.tally.packets = sent + count
        self._sent_of_first = first + count
        now = time.monotonic_ns()
        self._pauses.sent(now)
        if self._sent_of_first == total:
            self._sent_of_first = 0
            self._waiting.popleft()
            self.tally.complete(size, now)
        return True

    def _call(self, length: int, datagrams: int) -> bool:
        try:
            self._socket.sendmsg([self._view[:length]], self._cut if datagrams > 1 else (), 0, self._to)
        except OSError as error:
            if error.errno in _FULL:
                return False
            if error.errno not in _PASSING and not self._failure.done():
                self.close()
                self._failure.set_exception(HostError(f"cannot send to {self._to[0]}: {error.strerror}"))
        return True


class UdpReceiver:
    """The receiving end. Implements End."""

    def __init__(self, task: BackgroundTask, device: str | None) -> None:
        self._task, self._device, self._loop = task, device, asyncio.get_running_loop()
        self._clock = crc32(clock_id().encode())
        self._buffer = bytearray(LARGEST_RECEPTION_BYTES)
        self._missing: dict[int, tuple[int, int]] = {}  # message → datagrams that have not come, bytes that have
        self._gaps, self._stamps = Gaps(), Stamps()
        self._ended = asyncio.Event()
        self._over_ns: int | None = None  # when the job was, or this end was closed
        self._is_closed = False
        self.tally = FlowTally(task.schedule.wire, packets=0, lost=0)

    async def open(self) -> None:
        """See End."""
        self._socket = sock = open_socket(self._task, socket.SOCK_DGRAM, self._device, self._task.port)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._loop.add_reader(sock.fileno(), self._read)

    async def failed(self) -> None:
        """See End."""
        await self._loop.create_future()

    async def finish(self) -> None:
        """See End."""
        self._over_ns = time.monotonic_ns()
        await self._ended.wait()

    def counted(self) -> None:
        """See End."""
        gaps = self._gaps
        self.tally.lost = gaps.next - (self.tally.packets or 0)
        self.tally.gaps = gaps.found()
        over_ns = None if self._ended.is_set() else self._over_ns
        if over_ns is not None and gaps.last_ns is not None and gaps.last_ns < over_ns:
            self.tally.gaps = [*self.tally.gaps, FlowGap(gaps.last_ns, over_ns)]

    def close(self) -> None:
        """See End."""
        if not self._is_closed and hasattr(self, "_socket"):
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._over_ns = self._over_ns or time.monotonic_ns()
        self._is_closed = True

    def _read(self) -> None:
        for _ in range(_CALLS_PER_TURN):
            try:
                length, control, _, sender = self._socket.recvmsg_into([self._buffer], _CONTROL_BYTES)
            except BlockingIOError:
                return
            if sender[0] != self._task.peer_address:
                continue
            stride, now = length, time.monotonic_ns()
            came_ns = now
            for _, kind, data in control:
                if kind == UDP_GRO:
                    stride = int.from_bytes(data[:4], "little")
                elif kind == SO_TIMESTAMPNS:
                    came_ns = self._stamps.monotonic(stamp_ns(data))
            if stride >= UDP_HEADER_BYTES:
                self._take(length, stride, now, came_ns)

    def _take(self, length: int, stride: int, now: int, came_ns: int) -> None:
        tally, buffer, gaps = self.tally, self._buffer, self._gaps
        for start in range(0, length - UDP_HEADER_BYTES + 1, stride):
            tag, total, number, message, clock, due_ns = _HEADER.unpack_from(buffer, start)
            if tag != self._task.tag:
                continue
            if not total:
                gaps.ended(number, came_ns)
                self._ended.set()
                continue
            is_timed = clock == self._clock
            gaps.came(number, came_ns, came_ns - due_ns if is_timed else None)
            tally.packets = (tally.packets or 0) + 1
            missing, size = self._missing.pop(message, (total, 0))
            size += min(stride, length - start) - UDP_HEADER_BYTES
            if missing > 1:
                self._missing[message] = (missing - 1, size)
                if len(self._missing) > _MOST_INCOMPLETE:
                    del self._missing[next(iter(self._missing))]
            else:
                tally.complete(size, now, due_ns if is_timed else None)
