"""The connection to a perftest, and time limits for whatever the peer has to send.

Addresses are those of the peer, and of this host towards it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Generator
from contextlib import suppress
from typing import Protocol, TypeVar

from agents.annexes.peer.exchange import Swap
from emulator.errors import HostError, InputError, RemoteProtocolError, RunError
from emulator.roce.constants import UDP_PORT

T = TypeVar("T")

ANSWER_S = 10.0
"""How long the peer can take for a block: it registers memory and connects its queue pairs in between."""
BEGIN_S = 600.0
"""How long a peer can take to begin: flows of a run wait for its job."""
CONNECT_S = 2.0
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 3))


class BlockStream(Protocol):
    """Carries blocks in both directions.

    Attributes:
        host, peer_host: numeric addresses of both ends.
        ended: set once the peer sends no more.
    """

    host: str
    peer_host: str
    ended: asyncio.Event

    def write(self, block: bytes) -> None:
        """Send a block."""
        ...

    async def read(self, size: int) -> bytes:
        """Receive a block of `size` bytes.

        Raises:
            IncompleteReadError: the peer has ended the connection.
            OSError: the connection is lost.
        """
        ...

    async def until_closed(self) -> None:
        """Send no more, and wait until the peer closes the connection; blocks that it still sends are discarded."""
        ...

    def close(self) -> None:
        """Close at once."""
        ...


class _Protocol(asyncio.StreamReaderProtocol):
    """Sets `ended` once the peer sends no more."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self.reader, self.ended = reader, asyncio.Event()

    def eof_received(self) -> bool | None:
        self.ended.set()
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()
        if error is not None:
            self.reader.set_exception(error)
        super().connection_lost(None)  # nobody waits for the close: asyncio would print the error that it keeps for it


class TcpStream:
    """A TCP connection. Implements Stream.

    Args:
        reader, writer: its streams.
        ended: set once the peer sends no more.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ended: asyncio.Event) -> None:
        self._reader, self._writer, self.ended = reader, writer, ended
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a peer that has lost power sends no FIN
        for option, value in _KEEPALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        self.host = _plain(connection.getsockname()[0])
        self.peer_host = _plain(connection.getpeername()[0])

    def write(self, block: bytes) -> None:
        """See Stream."""
        self._writer.write(block)

    async def read(self, size: int) -> bytes:
        """See Stream."""
        return await self._reader.readexactly(size)

    async def until_closed(self) -> None:
        """See Stream."""
        with suppress(OSError):
            self._writer.write_eof()
            while await self._reader.read(4096):
                pass

    def close(self) -> None:
        """See Stream."""
        self._writer.close()


class Conversation:
    """The exchange over one connection.

    Args:
        stream: the connection.
        is_client: this end has connected, so it sends first.
    """

    def __init__(self, stream: BlockStream, *, is_client: bool) -> None:
        self.stream, self.is_client = stream, is_client
        self.host, self.peer_host, self.ended = stream.host, stream.peer_host, stream.ended

    async def play(self, part: Generator[Swap, bytes, T], *, first_s: float | None = ANSWER_S) -> T:
        """Play a part of the exchange.

        Args:
            part: see agents.annexes.peer.exchange.
            first_s: how long the peer can take for its first block, s; None: as long as it lives.

        Returns:
            What the part returns.

        Raises:
            RunError: the peer is gone, or takes too long.
            RemoteProtocolError: it sent something else.
        """
        limit_s, answer = first_s, None
        while True:
            try:
                swap = next(part) if answer is None else part.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.is_client:
                self.stream.write(swap.block)
            try:
                async with asyncio.timeout(limit_s):
                    answer = await self.stream.read(swap.expected_bytes)
            except asyncio.IncompleteReadError as error:
                raise self._ended(swap.what, error.partial) from error
            except TimeoutError as error:
                raise RunError(
                    f"{self.peer_host} did not send {swap.what} within {limit_s:g} s: "
                    "does it run the same test with the same options?"
                ) from error
            except OSError as error:
                raise RunError(
                    f"{self.peer_host}: the connection ended before it sent {swap.what} ({error})"
                ) from error
            if not self.is_client:
                self.stream.write(swap.block)
            limit_s = ANSWER_S

    def _ended(self, what: str, partial: bytes) -> RunError | RemoteProtocolError:
        if partial:
            return RemoteProtocolError(f"{self.peer_host} sent {partial!r} instead of {what} and closed the connection")
        return RunError(
            f"{self.peer_host} closed the connection before it sent {what}: its own output has the reason, such as a "
            f"failed queue pair or different options"
        )


def _plain(host: str) -> str:
    """An address as records have it: an IPv4 address is not written as an IPv6 one, and no zone is named."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


async def connect(host: str, port: int, *, local: str | None = None) -> Conversation:
    """Connect to a perftest that runs as server.

    Args:
        host, port: of the server.
        local: address to connect from; None: the one that the system chooses.

    Raises:
        RunError: it cannot be reached.
    """
    reader = asyncio.StreamReader()
    protocol = _Protocol(reader)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            own = None if local is None else (local, 0)
            transport, _ = await loop.create_connection(lambda: protocol, host, port, local_addr=own)
    except (socket.gaierror, UnicodeError) as error:
        raise InputError(f"{host}: no such host") from error
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_S:g} s"
        raise RunError(f"no perftest listens at {host}, port {port} ({reason}): start its server first") from error
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    return Conversation(TcpStream(reader, writer, protocol.ended), is_client=True)


async def accept(port: int, *, allowed: str) -> Conversation:
    """Wait for a perftest that runs as client.

    Args:
        port: TCP port, at all addresses.
        allowed: the only address that is accepted; others are closed at once.

    Raises:
        HostError: the port is in use.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[Conversation] = loop.create_future()

    class Accepting(_Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            assert isinstance(transport, asyncio.Transport)
            if arrived.done() or _plain(transport.get_extra_info("peername")[0]) != allowed:
                transport.close()
                return
            reader = self.reader
            writer = asyncio.StreamWriter(transport, self, reader, loop)
            arrived.set_result(Conversation(TcpStream(reader, writer, self.ended), is_client=False))

    try:
        server = await loop.create_server(lambda: Accepting(asyncio.StreamReader()), None, port, backlog=1)
    except OSError as error:
        raise HostError(
            f"cannot listen on TCP port {port} ({error.strerror or error}): give another --port here and to the peer"
        ) from error
    try:
        return await arrived
    finally:
        server.close()


def resolved(host: str) -> str:
    """The numeric address of a host.

    Raises:
        InputError: there is no such host.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InputError(f"{host}: no such host") from error
    return str(ipaddress.ip_address(found[0][4][0]))


def address_towards(host: str) -> str:
    """The address that this host uses towards another one.

    Raises:
        HostError: there is no route.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, UDP_PORT))
        except OSError as error:
            raise HostError(f"there is no route to {host} ({error.strerror})") from error
        return str(probe.getsockname()[0])
