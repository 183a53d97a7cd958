"""The endpoint of a rank: a NIC of its own, and a link to every peer that it exchanges packets with.

Facts of queue pairs follow from ranks and run, so both ends make them without an exchange, on the first packet.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from agents.nic.channel import Channel, QueuePairOwner
from agents.nic.context import Context
from agents.nic.migrating import PathChannel, RankPaths
from agents.nic.nic import SoftwareNic
from agents.nic.passes import Passes
from agents.nic.port import PortPacer
from agents.nic.sockets import Listener
from agents.nic.stamps import SendLog
from agents.transports.base import EndpointEvents, Silence
from agents.transports.roce.link import LinkChannel, RankLink
from agents.transports.roce.multipath import make_channel, make_pair
from emulator.control.conversation import Address
from emulator.control.observations import FlowCounters, Migration
from emulator.errors import LocalProtocolError
from emulator.roce.connection.messages import ConnectionSettings, FirstSent
from emulator.roce.connection.migration import PRIMARY
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import FIRST_SOURCE_PORT, UDP_PORT
from emulator.roce.multipath.paths import Health
from emulator.roce.pacing import FixedRate
from emulator.roce.tuning import TIMELINE_ROWS
from emulator.roce.wire.psn import Psn

FIRST_QPN: Final = 16
PORTS_PER_MESSAGE: Final = 16
"""Source ports that a queue pair uses in turn, with one port per message."""


@dataclass(frozen=True, slots=True)
class ConnectionId:
    """Both ends of a queue pair.

    Attributes:
        rank, host: this end.
        peer, peer_host: the other end.
        index: of the queue pair among those of the rank pair; 0 is control.
        qps: queue pairs of a rank pair that carry payload.
    """

    rank: int
    host: str
    peer: int
    peer_host: str
    index: int
    qps: int

    @property
    def own_qpn(self) -> int:
        """Number of the queue pair at this end."""
        return qpn(self.peer, self.index, qps=self.qps)

    @property
    def peer_qpn(self) -> int:
        """Number of the queue pair at the peer."""
        return qpn(self.rank, self.index, qps=self.qps)


def qpn(peer: int, index: int, *, qps: int) -> int:
    """The number of the queue pair that faces rank `peer`; index 0 is control, 1 … `qps` carry payload."""
    return FIRST_QPN + peer * (qps + 1) + index


def first_psn(source: int, target: int, *, index: int, seed: int) -> Psn:
    """PSN of the first packet from one rank to another; both sides compute it."""
    return Psn(Random(f"{seed}/{source}/{target}/{index}").getrandbits(24))


def folded_port(own_qpn: int, peer_qpn: int) -> int:
    """The source port that Linux derives from both queue pair numbers: 14 bits folded from their product."""
    product = own_qpn * peer_qpn
    product ^= product >> 20
    product ^= product >> 40
    label = product & 0xFFFFF
    return FIRST_SOURCE_PORT | (label & 0x3FFF ^ label >> 14)


def source_ports(policy: str, connection: ConnectionId, *, seed: int) -> Sequence[int]:
    """The source ports that a queue pair uses in turn.

    Args:
        policy: fixed, fold, random or message; see docs/roce.md.
        connection: of the queue pair.
        seed: random seed.
    """
    if policy == "fixed":
        return (FIRST_SOURCE_PORT,)
    if policy == "fold":
        return (folded_port(connection.own_qpn, connection.peer_qpn),)
    random = Random(f"{seed}/{connection.rank}/{connection.peer}/{connection.index}/port")
    return [FIRST_SOURCE_PORT | random.getrandbits(14) for _ in range(PORTS_PER_MESSAGE if policy == "message" else 1)]


def qp_facts(connection: ConnectionId, *, port_policy: str, seed: int, rkey: int) -> QpFacts:
    """The facts of a queue pair between two ranks.

    Args:
        connection: both ends.
        port_policy: see `source_ports`.
        seed: of the run, the same at both ends.
        rkey: of the run.
    """
    rank, peer, index = connection.rank, connection.peer, connection.index
    return QpFacts(
        host=connection.host,
        peer_host=connection.peer_host,
        qpn=connection.own_qpn,
        peer_qpn=connection.peer_qpn,
        psn=first_psn(rank, peer, index=index, seed=seed),
        peer_psn=first_psn(peer, rank, index=index, seed=seed),
        rkey=rkey,
        source_ports=source_ports(port_policy, connection, seed=seed),
    )


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
        log: has the time stamps of what is sent; None: nothing is stamped.
        alternate: socket of its second address; None: it has none.
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
        log: SendLog | None = None,
        alternate: Listener | None = None,
    ) -> None:
        self._log, self._are_ends_stamped = log, context.options.time_stamps == "kernel"
        self.rank = rank
        self.address = Address(listener.host, UDP_PORT, None if alternate is None else alternate.host)
        self.nic = SoftwareNic(listener, context, passes, make=self._make, port=port)
        self.alternate: SoftwareNic | None = None
        if alternate is not None:
            self.alternate = SoftwareNic(alternate, context, passes, make=self._make_alternate, port=port)
        self._paths: dict[int, RankPaths] = {}  # by peer
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
        if (timeline := self._context.timeline) is not None:
            timeline.most_rows += TIMELINE_ROWS // max(1, len(directory))
        self.nic.start()
        if self.alternate is not None:
            self.alternate.start()
        if self._context.options.multipath:
            self.sees_trimmed = self.nic.watch_trimmed()

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """Queue a transfer of `size` bytes to rank `peer`; dropped once closed or failed. `sent` learns when it leaves.

        Raises:
            LocalProtocolError: `peer` is not in the directory.
        """
        nic = self.nic
        if nic.is_closed:
            return
        link = self._links.get(peer) or self._make_link(peer)
        if link.is_broken:
            return
        if link.post(tag, size, nic.ready, sent) and not link.is_dirty:
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
        return nic.stamp_ns if nic.stamp and self._are_ends_stamped else 0

    @property
    def received_ns(self) -> int:
        """See Endpoint."""
        return self.nic.received_ns

    @property
    def stalled_ns(self) -> int:
        """See Endpoint."""
        port = self.nic.port
        return 0 if port is None else port.stalled_ns

    @property
    def lead_bytes(self) -> int:
        """See Endpoint."""
        port = self.nic.port
        return 0 if port is None else port.lead_bytes

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """See Endpoint."""
        port = self.nic.port
        return 0 if port is None else port.arrivals.usual_ns(since_ns, until_ns)

    @property
    def clock_steps(self) -> int:
        """See Endpoint."""
        return self.nic.clock_steps + (0 if self._log is None else self._log.stamps.steps)

    def collect(self) -> None:
        """See Endpoint."""
        if self._log is not None:
            self._log.collect()

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
    def channels(self) -> Iterator[LinkChannel]:
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

    def migrations(self) -> Sequence[Migration]:
        """Every time traffic of this end moved to another path, by peer."""
        return [
            Migration(self.rank, peer, one.qpn, one.at_ns, one.path == PRIMARY)
            for peer, paths in self._paths.items()
            for one in paths.state.moves
        ]

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
        if self.alternate is not None:
            self.alternate.close()

    def _fail(self, peer: int, reason: str) -> None:
        """Report a failure to the player, from the event loop."""
        self._passes.call_soon(partial(self._report_failure, peer, reason))

    def _report_failure(self, peer: int, reason: str) -> None:
        if not self.nic.is_closed:
            self.events.failed(peer, reason)

    # Links and queue pairs.

    def _make(self, number: int, host: str) -> bool:
        """Make the queue pair that a peer's first packet names; False for a stranger."""
        peer, index = divmod(number - FIRST_QPN, self._context.options.qps + 1)
        if self._directory is None or peer not in self._directory or self._directory[peer].host != host:
            return False
        (self._links.get(peer) or self._make_link(peer)).channel(index)
        return True

    def _make_alternate(self, number: int, host: str) -> bool:
        """Make the queue pair that a peer's first packet names, which came from its second address."""
        peer = (number - FIRST_QPN) // (self._context.options.qps + 1)
        address = None if self._directory is None else self._directory.get(peer)
        return address is not None and address.alternate == host and self._make(number, address.host)

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
            sprayed = make_channel(nic, facts, spraying, owner, health=health, index=index, local_peer=local_nic)
            return self._followed(sprayed, peer)
        pair = QueuePair(
            settings,
            send_psn=facts.psn,
            expect_psn=facts.peer_psn,
            congestion=congestion,
            cnp_gap_ns=self._cnp_gap_ns,
            lead_ns=lead_ns,
        )
        alternate = self._directory[peer].alternate
        if self.alternate is not None and alternate is not None:
            return self._with_paths(peer, alternate, facts, pair, owner, index)
        channel = nic.create(facts, pair, owner, index=index, is_control=index == 0, local_peer=local_nic)
        return self._followed(channel, peer)

    def _with_paths(
        self, peer: int, alternate: str, facts: QpFacts, pair: QueuePair, owner: QueuePairOwner, index: int
    ) -> Channel:
        """A queue pair with two paths, as its primary one."""
        assert self.alternate is not None
        if peer not in self._paths:
            self._paths[peer] = RankPaths(self._context.clock, self._passes.watch)
        local, ends = self._local.get(peer), []
        for nic, peer_nic, hosts in (
            (self.nic, None if local is None else local.nic, facts),
            (
                self.alternate,
                None if local is None else local.alternate,
                replace(facts, host=self.alternate.host, peer_host=alternate),
            ),
        ):
            channel = nic.create(
                hosts, pair, owner, index=index, is_control=index == 0, local_peer=peer_nic, kind=PathChannel
            )
            assert isinstance(channel, PathChannel)
            ends.append(channel)
        self._followed(ends[0], peer)
        ends[1].bins, ends[1].bin_ends_ns = ends[0].bins, ends[0].bin_ends_ns
        self._paths[peer].join(*ends)
        return ends[0]

    def _followed(self, channel: Channel, peer: int) -> Channel:
        """A queue pair whose bins are recorded, if any are."""
        timeline = self._context.timeline
        if timeline is not None:
            channel.bins, channel.bin_ends_ns = (
                timeline.follow(channel.pair, channel.facts, rank=self.rank, peer=peer),
                0,
            )
        return channel
