"""Two ends with two addresses each, whose packets a test carries itself."""

from dataclasses import replace
from typing import Any

from agents.nic.channel import Agenda, QueuePairOwner
from agents.nic.context import make_context
from agents.nic.migrating import PathChannel, RankPaths
from agents.nic.sockets import Sender, Senders
from agents.transports.roce.endpoint import ConnectionId, qp_facts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.options import RoceOptions

HOSTS = (("192.0.2.1", "198.51.100.1"), ("192.0.2.2", "198.51.100.2"))
"""Of each end, the addresses of its paths."""


class WiredSender(Sender):
    """Sends into the network of a test."""

    net: Any
    """Its `put(source, port, to, packet)` takes what is sent."""

    def __init__(self, host: str, port: int, **_: object) -> None:
        self.host, self.port, self.is_v6, self.drops, self.buffer_bytes = host, port, False, 0, 1

    def send(self, pieces, to, control=(), *, packets=1) -> bool:  # type: ignore[no-untyped-def]
        self.send_whole(b"".join(pieces), to)
        return True

    def send_whole(self, datagram, to) -> None:  # type: ignore[no-untyped-def]
        self.net.put(self.host, self.port, to[0], bytes(datagram))

    def close(self) -> None:
        pass


class WiredEnd:
    """A rank whose queue pairs to its peer have two paths each, on the clock of a network: `net.clock`, `net.ends`."""

    def __init__(self, net: Any, rank: int, options: RoceOptions) -> None:
        self.net, self.rank, self.agenda, self.reasons = net, rank, Agenda(), list[str]()
        self.settings = options.connection(window_packets=16)
        self.senders = Senders(traffic_class=0, make=WiredSender)
        self._context = make_context(options=options, clock=net.clock, senders=self.senders, payload_seed=None)
        self._context.is_cutting = False
        self.paths = RankPaths(net.clock, lambda: None)
        self.by_address: dict[tuple[str, int], PathChannel] = {}
        """Channels by the address and the number of their queue pair."""
        net.ends |= dict.fromkeys(HOSTS[rank], self)

    def make(self, owner: QueuePairOwner, index: int, qps: int, **fields: bool) -> tuple[PathChannel, PathChannel]:
        """A queue pair: its channels of the primary and of the alternate path."""
        mine, theirs = HOSTS[self.rank], HOSTS[1 - self.rank]
        connection = ConnectionId(self.rank, mine[0], 1 - self.rank, theirs[0], index, qps)
        facts = qp_facts(connection, port_policy="fold", seed=0, rkey=7)
        pair = QueuePair(self.settings, send_psn=facts.psn, expect_psn=facts.peer_psn)
        primary, alternate = (
            PathChannel(self._context, self.agenda, owner, one, pair, index=index, **fields)
            for one in (facts, replace(facts, host=mine[1], peer_host=theirs[1]))
        )
        self.paths.join(primary, alternate)
        for one in (primary, alternate):
            self.by_address[one.host, one.facts.qpn] = one
        return primary, alternate

    def receive(self, to: str, source: str, port: int, packet: bytes) -> None:
        """A packet has come."""
        channel = self.by_address[to, int.from_bytes(packet[4:8]) & 0xFFFFFF]
        assert channel.facts.peer_host == source
        if not channel.is_dead:
            assert not channel.receive(memoryview(packet), len(packet), port, self.net.clock.now())

    def time_out(self) -> None:
        """Let timers of channels go off that are due."""
        for channel in list(self.agenda.active):
            if channel.is_idle or channel.is_dead:
                self.agenda.active.discard(channel)
            elif channel.deadline_ns <= self.net.clock.now():
                channel.handle_timer(self.net.clock.now())
