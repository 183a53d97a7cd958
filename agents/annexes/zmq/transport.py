"""Transfers over ZeroMQ: a TCP connection per flow, one ROUTER socket for all ranks of an agent.

TCP makes a connection reliable and ordered, but a lost connection loses data, so it is a failure. ZeroMQ itself queues
without limit: windows and acknowledgements in this transport limit what is outstanding and report what has arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b

import zmq

from agents.annexes.zmq.flows import (
    HEADER,
    LAST,
    InFlow,
    OutFlow,
    ZmqExchange,
    incoming_name,
    outgoing_name,
    parse_incoming_name,
)
from agents.annexes.zmq.monitor import RETRY_MS, ConnectionMonitor
from agents.transports.base import EndpointEvents, Silence, Transport
from emulator.control.conversation import Address
from emulator.control.observations import FlowCounters
from emulator.errors import HostError, LocalProtocolError
from emulator.roce.connection.messages import FirstSent
from emulator.transports.registry import ZMQ

DEFAULT_WINDOW_MESSAGES = 8
DEFAULT_BUDGET_BYTES = 64 << 20
MESSAGES_PER_PASS = 64
"""Messages received before other callbacks of the event loop run."""

_BACKLOG = 4096  # all ranks may connect at once; the kernel reduces this to its own limit
_SPARE_DESCRIPTORS = 64  # for everything that is not a connection between ranks


class ZmqTransport(Transport):
    """Endpoints for the ranks of one agent, on the running event loop (asyncio's own or uvloop).

    Args:
        message_bytes: maximum payload per message.
        window_messages: full messages per flow that may be unacknowledged.
        budget_bytes: payload of all flows together that may be unacknowledged, approximately.
        run: run id; messages of other runs are dropped and counted in `strangers`.
        devices: address → interface to bind its connections to; other addresses may use any interface.

    Raises:
        HostError: a socket cannot be created.
    """

    name = ZMQ.name

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
        self._exchange = ZmqExchange(
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
        """Messages dropped because their sender is not a rank of this run."""
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
            raise LocalProtocolError(f"rank {rank} already has an endpoint")
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
        """Bind what the socket binds or connects next to the interface of one of this agent's addresses."""
        if host in self._devices:  # an agent's addresses all have an interface, or none has: it cannot be unset
            self._socket.setsockopt(zmq.BINDTODEVICE, self._devices[host].encode())

    # --- called by endpoints ------------------------------------------------------------------------------------
    def connect_flow(self, owner: ZmqEndpoint, peer: int, address: Address) -> OutFlow:
        """Open the connection that carries what `owner` sends to `peer`."""
        flow = OutFlow(self._exchange, owner, peer=peer, name=outgoing_name(self._run, owner.rank, peer))
        if self._monitor.connections + _SPARE_DESCRIPTORS >= self._descriptor_limit:
            flow.drop(f"it needs more than {self._descriptor_limit} open files; raise `ulimit -n`")
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
        """`endpoint` has its directory: the next pass delivers what arrived before."""
        self._entered.append(endpoint)
        self._schedule()

    def settle(self) -> None:
        """Send what was posted; inside a pass this happens at its end."""
        if not (self._is_passing or self.is_closed):
            self._exchange.settle()
            self._schedule_if_readable()

    def call_soon(self, report: Callable[[], None]) -> None:
        """Report from the event loop, not from inside a post."""
        self._loop.call_soon(report)

    def retire(self, endpoint: ZmqEndpoint, peers: Mapping[int, Address]) -> None:
        """Close an endpoint's listener with the connections it accepted, and its connections to `peers`."""
        with contextlib.suppress(zmq.ZMQError):
            self._socket.unbind(f"tcp://{_bracketed(endpoint.address.host)}:{endpoint.address.port}")
        for peer, address in peers.items():
            self._flows.pop(outgoing_name(self._run, endpoint.rank, peer), None)
            self._disconnect(_remote(endpoint.address, address))
        self._schedule_if_readable()

    # --- lost connections ---------------------------------------------------------------------------------------
    def _disconnect(self, remote: str) -> None:
        self._monitor.forget(remote)
        with contextlib.suppress(zmq.ZMQError):  # ZeroMQ may have dropped it already
            self._socket.disconnect(remote)

    def _lost(self, flow: OutFlow, remote: str, reason: str) -> None:
        self._disconnect(remote)  # otherwise ZeroMQ would silently connect again
        self._schedule_if_readable()
        flow.lose(reason)

    def _refused_peer(self, where: str, reason: str) -> None:
        for endpoint in self._endpoints.values():
            if where == f"tcp://{_bracketed(endpoint.address.host)}:{endpoint.address.port}":
                endpoint.fail(endpoint.rank, f"{reason}; raise `ulimit -n`")

    # --- passes: receive a bounded number of messages, then send what they made possible -------------------------
    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pass)

    def _schedule_if_readable(self) -> None:
        # The descriptor reports new messages only once, and any other use of the socket may consume that report.
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
            self._receive_messages()
        finally:
            self._is_passing = False
            self.settle()

    def _receive_messages(self) -> None:
        receive, flows, scratch = self._exchange.receive, self._flows, bytearray(HEADER.size)
        try:
            for _ in range(MESSAGES_PER_PASS):
                name = receive(LAST)
                flow = flows.get(name)
                if flow is None:
                    flow = self._accept(name)
                flow.receive(scratch)
        except zmq.Again:
            pass
        except zmq.ZMQError:
            if not self.is_closed:  # an event may have closed it
                raise

    def _accept(self, name: bytes) -> InFlow | _Strangers:
        """The flow of a new connection."""
        src, dst = parse_incoming_name(name, self._run) or (-1, -1)
        owner = self._endpoints.get(dst)
        if owner is None or not owner.accepts(src):
            return self._strangers
        flow = InFlow(self._exchange, owner, peer=src, name=name)
        self._flows[name] = owner.incoming[src] = flow
        return flow


