"""Transfers over ZeroMQ: a TCP connection per flow, one ROUTER socket for all ranks of an agent.

TCP makes a connection reliable and ordered; what it cannot do is survive the connection, so a lost one is a failure.
ZeroMQ itself would queue without limit: windows and acknowledgements of our own keep little on the way, and tell the
sender what has arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b

import zmq

from agents.transports.base import Address, EndpointEvents, FlowCounters, Silence, Transport
from agents.transports.zmq.flows import (
    HEADER,
    LAST,
    Exchange,
    InFlow,
    OutFlow,
    incoming_name,
    outgoing_name,
    parse_incoming_name,
)
from agents.transports.zmq.monitor import RETRY_MS, ConnectionMonitor
from emulator.errors import HostError, LocalProtocolError, PlanError
from emulator.transports.registry import ZMQ

DEFAULT_WINDOW_MESSAGES = 8
DEFAULT_BUDGET_BYTES = 64 << 20
MESSAGES_PER_PASS = 64
"""Received before the loop's other callbacks get a turn."""

_BACKLOG = 4096  # a whole world may connect at once; the kernel cuts this to its own limit
_SPARE_DESCRIPTORS = 64  # for everything that is not a connection between ranks


class ZmqTransport(Transport):
    """Endpoints for the ranks of one agent, on the running event loop (asyncio's own or uvloop).

    Args:
        message_bytes: payload per message, at most.
        window_messages: full messages per flow that may be on their way.
        budget_bytes: payload of all flows together that may be on its way, about.
        run: agents of one run pass the same text; what others send is dropped, and counted in `strangers`.
        devices: address → the interface that its connections are bound to; others may use any.

    Raises:
        HostError: no socket can be made.
    """

    name = "zmq"

    def __init__(
        self,
        *,
        message_bytes: int = ZMQ.message_bytes,
        window_messages: int = DEFAULT_WINDOW_MESSAGES,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        run: str = "",
        devices: Mapping[str, str] | None = None,
    ) -> None:
        self._devices = devices or {}
        self._run = blake2b(run.encode(), digest_size=8).digest()
        self._endpoints: dict[int, ZmqEndpoint] = {}
        self._flows: dict[bytes, OutFlow | InFlow | _Strangers] = {}
        self._entered: list[ZmqEndpoint] = []
        self._is_passing = self._is_scheduled = False
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._descriptor_limit = _raise_descriptor_limit()
        self._context = zmq.Context()
        self._socket = _open_socket(self._context)
        self._strangers = _Strangers(self._socket)
        self._exchange = Exchange(
            self._socket,
            message_bytes=message_bytes,
            window_bytes=message_bytes * window_messages,
            budget_bytes=budget_bytes,
        )
        self._monitor = ConnectionMonitor(self._socket, refused_peer=self._refused_peer)
        self._fd = self._socket.fileno()
        self._loop.add_reader(self._fd, self._pass)

    async def __aenter__(self) -> ZmqTransport:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def strangers(self) -> int:
        """Messages dropped because no rank of this run's directory sent them."""
        return self._strangers.messages

    def silence(self) -> Silence | None:
        """See Transport."""
        found = (silence for endpoint in self._endpoints.values() for silence in endpoint.silences())
        return min(found, key=lambda silence: silence.since_ns, default=None)

    async def open(self, rank: int, host: str) -> ZmqEndpoint:
        """Bind an endpoint at numeric IP address `host`, port chosen by the system.

        Raises:
            HostError: the address is not on this host, or too many files are open.
            LocalProtocolError: the rank has one already.
        """
        if rank in self._endpoints:
            raise LocalProtocolError(f"rank {rank} has an endpoint already")
        endpoint = self._endpoints[rank] = ZmqEndpoint(self, rank, self._bind(host))
        return endpoint

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for endpoint in self._endpoints.values():
            endpoint.is_closed = True
        self._loop.remove_reader(self._fd)
        self._monitor.close()
        self._socket.close(linger=0)
        self._context.term()

    def _bind(self, host: str) -> Address:
        self._socket.setsockopt(zmq.IPV6, ":" in host)
        self._use_device_of(host)
        try:
            self._socket.bind(f"tcp://{_bracketed(host)}:*")
        except zmq.ZMQError as error:
            raise _bind_error(host, error) from error
        self._schedule_if_readable()
        bound = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return Address(host, int(bound.rpartition(":")[2]))

    def _use_device_of(self, host: str) -> None:
        """What the socket binds and connects next goes through the interface of an address of ours."""
        if host in self._devices:  # of one agent all have one, or none: it cannot be taken back
            self._socket.setsockopt(zmq.BINDTODEVICE, self._devices[host].encode())

    # For endpoints.

    def connect_flow(self, owner: ZmqEndpoint, peer: int, address: Address) -> OutFlow:
        """Open the connection that carries what `owner` sends to `peer`."""
        flow = OutFlow(self._exchange, owner, peer=peer, name=outgoing_name(self._run, owner.rank, peer))
        if self._monitor.connections + _SPARE_DESCRIPTORS >= self._descriptor_limit:
            flow.drop(f"it would take more than {self._descriptor_limit} open files; raise `ulimit -n`")
            return flow
        remote = _remote(owner.address, address)
        self._flows[flow.name] = flow
        self._monitor.watch(remote, lambda reason: self._lost(flow, remote, reason))
        self._socket.setsockopt(zmq.IPV6, ":" in address.host)
        self._use_device_of(owner.address.host)
        self._socket.setsockopt(zmq.ROUTING_ID, incoming_name(self._run, owner.rank, peer))
        self._socket.setsockopt(zmq.CONNECT_ROUTING_ID, flow.name)
        self._socket.connect(remote)
        self._schedule_if_readable()
        return flow

    def entered(self, endpoint: ZmqEndpoint) -> None:
        """`endpoint` has its directory: deliver, on the next pass, what came before."""
        self._entered.append(endpoint)
        self._schedule()

    def settle(self) -> None:
        """Send what was posted; inside a pass its end does that."""
        if not (self._is_passing or self.is_closed):
            self._exchange.settle()
            self._schedule_if_readable()

    def call_soon(self, report: Callable[[], None]) -> None:
        """Report from the loop, not from inside a post."""
        self._loop.call_soon(report)

    def retire(self, endpoint: ZmqEndpoint, peers: Mapping[int, Address]) -> None:
        """Close the listener of an endpoint, with what it accepted, and its connections to `peers`."""
        with contextlib.suppress(zmq.ZMQError):
            self._socket.unbind(f"tcp://{_bracketed(endpoint.address.host)}:{endpoint.address.port}")
        for peer, address in peers.items():
            self._flows.pop(outgoing_name(self._run, endpoint.rank, peer), None)
            self._disconnect(_remote(endpoint.address, address))
        self._schedule_if_readable()

    # Trouble with connections.

    def _disconnect(self, remote: str) -> None:
        self._monitor.forget(remote)
        with contextlib.suppress(zmq.ZMQError):  # ZeroMQ may have given it up itself
            self._socket.disconnect(remote)

    def _lost(self, flow: OutFlow, remote: str, reason: str) -> None:
        self._disconnect(remote)  # else ZeroMQ would connect again, silently
        self._schedule_if_readable()
        flow.lose(reason)

    def _refused_peer(self, where: str, reason: str) -> None:
        for endpoint in self._endpoints.values():
            if where == f"tcp://{_bracketed(endpoint.address.host)}:{endpoint.address.port}":
                endpoint.fail(endpoint.rank, f"{reason}; raise `ulimit -n`")

    # Passes: take a bounded number of messages, then send what that made possible.

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pass)

    def _schedule_if_readable(self) -> None:
        # The descriptor tells of new messages only once, and any other use of the socket may have swallowed that.
        if int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._schedule()

    def _pass(self) -> None:
        self._is_scheduled = False
        if self.is_closed:
            return
        self._is_passing = True
        try:
            while self._entered:
                self._entered.pop(0).enter()
            self._take_messages()
        finally:
            self._is_passing = False
            self.settle()

    def _take_messages(self) -> None:
        receive, flows, scratch = self._exchange.receive, self._flows, bytearray(HEADER.size)
        try:
            for _ in range(MESSAGES_PER_PASS):
                name = receive(LAST)
                flow = flows.get(name)
                if flow is None:
                    flow = self._meet(name)
                flow.receive(scratch)
        except zmq.Again:
            pass
        except zmq.ZMQError:
            if not self.is_closed:  # by an event
                raise

    def _meet(self, name: bytes) -> InFlow | _Strangers:
        """The flow of a connection never heard from before."""
        src, dst = parse_incoming_name(name, self._run) or (-1, -1)
        owner = self._endpoints.get(dst)
        if owner is None or not owner.accepts(src):
            return self._strangers
        flow = InFlow(self._exchange, owner, peer=src, name=name)
        self._flows[name] = owner.incoming[src] = flow
        return flow


