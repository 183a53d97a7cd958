"""Transfers over RoCEv2: reliable connections on unprivileged UDP sockets, what a NIC would do done in batches.

One epoll descriptor stands for the sockets of all ranks of an agent. A pass takes what is there, and acknowledges
when nothing more is: so a busy agent answers many packets at once, and an idle one at once.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from agents.roce.headers import P_KEYS
from agents.roce.messages import Delivered, Message, Verb
from agents.roce.queue_pair import QueuePair
from agents.roce.runs import BTH
from agents.timer import TimerfdClock
from agents.transports.base import DEFAULT_MESSAGE_BYTES, Address, EndpointEvents, FlowCounters, Transport
from agents.transports.roce_channel import FIRST_QPN, Channel, Ends, data_traffic_class, first_psn, shared_state
from agents.transports.roce_options import RoceOptions
from agents.transports.roce_sockets import IPV6_TCLASS, SO_RXQ_OVFL, UDP_GRO, Listener, Senders
from agents.transports.roce_transfers import Incoming, Outgoing
from emulator.errors import LocalProtocolError

ROUNDS_PER_PASS = 4
"""How often a pass looks for more before the loop's other callbacks get a turn."""
RECEPTIONS_PER_TURN = 16
"""Calls that one socket may take before the next socket's turn."""
MOST_WINDOW_BYTES = 2 << 20
LEAST_WINDOW_PACKETS = 16
LONGEST_NS_UNACKNOWLEDGED = 10_000_000
"""A reply waits for an idle moment, but not longer than this, nor than an eighth of the peer's timeout."""

_DRAIN_BYTES = 16 << 10  # after a reception as large as this, more is likely to wait at the same socket
_CONTROL_BYTES = 96  # three control messages
_INT = struct.Struct("=i")
_CE = 3
_LONGEST_SUSPICION_NS = 250_000_000
_SWEEP_NS = (1_000_000, 20_000_000)