class ZmqEndpoint:
    """The endpoint of a rank; made by `ZmqTransport.open`."""

    stamp_ns = received_ns = stalled_ns = lead_bytes = clock_steps = 0
    """See Endpoint."""

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """See Endpoint."""
        return 0

    def __init__(self, transport: ZmqTransport, rank: int, address: Address) -> None:
        self.rank, self.address = rank, address
        self.is_live = self.is_closed = False
        self.events: EndpointEvents
        self.incoming: dict[int, InFlow] = {}
        self.arrived: Callable[[int, int, int, int], None] = self._defer
        self._transport = transport
        self._directory: Mapping[int, Address] | None = None
        self._outgoing: dict[int, OutFlow] = {}
        self._failed: set[int] = set()
        self._deferred: list[tuple[int, int, int, int]] = []

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """Set where the other ranks listen and who receives events; must come before the first post."""
        if self._directory is not None:
            raise LocalProtocolError(f"rank {self.rank} is connected already")
        self._directory, self.events = dict(directory), events
        self._transport.entered(self)

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
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

    def collect(self) -> None:
        """See Endpoint."""

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that receivers have acknowledged, in bytes."""
        return sum(flow.acknowledged_bytes for flow in self._outgoing.values())

    def silences(self) -> Iterator[Silence]:
        """The silence of every peer that owes an acknowledgement."""
        for peer, flow in self._outgoing.items():
            if flow.silent_since_ns is not None:
                yield Silence(self.rank, peer, flow.silent_since_ns)

    def counters(self) -> Sequence[FlowCounters]:
        """A snapshot for every peer this endpoint has sent to."""
        return [flow.snapshot() for flow in self._outgoing.values()]

    def eventful(self) -> Sequence[FlowCounters]:
        """See Endpoint: TCP does not say what it repeats."""
        return ()

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

    # --- called by the transport and the flows ------------------------------------------------------------------
    def accepts(self, peer: int) -> bool:
        """Whether to accept a first message from `peer`; without a directory every peer is accepted for now."""
        if self.is_closed or peer in self._failed:
            return False
        return self._directory is None or peer in self._directory

    def enter(self) -> None:
        """Deliver what arrived before the directory, from peers that are in it."""
        if self._directory is None or self.is_closed:
            return
        self.is_live = True
        self.arrived = self.events.arrived
        for peer, flow in self.incoming.items():
            flow.is_ignored |= peer not in self._directory
            flow.owe()
        for arrival in self._deferred:
            if arrival[0] in self._directory:
                self.events.arrived(*arrival)
        self._deferred.clear()

    def fail(self, peer: int, reason: str) -> None:
        """Give up on `peer` and report it once, from the event loop."""
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

    def _defer(self, peer: int, tag: int, size: int, now: int) -> None:
        self._deferred.append((peer, tag, size, now))


class _Strangers:
    """Receives, counts and drops messages from unknown connections."""

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
        raise HostError(f"cannot create a socket: {error}; raise `ulimit -n`") from error
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a message that cannot be sent is an error, not dropped silently
    socket.setsockopt(zmq.SNDHWM, 0)  # the flows' windows bound what is queued
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.BACKLOG, _BACKLOG)
    socket.setsockopt(zmq.RECONNECT_IVL, RETRY_MS)
    return socket


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # if a container forbids it, the present limit applies
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def _bind_error(host: str, error: zmq.ZMQError) -> HostError:
    if error.errno in (errno.EADDRNOTAVAIL, errno.ENODEV):
        return HostError(f"{host} is not an address of this host: `ip address` lists its addresses")
    remedy = "; raise `ulimit -n`" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
    return HostError(f"cannot listen at {host}: {error.strerror}{remedy}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _remote(local: Address, remote: Address) -> str:
    """ZeroMQ's name of a connection from the rank's own address."""
    return f"tcp://{_bracketed(local.host)}:0;{_bracketed(remote.host)}:{remote.port}"


def make(*, message_bytes: int, run: str, seed: int, options: None, devices: Mapping[str, str]) -> ZmqTransport:
    """See `agents.transports.catalogue.make_transport`; this transport has no options and uses no randomness."""
    return ZmqTransport(message_bytes=message_bytes, run=run, devices=devices)
