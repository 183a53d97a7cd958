"""Background traffic over one TCP connection: messages with a header, which the receiver confirms.

A message begins with 16 bytes: its size and the tag of the flow. For every one that is complete the receiver sends a
byte back.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections import deque
from typing import cast

from agents.annexes.background.ends import FlowTally, open_socket
from emulator.errors import HostError, RunError
from emulator.flows.background import TCP_HEADER_BYTES, BackgroundTask

_HEADER = struct.Struct(">QQ")
_PIECE_BYTES = 1 << 18
_RETRY_S = 0.05
_LARGEST_BUFFERED_BYTES = 1 << 16
"""What asyncio keeps in addition to the socket's buffer."""


class TcpSender:
    """The sending end. Implements SendingEnd."""

    def __init__(self, task: BackgroundTask, device: str | None) -> None:
        assert _HEADER.size == TCP_HEADER_BYTES
        self._task, self._device = task, device
        self._waiting: deque[tuple[int, int]] = deque()  # size and due time of messages
        self._unconfirmed: deque[tuple[int, int]] = deque()
        self._changed = asyncio.Event()
        self._is_finishing = False
        self._work: asyncio.Task[None] | None = None
        self.tally = FlowTally(task.schedule.wire)

    async def open(self) -> None:
        """See End."""
        loop = asyncio.get_running_loop()
        while True:
            sock = open_socket(self._task, socket.SOCK_STREAM, self._device, 0)
            try:
                await loop.sock_connect(sock, (self._task.peer_address, self._task.port))
                break
            except ConnectionError:  # its agent has not come so far
                sock.close()
                await asyncio.sleep(_RETRY_S)
            except OSError as error:
                sock.close()
                raise HostError(f"cannot reach {self._task.peer_address}: {error.strerror}") from error
            except BaseException:
                sock.close()
                raise
        self._reader, self._writer = await asyncio.open_connection(sock=sock)
        self._writer.transport.set_write_buffer_limits(_LARGEST_BUFFERED_BYTES)
        self._work = asyncio.create_task(self._exchange())

    async def failed(self) -> None:
        """See End."""
        assert self._work is not None
        await asyncio.shield(self._work)
        await asyncio.get_running_loop().create_future()

    def counted(self) -> None:
        """See End."""

    def offer(self, size_bytes: int, due_ns: int) -> None:
        """See SendingEnd."""
        self._waiting.append((size_bytes, due_ns))

    def send(self) -> None:
        """See SendingEnd."""
        self._changed.set()

    async def finish(self) -> None:
        """See End."""
        self._waiting.clear()
        self._is_finishing = True
        self._changed.set()
        if self._work is not None:
            await asyncio.shield(self._work)

    def close(self) -> None:
        """See End."""
        if self._work is not None:
            self._work.cancel()
            self._writer.transport.abort()

    async def _exchange(self) -> None:
        confirming = asyncio.create_task(self._confirm())
        try:
            await self._write()
            await confirming
        except OSError as error:
            raise RunError(f"the connection to {self._task.peer_address} broke: {error.strerror}") from error
        finally:
            confirming.cancel()

    async def _write(self) -> None:
        piece = memoryview(bytes(_PIECE_BYTES))
        while True:
            while self._waiting:
                size, due_ns = self._waiting.popleft()
                self._unconfirmed.append((size, due_ns))
                head = _HEADER.pack(size, self._task.tag)
                if size <= _PIECE_BYTES:  # one write: the kernel need not send the header by itself
                    self._writer.write(head + piece[:size])
                    await self._writer.drain()
                    continue
                self._writer.write(head + piece[: size % _PIECE_BYTES or _PIECE_BYTES])
                for _ in range(-(-size // _PIECE_BYTES) - 1):
                    await self._writer.drain()
                    self._writer.write(piece)
                await self._writer.drain()
            if self._is_finishing:
                self._writer.write_eof()
                return
            self._changed.clear()
            await self._changed.wait()

    async def _confirm(self) -> None:
        while confirmed := await self._reader.read(1 << 16):
            now = time.monotonic_ns()
            for _ in confirmed:
                size, due_ns = self._unconfirmed.popleft()
                self.tally.complete(size, now, due_ns)
        if not self._is_finishing:
            raise RunError(f"{self._task.peer_address} closed the connection")


class TcpReceiver(asyncio.Protocol):
    """The receiving end, and the protocol of its one connection. Implements End."""

    def __init__(self, task: BackgroundTask, device: str | None) -> None:
        self._task, self._device, self._loop = task, device, asyncio.get_running_loop()
        self._head, self._size, self._left = b"", 0, 0
        self._server: asyncio.Server | None = None
        self._transport: asyncio.Transport | None = None
        self._ended = asyncio.Event()
        self._is_finished = False
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self.tally = FlowTally(task.schedule.wire)

    async def open(self) -> None:
        """See End."""
        sock = open_socket(self._task, socket.SOCK_STREAM, self._device, self._task.port)
        self._server = await self._loop.create_server(lambda: self, sock=sock, backlog=1)

    async def failed(self) -> None:
        """See End."""
        await self._failure

    def counted(self) -> None:
        """See End."""

    async def finish(self) -> None:
        """See End."""
        await self._ended.wait()

    def close(self) -> None:
        """See End."""
        self._is_finished = True
        if self._server is not None:
            self._server.close()
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The sender connects; anybody else is sent away."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is none, but has all its methods
        if self._transport is not None or transport.get_extra_info("peername")[0] != self._task.peer_address:
            transport.abort()
            return
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Count the messages that end in these bytes."""
        at, complete, now = 0, 0, time.monotonic_ns()
        while at < len(data):
            if not self._left:
                need = TCP_HEADER_BYTES - len(self._head)
                self._head += data[at : at + need]
                at += need
                if len(self._head) < TCP_HEADER_BYTES:
                    break
                self._size, tag = _HEADER.unpack(self._head)
                self._left, self._head = self._size, b""
                if tag != self._task.tag:
                    self._fail("sends something other than background traffic of this run")
                    return
            taken = min(self._left, len(data) - at)
            at, self._left = at + taken, self._left - taken
            if not self._left and taken:
                complete += 1
                self.tally.complete(self._size, now)
        if complete and self._transport is not None:
            self._transport.write(bytes(complete))

    def connection_lost(self, error: Exception | None) -> None:
        """The sender has ended, or is gone."""
        self._ended.set()
        if error is not None:
            self._fail(f"is gone ({error})")

    def _fail(self, problem: str) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            if not self._is_finished:
                self._failure.set_exception(RunError(f"{self._task.peer_address} {problem}"))
        if self._transport is not None:
            self._transport.abort()