class RoceTransport(Transport):
    """Endpoints for the ranks of one agent, on the running event loop (asyncio's own or uvloop).

    Args:
        message_bytes: payload per message, at most.
        options: see RoceOptions.
        seed: of everything random; all agents of a run have the same.
        run: agents of one run pass the same text: keys and first sequence numbers depend on it.
    """

    name = "roce"

    def __init__(
        self,
        *,
        message_bytes: int = DEFAULT_MESSAGE_BYTES,
        options: RoceOptions | None = None,
        seed: int = 0,
        run: str = "",
    ) -> None:
        self.options = options = options or RoceOptions()
        self.message_bytes = message_bytes
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._clock = TimerfdClock(self._loop)
        digest = int.from_bytes(blake2b(f"{run}/{seed}".encode(), digest_size=8).digest())
        self.shared = shared_state(
            options=options,
            clock=self._clock,
            senders=Senders(traffic_class=data_traffic_class(options)),
            seed=digest,
            rkey=digest & 0xFFFFFFFF,
            payload_seed=seed if options.payload == "random" else None,
        )
        self._endpoints: dict[int, RoceEndpoint] = {}
        self._by_fd: dict[int, RoceEndpoint] = {}
        self._epoll = select.epoll()
        self._has_sweep = self._is_scheduled = False
        self._suspected_ns = 0  # when somebody first wondered what is overdue; 0: nobody has
        self._longest_unacknowledged_ns = min(LONGEST_NS_UNACKNOWLEDGED, 4096 << options.qp_timeout >> 3)
        self._sweep_ns = min(max(4096 << options.qp_timeout >> 2, _SWEEP_NS[0]), _SWEEP_NS[1])
        self._loop.add_reader(self._epoll.fileno(), self._pass)

    async def __aenter__(self) -> RoceTransport:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def drops(self) -> Counter[str]:
        """Packets received and not wanted, by reason; "queue": lost by the kernel before a receiving socket."""
        drops = Counter(self.shared.drops)
        drops["queue"] += sum(endpoint.queue_drops for endpoint in self._endpoints.values())
        drops["send"] += self.shared.senders.drops
        return +drops

    async def open(self, rank: int, host: str) -> RoceEndpoint:
        """Bind an endpoint at numeric IP address `host`, which no other rank of the host may have; port 4791.

        Raises:
            HostError: the address is not on this host or in use, or a limit is reached.
            LocalProtocolError: the rank has one already.
        """
        if rank in self._endpoints:
            raise LocalProtocolError(f"rank {rank} has an endpoint already")
        listener = Listener(host, has_ecn=self.options.ecn != "off")
        endpoint = self._endpoints[rank] = RoceEndpoint(self, rank, listener)
        return endpoint

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for endpoint in self._endpoints.values():
            endpoint.close()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._clock.close()
        self.shared.senders.close()

    # For endpoints.

    def listen(self, endpoint: RoceEndpoint, fd: int) -> None:
        """Receive what comes to the endpoint, from the next pass on."""
        self._by_fd[fd] = endpoint
        self._epoll.register(fd, select.EPOLLIN)

    def forget(self, endpoint: RoceEndpoint, fd: int) -> None:
        """Receive nothing more for the endpoint."""
        if self._by_fd.pop(fd, None) is not None:
            self._epoll.unregister(fd)
        self.shared.senders.close(endpoint.address.host)

    def watch(self) -> None:
        """Something is on its way: look for answers that are overdue."""
        if not self._has_sweep and self.shared.active:
            self._has_sweep = True
            self._clock.call_at(time.monotonic_ns() + self._sweep_ns, self._sweep)

    def call_soon(self, endpoint: RoceEndpoint, peer: int, reason: str) -> None:
        """Report a failure from the loop."""
        self._loop.call_soon(endpoint.report_failure, peer, reason)

    # Passes.

    def _pass(self) -> None:
        for _ in range(ROUNDS_PER_PASS):
            if self.is_closed:
                return
            ready = self._epoll.poll(0, 256)
            if not ready:
                self.shared.reply()
                self._time_out()
                break
            for fd, _ in ready:
                endpoint = self._by_fd.get(fd)
                if endpoint is not None:
                    endpoint.drain()
        else:
            now = time.monotonic_ns()
            owing = self.shared.owing
            if owing and now - owing[0].owed_since > self._longest_unacknowledged_ns:
                self.shared.reply()
            if self._suspected_ns and now - self._suspected_ns > _LONGEST_SUSPICION_NS:
                self._time_out()
            self._pass_again()
        self.watch()

    def _pass_again(self) -> None:
        # The last round may have taken all there was: then nothing else would bring the idle moment about.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._scheduled_pass)

    def _scheduled_pass(self) -> None:
        self._is_scheduled = False
        self._pass()

    def _sweep(self) -> None:
        """Time out what is overdue: at the next idle moment, when it is sure that no answer waits in a socket."""
        self._has_sweep = False
        self._suspected_ns = time.monotonic_ns()
        if not self.is_closed:
            self._pass()

    def _time_out(self) -> None:
        if not self._suspected_ns:
            return
        self._suspected_ns = 0
        now = time.monotonic_ns()
        for channel in list(self.shared.active):
            requester = channel.pair.requester
            if requester.is_idle or channel.is_dead:
                self.shared.active.discard(channel)
            elif requester.deadline_ns <= now:
                channel.handle_timer(now)


