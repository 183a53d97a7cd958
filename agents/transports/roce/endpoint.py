"""The endpoint of a rank: a listening socket, and a link to every peer that it exchanges packets with.

Every reception passes `_receive`: to the queue pair that its first packet names, or to the counter of strangers.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from agents.transports.base import Address, EndpointEvents, FlowCounters
from agents.transports.roce.channel import Channel, LocalPeer, Owner
from agents.transports.roce.connection_id import FIRST_QPN, ConnectionId, first_psn
from agents.transports.roce.context import Context
from agents.transports.roce.link import Link
from agents.transports.roce.passes import Passes
from agents.transports.roce.port import PortPacer
from agents.transports.roce.reader import Reader
from agents.transports.roce.sockets import Listener
from agents.transports.roce.system_calls import SocketAddress
from emulator.errors import LocalProtocolError
from emulator.roce.congestion import FixedRate
from emulator.roce.constants import UDP_PORT
from emulator.roce.messages import ConnectionSettings
from emulator.roce.queue_pair import QueuePair
from emulator.roce.receiver import SHORTEST_PACKET_BYTES
from emulator.roce.tuning import DRAIN_BYTES, RECEPTIONS_PER_TURN

_unpack_qpn = struct.Struct(">I").unpack_from


class RoceEndpoint:
    """The endpoint of a rank.

    Args:
        rank: its number.
        listener: its socket.
        context, passes: of the transport.
        local: the endpoints of this process by rank.
        message_bytes: maximum payload per message.
        line_rate_bps: of its port; 0: unknown.
        port: paces what the ranks at the port send; None: no pacing.
    """

    def __init__(
        self,
        rank: int,
        listener: Listener,
        context: Context,
        passes: Passes,
        *,
        local: Mapping[int, LocalPeer],
        message_bytes: int,
        line_rate_bps: int = 0,
        port: PortPacer | None = None,
    ) -> None:
        self.rank, self.address, self.port = rank, Address(listener.host, UDP_PORT), port
        self._context, self._passes, self._local, self._message_bytes = context, passes, local, message_bytes
        options = self._context.options
        self._make_congestion = options.congestion_maker(line_rate_bps)
        self._cnp_gap_ns = options.cnp_gap_ns(line_rate_bps)
        self.buffer_bytes, self.is_merging = listener.buffer_bytes, listener.is_merging
        self._socket = listener.socket
        self._reader = Reader(listener.socket, self._context.buffer, self._context.receive_batch(is_v6=listener.is_v6))
        payload = self._context.payload
        self._packet_bytes, self._call_bytes = payload.packet_bytes, payload.per_call * payload.packet_bytes
        self._directory: dict[int, Address] | None = None
        self.events: EndpointEvents
        self._links: dict[int, Link] = {}
        self._channels: dict[int, Channel] = {}  # by queue pair number
        self._dirty: list[Link] = []  # posted to since the last flush
        self._ready: list[Channel] = []  # have single packets that leave at the end of the batch
        self._is_draining = self.is_closed = False

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """Set where the other ranks listen and who receives events; must come before the first post."""
        if self._directory is not None:
            raise LocalProtocolError(f"rank {self.rank} is connected already")
        self._directory, self.events = dict(directory), events
        if not self.is_closed:
            self._passes.listen(self, self._socket.fileno())

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
        if link.post(tag, size, self._ready) and not link.is_dirty:
            link.is_dirty = True
            self._dirty.append(link)

    def flush(self) -> None:
        """End of a batch: hand everything posted to the network.

        While receptions are handled, single packets wait until the end, unless something larger leaves: more can join
        them in one call.
        """
        if self._ready and (self._dirty or not self._is_draining):
            self._send_ready()
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, []
        now = time.monotonic_ns()
        for link in dirty:
            link.is_dirty = False
            link.send(now)
        self._passes.watch()

    def _send_ready(self) -> None:
        ready, self._ready = self._ready, []
        for channel in ready:
            channel.send_ready()
        self._passes.watch()

    @property
    def window_bytes(self) -> int:
        """Payload that a queue pair of this endpoint may have in flight."""
        peers = len(self._directory) - 1 if self._directory is not None else 0
        options = self._context.options
        return options.window_packets(self.buffer_bytes, peers=peers) * options.path_mtu

    @property
    def queue_drops(self) -> int:
        """Receptions that the kernel dropped before the socket."""
        return self._reader.queue_drops

    @property
    def drops(self) -> Counter[str]:
        """Packets that queue pairs dropped, by reason."""
        return sum((link.drops for link in self._links.values()), Counter())

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that receivers have acknowledged, in bytes."""
        return sum(link.acknowledged_bytes for link in self._links.values())

    def counters(self) -> Sequence[FlowCounters]:
        """For every queue pair, what it has sent and what it has received: see `join_ends`."""
        return [row for link in self._links.values() for row in link.counters()]

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for link in self._links.values():
            link.close()
        self._passes.forget(self._socket.fileno())
        self._context.senders.close(self.address.host)
        self._socket.close()

    def _fail(self, peer: int, reason: str) -> None:
        """Report a failure to the player, from the event loop."""
        self._passes.call_soon(partial(self._report_failure, peer, reason))

    def _report_failure(self, peer: int, reason: str) -> None:
        if not self.is_closed:
            self.events.failed(peer, reason)

    # Receiving.

    def catch_up(self) -> None:
        """See LocalPeer. Before an endpoint is connected, packets stay in its socket."""
        if self._directory is not None and not self.is_closed:
            self.drain()

    def drain(self) -> None:
        """Receive what waits in the socket, up to a bound on receptions and on small packets."""
        reader, left, singles = self._reader, RECEPTIONS_PER_TURN, self._passes.singles_per_turn
        self._is_draining = True
        try:
            while left > 0 and singles > 0 and not self.is_closed:
                receptions = reader.read()
                if receptions is None:
                    break
                left = 0 if reader.is_drained else left - (len(receptions) or 1)
                for packets, stride, sender, is_marked in receptions:
                    size = len(packets)
                    if size == stride:
                        singles -= 1
                    elif stride != self._packet_bytes or size < DRAIN_BYTES:
                        singles -= -(-size // stride)
                    self._receive(packets, stride, sender, is_marked)
        finally:
            self._is_draining = False
        if self._ready and not self.is_closed:
            self._send_ready()

    def _receive(self, packets: memoryview, stride: int, sender: SocketAddress, is_marked: bool = False) -> None:
        """Hand a reception to the queue pair that its first packet names; arguments as for Reception."""
        if self.is_closed:
            return
        if stride < SHORTEST_PACKET_BYTES:
            self._context.drops["length"] += -(-len(packets) // stride) if stride else 1
            return
        (number,) = _unpack_qpn(packets, 4)
        # With FECN or BECN set, this word holds more than the number: the second look-up masks it.
        channel = self._channels.get(number) or self._channel(number & 0xFFFFFF, sender[0])
        if channel is None or channel.is_dead or channel.connection.peer_host != sender[0]:
            if stride < len(packets):  # the other packets can belong to other queue pairs
                for start in range(0, len(packets), stride):
                    one = packets[start : start + stride]
                    self._receive(one, len(one), sender)
            else:
                self._context.drops["stranger"] += 1
            return
        for one in channel.receive(packets, stride, sender[1], time.monotonic_ns(), is_marked):
            self._receive(one, len(one), sender)
        if stride == self._packet_bytes and stride < len(packets) == self._call_bytes and not is_marked:
            self._reader.expect(channel.calls_at_once)

    def _channel(self, number: int, host: str) -> Channel | None:
        """The queue pair with a number, made on the first packet of its peer; None for a stranger."""
        channel = self._channels.get(number)
        if channel is not None:
            return channel
        peer, index = divmod(number - FIRST_QPN, self._context.options.qps + 1)
        if self._directory is None or peer not in self._directory or self._directory[peer].host != host:
            return None
        return (self._links.get(peer) or self._make_link(peer)).channel(index)

    # Links and queue pairs.

    def _make_link(self, peer: int) -> Link:
        if self._directory is None or peer not in self._directory:
            raise LocalProtocolError(f"rank {self.rank} posted to rank {peer}, which is not in its directory")
        options, payload = self._context.options, self._context.payload
        settings = options.connection(
            window_packets=self.window_bytes // options.path_mtu, smallest_run=payload.per_call
        )
        link = self._links[peer] = Link(
            peer,
            qps=options.qps,
            settings=settings,
            message_bytes=self._message_bytes,
            make_channel=partial(self._make_channel, peer, settings),
            events=self.events,
            fail=partial(self._fail, peer),
        )
        return link

    def _make_channel(self, peer: int, settings: ConnectionSettings, owner: Owner, index: int) -> Channel:
        assert self._directory is not None
        context, local = self._context, self._local.get(peer)
        # Traffic between ranks of one port does not cross it, but a cap that the user requested applies to it, too.
        crosses = local is None or local.port is not self.port or context.options.rate_cap_bps > 0
        port = self.port if crosses else None
        connection = ConnectionId(
            self.rank, self.address.host, peer, self._directory[peer].host, index, context.options.qps
        )
        pair = QueuePair(
            settings,
            send_psn=first_psn(self.rank, peer, index=index, seed=context.seed),
            expect_psn=first_psn(peer, self.rank, index=index, seed=context.seed),
            congestion=self._make_congestion() if crosses or self.port is None else FixedRate(),
            cnp_gap_ns=self._cnp_gap_ns,
            lead_ns=port.lead_ns if port is not None else 0,
        )
        channel = self._channels[connection.own_qpn] = Channel(
            context,
            self._passes.agenda,
            owner,
            connection,
            pair,
            port=port,
            local_peer=local,
        )
        return channel
