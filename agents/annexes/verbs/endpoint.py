"""The endpoint of a rank: a NIC, a TCP port where queue pairs are agreed, and a link to every peer.

Two ranks agree on a queue pair over TCP, a JSON record a line.

    connecting end: Request (its end of the queue pair)
    accepting end:  Reply (its end), once it receives on the queue pair
    connecting end: Ready, once it receives as well

The connection stays open as long as the queue pair is used: its end is how a peer that closes is noticed.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from agents.annexes.verbs.link import VerbsLink
from agents.annexes.verbs.nic import Nic, VerbsQpRecord
from agents.transports.base import EndpointEvents, Silence
from emulator.control.conversation import Address
from emulator.control.observations import FlowCounters
from emulator.errors import EmulatorError, HostError, LocalProtocolError, RemoteProtocolError
from emulator.roce.connection.messages import FirstSent

VERSION = 1
_LONGEST_LINE = 4096


class VerbsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="request"):
    """The connecting end.

    Attributes:
        version: of this exchange.
        run: digest of the run.
        rank, peer: who asks, and whom.
        end: of the queue pair.
    """

    version: int
    run: str
    rank: int
    peer: int
    end: VerbsQpRecord


class VerbsReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="reply"):
    """The accepting end."""

    end: VerbsQpRecord


class VerbsReady(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ready"):
    """The connecting end receives."""


T = TypeVar("T", VerbsRequest, VerbsReply, VerbsReady)


def send(writer: asyncio.StreamWriter, record: VerbsRequest | VerbsReply | VerbsReady) -> None:
    """Send a record."""
    writer.write(msgspec.json.encode(record) + b"\n")


async def receive(reader: asyncio.StreamReader, kind: type[T]) -> T:
    """Receive a record.

    Raises:
        RemoteProtocolError: the peer closed the connection, or sent something else.
    """
    try:
        line = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise RemoteProtocolError(
            "it closed the connection before a queue pair was agreed: does it belong to a different version or run?"
        ) from error
    try:
        return msgspec.json.decode(line[:_LONGEST_LINE], type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RemoteProtocolError(f"it did not send a {kind.__name__.lower()} for a queue pair: {error}") from error


class VerbsEndpoint:
    """The endpoint of a rank.

    Args:
        rank: its number.
        host: its address.
        nic: the NIC with that address; it is closed with the endpoint.
        run: digest of the run; peers of other runs are refused.
    """

    stamp_ns = received_ns = stalled_ns = lead_bytes = clock_steps = 0
    """See Endpoint."""

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """See Endpoint."""
        return 0

    def __init__(self, rank: int, host: str, nic: Nic, *, run: str) -> None:
        self.rank, self.nic, self._host, self._run = rank, nic, host, run
        self.address = Address(host, 0)
        self._server: asyncio.Server | None = None
        self._directory: dict[int, Address] | None = None
        self._connected = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._links: dict[int, VerbsLink] = {}
        self._dirty: list[VerbsLink] = []  # posted to since the last flush
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_closed = False
        self.events: EndpointEvents

    async def listen(self) -> None:
        """Begin to accept peers.

        Raises:
            HostError: the address is not on this host.
        """
        try:
            self._server = await asyncio.start_server(self._accept, self._host, 0)
        except OSError as error:
            raise HostError(f"cannot listen at {self._host}: {error.strerror or error}") from error
        self.address = Address(self._host, self._server.sockets[0].getsockname()[1])

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """See Endpoint."""
        if self._directory is not None:
            raise LocalProtocolError(f"rank {self.rank} is connected already")
        self._directory, self.events = dict(directory), events
        self._connected.set()

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """See Endpoint."""
        if self._is_closed:
            return
        link = self._links.get(peer) or self._make_link(peer)
        if not link.is_dirty:
            link.is_dirty = True
            self._dirty.append(link)
        link.post(tag, size)

    def flush(self) -> None:
        """See Endpoint."""
        dirty, self._dirty = self._dirty, []
        for link in dirty:
            link.is_dirty = False
            if link.needs_agreement:
                link.needs_agreement = False
                self._spawn(self._agree(link))
            link.send()

    def collect(self) -> None:
        """See Endpoint."""

    @property
    def acknowledged_bytes(self) -> int:
        """See Endpoint."""
        return sum(link.acknowledged_bytes for link in self._links.values())

    def counters(self) -> Sequence[FlowCounters]:
        """See Endpoint."""
        return [link.counters() for link in self._links.values()]

    def eventful(self) -> Sequence[FlowCounters]:
        """See Endpoint: the device counts for all flows together."""
        return ()

    def silences(self) -> Iterator[Silence]:
        """For every link with messages in flight, since when its peer has acknowledged nothing."""
        for peer, link in self._links.items():
            if (since := link.silent_since_ns) is not None:
                yield Silence(self.rank, peer, since)

    def close(self) -> None:
        """See Endpoint."""
        if self._is_closed:
            return
        self._is_closed = True
        for link in self._links.values():
            link.close()
        self.nic.close()
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.close()

    # Agreeing on queue pairs.

    def _make_link(self, peer: int) -> VerbsLink:
        if self._directory is None or peer not in self._directory:
            raise LocalProtocolError(f"rank {self.rank} posted to rank {peer}, which is not in its directory")
        host = self._directory[peer].host
        link = self._links[peer] = VerbsLink(
            self.rank, peer, host, self.nic, events=self.events, call_soon=self._call_soon
        )
        if peer == self.rank:
            link.needs_agreement = False
            link.connect(link.record)
            link.start()
        return link

    def _call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(lambda: None if self._is_closed else call())

    def _report_failure(self, peer: int, reason: str) -> None:
        self._call_soon(lambda: self.events.failed(peer, reason))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _agree(self, link: VerbsLink) -> None:
        """Agree on the link's queue pair with a peer that was posted to."""
        assert self._directory is not None
        address = self._directory[link.peer]
        try:
            reader, writer = await asyncio.open_connection(address.host, address.port, local_addr=(self._host, 0))
        except OSError as error:
            link.fail(f"cannot connect to {address.host} port {address.port} over TCP: {error.strerror or error}")
            return
        self._writers.add(writer)
        try:
            send(writer, VerbsRequest(VERSION, self._run, self.rank, link.peer, link.record))
            reply = await receive(reader, VerbsReply)
            link.connect(reply.end)
            send(writer, VerbsReady())
            link.start()
            await self._until_gone(reader, link)
        except EmulatorError as error:
            link.fail(str(error))
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Agree on a queue pair with a peer that asks."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        rank, link = -1, None
        try:
            request = await receive(reader, VerbsRequest)
            await self._connected.wait()
            if not self._knows(request, writer.get_extra_info("peername")[0]):
                return
            rank = request.rank
            link = self._links.get(rank) or self._make_link(rank)
            link.needs_agreement = False
            link.connect(request.end)
            send(writer, VerbsReply(link.record))
            await receive(reader, VerbsReady)
            link.start()
            await self._until_gone(reader, link)
        except asyncio.CancelledError:
            return  # closed
        except EmulatorError as error:
            if link is not None:
                link.fail(str(error))
            elif rank >= 0:  # this host cannot make the queue pair
                self._report_failure(rank, str(error))
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    def _knows(self, request: VerbsRequest, host: str) -> bool:
        assert self._directory is not None
        known = self._directory.get(request.rank)
        is_ours = (request.version, request.run, request.peer) == (VERSION, self._run, self.rank)
        return is_ours and known is not None and _is_same(known.host, host) and request.rank != self.rank

    async def _until_gone(self, reader: asyncio.StreamReader, link: VerbsLink) -> None:
        """Wait until the peer closes the connection."""
        try:
            if await reader.read(1):
                raise RemoteProtocolError("it sent more than the agreement on a queue pair")
        except OSError:
            pass
        if not self._is_closed:
            self.nic.poll()  # what it has acknowledged counts
            link.peer_closed()


def _is_same(host: str, other: str) -> bool:
    return ipaddress.ip_address(host) == ipaddress.ip_address(other)