class RoceEndpoint:
    """One rank's place on the network; made by `RoceTransport.open`."""

    def __init__(self, transport: RoceTransport, rank: int, listener: Listener) -> None:
        self.rank, self.address = rank, Address(listener.host, 4791)
        self.buffer_bytes = listener.buffer_bytes
        self.queue_drops = 0
        self.is_closed = False
        self._transport, self._shared = transport, transport.shared
        self._socket = listener.socket
        self._fd = self._socket.fileno()
        self._recvmsg_into = self._socket.recvmsg_into
        self._buffers = (self._shared.buffer,)
        self._directory: dict[int, Address] | None = None
        self.events: EndpointEvents
        self._links: dict[int, Link] = {}
        self._dirty: list[Link] = []
        self._channels: dict[int, Channel] = {}

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """Learn where the other ranks listen and who wants to hear; must come before the first post."""
        if self._directory is not None:
            raise LocalProtocolError(f"rank {self.rank} is connected already")
        self._directory, self.events = dict(directory), events
        if not self.is_closed:
            self._transport.listen(self, self._fd)

    def post(self, peer: int, tag: int, size: int) -> None:
        """Queue a transfer of `size` bytes to rank `peer`; dropped once closed or failed.

        Raises:
            LocalProtocolError: `peer` is not in the directory.
        """
        if self.is_closed:
            return
        link = self._links.get(peer) or self._make_link(peer)
        if link.is_broken:
            return
        link.post(tag, size)
        if not link.is_dirty:
            link.is_dirty = True
            self._dirty.append(link)

    def flush(self) -> None:
        """End of a batch: hand everything posted to the network."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, []
        now = time.monotonic_ns()
        for link in dirty:
            link.is_dirty = False
            link.send(now)
        self._transport.watch()

    def counters(self) -> Sequence[FlowCounters]:
        """A snapshot for every peer this endpoint has sent to.

        Marks, CNPs sent and packets out of order are those of the peer's packets to this endpoint.
        """
        return [link.snapshot() for link in self._links.values() if link.counters.messages]

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for link in self._links.values():
            link.close()
        self._transport.forget(self, self._fd)
        self._socket.close()

    def report_failure(self, peer: int, reason: str) -> None:
        """For the transport: tell the player."""
        if not self.is_closed:
            self.events.failed(peer, reason)

    def fail(self, peer: int, reason: str) -> None:
        """For a link: give up on the peer."""
        self._transport.call_soon(self, peer, reason)

    def _make_link(self, peer: int) -> Link:
        if self._directory is None or peer not in self._directory:
            raise LocalProtocolError(f"rank {self.rank} posted to rank {peer}, which is not in its directory")
        link = self._links[peer] = Link(self, self._transport, peer, self._directory[peer].host)
        return link

    # Receiving.

    def drain(self) -> None:
        """Take what has come, a bounded number of calls."""
        receive, buffers, anc = self._recvmsg_into, self._buffers, _CONTROL_BYTES
        for _ in range(RECEPTIONS_PER_TURN):
            try:
                size, control, _, address = receive(buffers, anc)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error that the kernel passes on: it says nothing that time does not
                continue
            self._take(size, control, address)
            if size < _DRAIN_BYTES or self.is_closed:
                return

    def _take(self, size: int, control: Sequence[tuple[int, int, bytes]], address: tuple[str, int]) -> None:
        if size < 16:
            self._shared.drops["length"] += 1
            return
        bth = BTH.unpack_from(self._shared.buffer)
        number = bth[3] & 0xFFFFFF
        channel = self._channels.get(number) or self._meet(number, address[0])
        if channel is None or channel.is_dead or channel.ends.peer_host != address[0]:
            self._shared.drops["stranger"] += 1
            return
        if bth[1] & 0xF or bth[2] not in P_KEYS:
            self._shared.drops["header"] += 1
            return
        now = time.monotonic_ns()
        stride = size
        if control:
            stride = self._take_control(control, size, channel, now)
        if stride < size:
            self._take_merged(channel, size, stride, address[1], now)
        else:
            channel.take_lone(size, address[1], bth, now)

    def _take_merged(self, channel: Channel, size: int, stride: int, port: int, now: int) -> None:
        if stride < 16:
            self._shared.drops["length"] += -(-size // stride)
            return
        count, rest = divmod(size, stride)
        tail = bytes(self._shared.buffer[count * stride : size]) if rest else b""
        channel.take_many(stride, count, port, now)
        if rest:
            self._shared.buffer[:rest] = tail
            self._take(rest, (), (channel.ends.peer_host, port))

    def _take_control(self, control: Sequence[tuple[int, int, bytes]], size: int, channel: Channel, now: int) -> int:
        """What the kernel says beside the bytes; returns the size of each datagram in the buffer."""
        stride, is_marked = size, False
        for level, kind, data in control:
            if level == socket.IPPROTO_UDP and kind == UDP_GRO:
                (stride,) = _INT.unpack(data[:4])
            elif (level == socket.IPPROTO_IP and kind == socket.IP_TOS) or (
                level == socket.IPPROTO_IPV6 and kind == IPV6_TCLASS
            ):
                is_marked = data[0] & 3 == _CE
            elif level == socket.SOL_SOCKET and kind == SO_RXQ_OVFL:
                (self.queue_drops,) = _INT.unpack(data[:4])
        if is_marked:
            channel.marked(-(-size // stride), now)
        return stride or size

    def _meet(self, number: int, host: str) -> Channel | None:
        """The queue pair of that number, made when its peer is the first to speak."""
        peer, index = divmod(number - FIRST_QPN, self._transport.options.qps + 1)
        if self._directory is None or peer not in self._directory or self._directory[peer].host != host:
            return None
        link = self._links.get(peer) or self._make_link(peer)
        return link.channel(index)

    def attach(self, channel: Channel) -> None:
        """For a link: packets to this queue pair are the channel's."""
        self._channels[channel.ends.own_qpn] = channel