class ZmqEndpoint:
    """One rank's place on the network; made by `ZmqTransport.open`."""

    def __init__(self, transport: ZmqTransport, rank: int, address: Address) -> None:
        self.rank, self.address = rank, address
        self.is_live = self.is_closed = False
        self.events: EndpointEvents
        self.incoming: dict[int, InFlow] = {}
        self.arrived: Callable[[int, int, int, int], None] = self._hold
        self._transport = transport
        self._directory: Mapping[int, Address] | None = None
        self._outgoing: dict[int, OutFlow] = {}
        self._failed: set[int] = set()
        self._held: list[tuple[int, int, int, int]] = []

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """Learn where the other ranks listen and who wants to hear; must come before the first post."""
        if self._directory is not None:
            raise LocalProtocolError(f"rank {self.rank} is connected already")
        self._directory, self.events = dict(directory), events
        self._transport.entered(self)

    def post(self, peer: int, tag: int, size: int) -> None:
        """Queue a transfer of `size` bytes to rank `peer`; dropped once closed.

        Raises:
            LocalProtocolError: `peer` is not in the directory.
        """
        if self.is_closed:
            return
        flow = self._outgoing.get(peer)
        if flow is None:
            flow = self._outgoing[peer] = self._transport.connect_flow(self, peer, self._find(peer))
        if flow.broken is None:
            flow.post(tag, size)
        else:
            self.fail(peer, flow.broken)

    def flush(self) -> None:
        """End of a batch: hand everything posted to the network."""
        self._transport.settle()

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that its receivers have, as far as they have said so."""
        return sum(flow.acknowledged_bytes for flow in self._outgoing.values())

    def silences(self) -> Iterator[Silence]:
        """Of every peer that owes an acknowledgement."""
        for peer, flow in self._outgoing.items():
            if flow.silent_since_ns is not None:
                yield Silence(self.rank, peer, flow.silent_since_ns)

    def counters(self) -> Sequence[FlowCounters]:
        """A snapshot for every peer this endpoint has sent to."""
        return [flow.snapshot() for flow in self._outgoing.values()]

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._transport.is_closed:
            return
        for flow in self._outgoing.values():
            flow.drop("closed")
        for incoming in self.incoming.values():
            incoming.is_ignored = True
        directory = self._directory or {}
        self._transport.retire(self, {peer: directory[peer] for peer in self._outgoing})

    def _find(self, peer: int) -> Address:
        if self._directory is None or peer not in self._directory:
            raise LocalProtocolError(f"rank {self.rank} posted to rank {peer}, which is not in its directory")
        return self._directory[peer]

    # For the transport and the flows.

    def accepts(self, peer: int) -> bool:
        """Whether a first message from `peer` is welcome; before the directory is known, nobody can tell."""
        if self.is_closed or peer in self._failed:
            return False
        return self._directory is None or peer in self._directory

    def enter(self) -> None:
        """Deliver what came before the directory, from those who are in it."""
        if self._directory is None or self.is_closed:
            return
        self.is_live = True
        self.arrived = self.events.arrived
        for peer, flow in self.incoming.items():
            flow.is_ignored |= peer not in self._directory
            flow.owe()
        for held in self._held:
            if held[0] in self._directory:
                self.events.arrived(*held)
        self._held.clear()

    def fail(self, peer: int, reason: str) -> None:
        """Give up on `peer`, and report that from the loop, once."""
        if peer in self._failed:
            return
        self._failed.add(peer)
        if peer in self._outgoing:
            self._outgoing[peer].drop(reason)
        if peer in self.incoming:
            self.incoming[peer].is_ignored = True
        self._transport.call_soon(lambda: self._report(peer, reason))

    def _report(self, peer: int, reason: str) -> None:
        if self._directory is not None and not self.is_closed:
            self.events.failed(peer, reason)

    def _hold(self, peer: int, tag: int, size: int, now: int) -> None:
        self._held.append((peer, tag, size, now))


class _Strangers:
    """Where messages from unknown connections end."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.messages = 0
        self._socket = socket

    def receive(self, scratch: bytearray) -> None:
        self.messages += 1
        while self._socket.getsockopt(zmq.RCVMORE):
            self._socket.recv_into(scratch, flags=LAST)


