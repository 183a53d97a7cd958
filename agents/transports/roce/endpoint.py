"""The endpoint of a rank: a NIC of its own, and a link to every peer that it exchanges packets with.

Facts of queue pairs follow from ranks and run, so both ends make them without an exchange, on the first packet.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from agents.nic.channel import Channel, QueuePairOwner
from agents.nic.context import Context
from agents.nic.nic import SoftwareNic
from agents.nic.passes import Passes
from agents.nic.port import PortPacer
from agents.nic.sockets import Listener
from agents.transports.base import Address, EndpointEvents, FlowCounters, Silence
from agents.transports.roce.connection_id import FIRST_QPN, ConnectionId, qp_facts
from agents.transports.roce.link import RankLink
from agents.transports.roce.multipath import make_channel, make_pair
from emulator.errors import LocalProtocolError
from emulator.roce.connection.messages import ConnectionSettings
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import UDP_PORT
from emulator.roce.multipath.paths import Health
from emulator.roce.rate.congestion import FixedRate


class RoceEndpoint:
    """The endpoint of a rank.

    Args:
        rank: its number.
        listener: its socket.
        context, passes: of the transport.
        local: the endpoints of this process by rank.
        message_bytes: maximum payload per message.
        seed, rkey: of the run, the same at all ranks.
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
        local: Mapping[int, RoceEndpoint],
        message_bytes: int,
        seed: int,
        rkey: int,
        line_rate_bps: int = 0,
        port: PortPacer | None = None,
    ) -> None:
        self.rank, self.address = rank, Address(listener.host, UDP_PORT)
        self.nic = SoftwareNic(listener, context, passes, find=self._find, port=port)
        self._context, self._passes, self._local, self._message_bytes = context, passes, local, message_bytes
        self._seed, self._rkey = seed, rkey
        options = self._context.options
        self._make_congestion = options.congestion_maker(line_rate_bps)
        self._cnp_gap_ns = options.cnp_gap_ns(line_rate_bps)
        self._directory: Mapping[int, Address] | None = None
        self.events: EndpointEvents
        self.sees_trimmed = False
        self._links: dict[int, RankLink] = {}
        self._health: dict[int, Health] = {}  # by peer, with the multipath profile
        self._dirty: list[RankLink] = []  # posted to since the last flush

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """Set where the other ranks listen and who receives events; must come before the first post."""
        if self._directory is not None:
            raise LocalProtocolError(f"rank {self.rank} is connected already")
        self._directory, self.events = directory, events
        self.nic.start()
        if self._context.options.multipath:
            self.sees_trimmed = self.nic.watch_trimmed()

    def post(self, peer: int, tag: int, size: int) -> None:
        """Queue a transfer of `size` bytes to rank `peer`; dropped once closed or failed.

        Raises:
            LocalProtocolError: `peer` is not in the directory.
        """
        nic = self.nic
        if nic.is_closed:
            return
        link = self._links.get(peer) or self._make_link(peer)
        if link.is_broken:
            return
        if link.post(tag, size, nic.ready) and not link.is_dirty:
            link.is_dirty = True
            self._dirty.append(link)

    def flush(self) -> None:
        """End of a batch: hand everything posted to the network.

        While receptions are handled, single packets wait until the end, unless something larger leaves: more can join
        them in one call.
        """
        nic = self.nic
        if nic.ready and (self._dirty or not nic.is_draining):
            nic.send_ready()
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, []
        now = time.monotonic_ns()
        for link in dirty:
            link.is_dirty = False
            link.send_control(now)
        for link in dirty:
            link.send(now)
        self._passes.watch()

    @property
    def stamp_ns(self) -> int:
        """See Endpoint."""
        nic = self.nic
        return nic.stamp_ns if nic.stamp else 0

    @property
    def window_bytes(self) -> int:
        """Payload that a queue pair of this endpoint may have in flight."""
        peers = len(self._directory) - 1 if self._directory is not None else 0
        options = self._context.options
        return options.window_packets(self.nic.buffer_bytes, peers=peers) * options.path_mtu

    @property
    def drops(self) -> Counter[str]:
        """Packets that queue pairs dropped, by reason."""
        return sum((link.drops for link in self._links.values()), Counter())

    @property
    def channels(self) -> Iterator[Channel]:
        """All queue pairs made so far."""
        return (channel for link in self._links.values() for channel in link.channels)

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that receivers have acknowledged, in bytes."""
        return sum(link.acknowledged_bytes for link in self._links.values())

    def counters(self) -> Sequence[FlowCounters]:
        """For every queue pair, what it has sent and what it has received: see `join_ends`."""
        return [row for link in self._links.values() for row in link.counters()]

    def eventful(self) -> Sequence[FlowCounters]:
        """See Endpoint."""
        return [row for link in self._links.values() for row in link.eventful()]

    def silences(self) -> Iterator[Silence]:
        """For every queue pair with packets in flight, since when its peer has acknowledged nothing."""
        for peer, link in self._links.items():
            for channel in link.channels:
                if channel.pair.requester.in_flight:
                    yield Silence(self.rank, peer, channel.pair.requester.silent_since_ns)

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        for link in self._links.values():
            link.close()
        self.nic.close()

    def _fail(self, peer: int, reason: str) -> None:
        """Report a failure to the player, from the event loop."""
        self._passes.call_soon(partial(self._report_failure, peer, reason))

    def _report_failure(self, peer: int, reason: str) -> None:
        if not self.nic.is_closed:
            self.events.failed(peer, reason)

    # Links and queue pairs.

    def _find(self, number: int, host: str) -> Channel | None:
        """The queue pair that a peer's first packet names, made now; None for a stranger."""
        peer, index = divmod(number - FIRST_QPN, self._context.options.qps + 1)
        if self._directory is None or peer not in self._directory or self._directory[peer].host != host:
            return None
        return (self._links.get(peer) or self._make_link(peer)).channel(index)

    def _make_link(self, peer: int) -> RankLink:
        if self._directory is None or peer not in self._directory:
            raise LocalProtocolError(f"rank {self.rank} posted to rank {peer}, which is not in its directory")
        options, payload = self._context.options, self._context.payload
        settings = options.connection(
            window_packets=self.window_bytes // options.path_mtu, smallest_run=payload.per_call
        )
        link = self._links[peer] = RankLink(
            self.rank,
            peer,
            rkey=self._rkey,
            qps=options.qps,
            settings=settings,
            message_bytes=self._message_bytes,
            make_channel=partial(self._make_channel, peer, settings),
            events=self.events,
            fail=partial(self._fail, peer),
        )
        return link

    def _make_channel(self, peer: int, settings: ConnectionSettings, owner: QueuePairOwner, index: int) -> Channel:
        assert self._directory is not None
        options, nic, local = self._context.options, self.nic, self._local.get(peer)
        local_nic = local.nic if local is not None else None
        connection = ConnectionId(self.rank, self.address.host, peer, self._directory[peer].host, index, options.qps)
        facts = qp_facts(connection, port_policy=options.source_port, seed=self._seed, rkey=self._rkey)
        crosses = nic.crosses(local_nic)
        congestion = self._make_congestion() if crosses or nic.port is None else FixedRate()
        lead_ns = nic.port.lead_ns if crosses and nic.port is not None else 0
        if options.multipath:
            health = self._health.setdefault(peer, Health(options.multipath))
            spraying = make_pair(
                self._context, settings, facts, health,
                congestion=congestion, cnp_gap_ns=self._cnp_gap_ns, lead_ns=lead_ns,
            )  # fmt: skip
            return make_channel(nic, facts, spraying, owner, health=health, index=index, local_peer=local_nic)
        pair = QueuePair(
            settings,
            send_psn=facts.psn,
            expect_psn=facts.peer_psn,
            congestion=congestion,
            cnp_gap_ns=self._cnp_gap_ns,
            lead_ns=lead_ns,
        )
        return nic.create(facts, pair, owner, index=index, is_control=index == 0, local_peer=local_nic)