class Link:
    """A rank and one of its peers: transfers on one side, queue pairs on the other. Implements Owner."""

    def __init__(self, endpoint: RoceEndpoint, transport: RoceTransport, peer: int, host: str) -> None:
        options = transport.options
        self.peer, self._host = peer, host
        self.is_dirty = self.is_broken = False
        self.counters = FlowCounters(src=endpoint.rank, dst=peer)
        self._endpoint, self._transport = endpoint, transport
        self._channels: list[Channel | None] = [None] * (options.qps + 1)
        window = options.window_bytes or min(MOST_WINDOW_BYTES, endpoint.buffer_bytes // 4)
        self._settings = options.connection(
            window_packets=max(LEAST_WINDOW_PACKETS, window // options.path_mtu),
            smallest_run=transport.shared.payload.per_call,
        )
        self._outgoing = Outgoing(
            qps=options.qps,
            message_bytes=transport.message_bytes,
            room_bytes=self._settings.window_packets * options.path_mtu + transport.message_bytes,
        )
        self._incoming = Incoming(qps=options.qps)

    def post(self, tag: int, size: int) -> None:
        """Queue a transfer."""
        if size:
            self._outgoing.post(tag, size)
        else:
            self._queue(0, Message(Verb.WRITE_IMM, 0, address=tag))

    def send(self, now: int) -> None:
        """Send what may go; control first."""
        control = self._channels[0]
        if control is not None and control.pair.requester.backlog:
            control.send(now)
        used = set()
        for index, message in self._outgoing.deal():
            self._queue(index + 1, message)
            used.add(index + 1)
        for index in used:
            if not self.is_broken:
                self.channel(index).send(now)

    def channel(self, index: int) -> Channel:
        """The queue pair of that index."""
        channel = self._channels[index]
        if channel is None:
            channel = self._channels[index] = self._make_channel(index)
            self._endpoint.attach(channel)
        return channel

    def snapshot(self) -> FlowCounters:
        """What the queue pairs have counted."""
        pairs = [channel.pair for channel in self._channels if channel is not None]
        rtts = [pair.requester.rtt_ns for pair in pairs if pair.requester.rtt_ns is not None]
        return replace(
            self.counters,
            packets=sum(pair.requester.sent_packets for pair in pairs),
            retransmits=sum(pair.requester.retransmits for pair in pairs),
            naks=sum(pair.requester.naks for pair in pairs),
            cnps_sent=sum(pair.cnps_sent for pair in pairs),
            cnps_received=sum(pair.cnps_received for pair in pairs),
            ecn_marks=sum(pair.ecn_marks for pair in pairs),
            out_of_order=sum(pair.responder.early_packets for pair in pairs),
            rtt_ns=max(rtts, default=None),
        )

    def close(self) -> None:
        """Send nothing more, hear nothing more."""
        self.is_broken = True
        for channel in self._channels:
            if channel is not None:
                channel.close()

    # What channels tell.

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """See Owner."""
        if self.is_broken:
            return
        if index == 0:
            self._endpoint.events.arrived(self.peer, delivered.address, delivered.size, now)
            return
        for tag, size in self._incoming.received(index - 1, delivered):
            if not self.is_broken:
                self._endpoint.events.arrived(self.peer, tag, size, now)
        if not self._incoming.is_consistent:
            self.broke("the peer sends messages that are no transfers: is it of another version?")

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """See Owner."""
        if index == 0:
            tags: Sequence[int] = [message.address for message in messages]
        else:
            tags = self._outgoing.acknowledged(index - 1, messages)
            if self._outgoing.has_more:
                self.send(now)
        for tag in tags:
            if not self.is_broken:
                self._endpoint.events.acknowledged(self.peer, tag, now)

    def broke(self, reason: str) -> None:
        """See Owner."""
        if not self.is_broken:
            self.close()
            self._endpoint.fail(self.peer, reason)

    def _queue(self, index: int, message: Message) -> None:
        self.counters.bytes += message.size
        self.counters.messages += 1
        self.channel(index).pair.requester.post(message)

    def _make_channel(self, index: int) -> Channel:
        transport, rank = self._transport, self._endpoint.rank
        options, seed = transport.options, transport.shared.seed
        ends = Ends(rank, self._endpoint.address.host, self.peer, self._host, index, options.qps)
        return Channel(
            transport.shared,
            self,
            ends,
            settings=self._settings,
            make=lambda: QueuePair(
                self._settings,
                send_psn=first_psn(rank, self.peer, index=index, seed=seed),
                expect_psn=first_psn(self.peer, rank, index=index, seed=seed),
                congestion=options.congestion_maker()(),
                cnp_gap_ns=options.cnp_gap_ns,
            ),
        )