def _open_socket(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    try:
        socket = context.socket(zmq.ROUTER)
    except zmq.ZMQError as error:
        raise HostError(f"cannot make a socket: {error}; raise `ulimit -n`") from error
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # what cannot be sent is an error, never dropped in silence
    socket.setsockopt(zmq.SNDHWM, 0)  # our windows bound what is queued
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.BACKLOG, _BACKLOG)
    socket.setsockopt(zmq.RECONNECT_IVL, RETRY_MS)
    return socket


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # a container may forbid it: the present limit then holds
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def _bind_error(host: str, error: zmq.ZMQError) -> HostError:
    if error.errno in (errno.EADDRNOTAVAIL, errno.ENODEV):
        return HostError(f"{host} is not an address of this host: `ip address` lists those it has")
    remedy = "; raise `ulimit -n`" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
    return HostError(f"cannot listen at {host}: {error.strerror}{remedy}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _remote(local: Address, remote: Address) -> str:
    """ZeroMQ's name for a connection that also leaves from the rank's own address."""
    return f"tcp://{_bracketed(local.host)}:0;{_bracketed(remote.host)}:{remote.port}"


def make(
    *, message_bytes: int, run: str, seed: int, options: Mapping[str, str], devices: Mapping[str, str]
) -> ZmqTransport:
    """See `agents.transports.catalogue.make_transport`; nothing in it is random."""
    if options:
        raise PlanError(f"the transport zmq has no options, but got {', '.join(options)}")
    return ZmqTransport(message_bytes=message_bytes, run=run, devices=devices)
