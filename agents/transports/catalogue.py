"""Loads a transport by its name, and puts scale-up domains over it.

Each transport is a folder with a module `transport` that has a function `make`, listed in emulator/plugins.py. Other
rooms know transports only through emulator/transports/registry.py.

What ranks of one scale-up domain send each other stays in the agent, on its clock. A domain is a decorator of the
transport: everything else passes through to it. The payload is not copied; the model in
emulator/planner/network/domain.py says when a transfer arrives, as it does for plans. Arrivals are reported when the
agent's timer rings, so its lateness is part of what is measured, but never delays the transfers that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from agents.transports.base import Endpoint, EndpointEvents, RankPort, Silence, Transport
from emulator.control.conversation import Address, DomainPlace
from emulator.control.observations import FlowCounters, Medium, Migration, Timeline
from emulator.control.parameter import Parameter
from emulator.host.clock import Clock
from emulator.host.core_wait import CoreWait
from emulator.planner.network.domain import DomainModel
from emulator.plugins import PluginKind, load
from emulator.roce.connection.messages import FirstSent
from emulator.topology.model import Domain
from emulator.transports.registry import TransportOptions, transport_named

_NEVER = 1 << 63


def with_domains(transport: Transport, places: Iterable[DomainPlace], *, clock: Clock, message_bytes: int) -> Transport:
    """The transport with the domains of an agent's ranks."""
    group_of: dict[int, DomainGroup] = {}
    for place in places:
        group = DomainGroup(ScaleUpDomain(Domain(place.rate_bps, place.latency_ns), clock), {})
        group_of |= dict.fromkeys(place.ranks, group)
    return DomainTransport(transport, group_of, message_bytes=message_bytes)


class DomainGroup(NamedTuple):
    """The ranks of one job in a domain, with the endpoints that have been opened."""

    domain: ScaleUpDomain
    ends: dict[int, DomainEndpoint]


class _RoutedTransfer(NamedTuple):
    source: DomainEndpoint
    target: DomainEndpoint
    tag: int
    size: int


class ScaleUpDomain:
    """What connects the endpoints of a host, on a clock; those of several jobs may share it.

    Args:
        domain: its rate and latency.
        clock: wakes it when transfers arrive.
    """

    def __init__(self, domain: Domain, clock: Clock) -> None:
        self.clock = clock
        self._model: DomainModel[_RoutedTransfer] = DomainModel(domain)
        self._alarm_ns = _NEVER

    def post(self, source: DomainEndpoint, target: DomainEndpoint, tag: int, size: int) -> None:
        """Begin a transfer."""
        self._model.post(source, target, size, _RoutedTransfer(source, target, tag, size), now_ns=self.clock.now())

    def flush(self) -> None:
        """Set an alarm for the next arrival."""
        next_ns = self._model.next_ns
        if next_ns is not None and next_ns < self._alarm_ns:
            self._alarm_ns = next_ns
            self.clock.call_at(next_ns, self._wake)

    def carried_bytes(self, source: DomainEndpoint) -> int:
        """Payload of transfers of an endpoint that have not arrived as a whole."""
        return self._model.under_way_bytes(source, now_ns=self.clock.now())

    def leave(self, end: DomainEndpoint) -> None:
        """Drop what is under way from and to an endpoint; those who send to it hear of it."""
        senders = dict.fromkeys(transfer.source for transfer in self._model.drop(end))
        for source in (one for one in senders if one is not end):
            self.clock.call_at(self.clock.now(), partial(source.lose, end))
        self.flush()

    def _wake(self) -> None:
        now = self.clock.now()
        if now >= self._alarm_ns:
            self._alarm_ns = _NEVER
        for _, (source, target, tag, size) in self._model.arrivals(now):
            target.take(source, tag, size)
        self.flush()


class DomainEndpoint:
    """The endpoint of a rank in a domain: transfers to the others in it go through the domain, all others beside it.

    Args:
        beside: the endpoint of the rank on the network.
        group: of the rank.
        message_bytes: payload of a message, at most: what counts as a message.
    """

    def __init__(self, beside: Endpoint, group: DomainGroup, *, message_bytes: int) -> None:
        self._beside, self._message_bytes = beside, message_bytes
        self._domain, self._ends = group
        self._inside: Mapping[int, DomainEndpoint] = {}  # those of the domain in the directory, once it is known
        self._events: EndpointEvents | None = None
        self._held: list[tuple[DomainEndpoint, int, int]] = []  # arrived before the directory: source, tag, size
        self._counters: dict[int, FlowCounters] = {}
        self._lost: set[int] = set()
        self.is_closed = self._is_reporting = False
        self._ends[beside.rank] = self

    @property
    def rank(self) -> int:
        """See Endpoint."""
        return self._beside.rank

    @property
    def address(self) -> Address:
        """See Endpoint."""
        return self._beside.address

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """See Endpoint. The network learns nothing of the other ranks of the domain."""
        inside = {rank: end for rank, end in self._ends.items() if rank in directory}
        self._beside.connect({rank: at for rank, at in directory.items() if rank not in inside}, events)
        self._inside = inside
        self._domain.clock.call_at(self._domain.clock.now(), partial(self._enter, events))

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """See Endpoint."""
        end = self._inside.get(peer)
        if end is None:
            self._beside.post(peer, tag, size, sent)
        elif not self.is_closed and peer not in self._lost:
            self._domain.post(self, end, tag, size)

    def flush(self) -> None:
        """See Endpoint."""
        self._domain.flush()
        self._beside.flush()

    @property
    def stamp_ns(self) -> int:
        """See Endpoint; what comes through the domain has none."""
        return 0 if self._is_reporting else self._beside.stamp_ns

    @property
    def received_ns(self) -> int:
        """See Endpoint; what comes through the domain arrives when it is reported."""
        return self._domain.clock.now() if self._is_reporting else self._beside.received_ns

    @property
    def stalled_ns(self) -> int:
        """See Endpoint."""
        return self._beside.stalled_ns

    @property
    def lead_bytes(self) -> int:
        """See Endpoint."""
        return self._beside.lead_bytes

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """See Endpoint."""
        return self._beside.usual_ns(since_ns, until_ns)

    @property
    def clock_steps(self) -> int:
        """See Endpoint."""
        return self._beside.clock_steps

    def collect(self) -> None:
        """See Endpoint."""
        self._beside.collect()

    @property
    def acknowledged_bytes(self) -> int:
        """See Endpoint."""
        own = sum(flow.bytes for flow in self._counters.values())
        return self._beside.acknowledged_bytes + own + self._domain.carried_bytes(self)

    def counters(self) -> Sequence[FlowCounters]:
        """See Endpoint."""
        return [*self._beside.counters(), *map(replace, self._counters.values())]

    def eventful(self) -> Sequence[FlowCounters]:
        """See Endpoint; nothing can happen to a transfer in a domain."""
        return self._beside.eventful()

    def close(self) -> None:
        """See Endpoint."""
        self._beside.close()
        if not self.is_closed:
            self.is_closed = True
            self._domain.leave(self)

    def _enter(self, events: EndpointEvents) -> None:
        if self.is_closed:
            return
        self._events = events
        held, self._held = self._held, []
        for source, tag, size in held:
            self.take(source, tag, size)

    # For the domain.

    def take(self, source: DomainEndpoint, tag: int, size: int) -> None:
        """Report a transfer whose last byte is here, or keep it until somebody listens, or tell that nobody will."""
        if source.is_closed:
            return
        if self.is_closed:
            source.lose(self)
        elif self._events is None:
            self._held.append((source, tag, size))
        elif source.rank in self._inside:
            self._is_reporting = True
            self._events.arrived(source.rank, tag, size, self._domain.clock.now())
            self._is_reporting = False
            source.acknowledge(self.rank, tag, size)

    def acknowledge(self, peer: int, tag: int, size: int) -> None:
        """Report a transfer that a peer has."""
        counters = self._counters.get(peer)
        if counters is None:
            counters = self._counters[peer] = FlowCounters(self.rank, peer, medium=Medium.DOMAIN)
        counters.bytes += size
        counters.messages += max(1, -(-size // self._message_bytes))
        if self._events is not None and not self.is_closed:
            self._is_reporting = True
            self._events.acknowledged(peer, tag, self._domain.clock.now())
            self._is_reporting = False

    def lose(self, peer: DomainEndpoint) -> None:
        """Report, once, that a peer has closed."""
        if self.is_closed or self._events is None or peer.rank in self._lost:
            return
        self._lost.add(peer.rank)
        self._events.failed(peer.rank, f"rank {peer.rank} has left the scale-up domain")


class DomainTransport:
    """A transport for ranks of which some share domains. An endpoint without a domain is the transport's own.

    Args:
        beside: carries all that is not between ranks of one domain.
        group_of: rank → those it shares a domain with.
        message_bytes: payload of a message, at most.
    """

    def __init__(self, beside: Transport, group_of: Mapping[int, DomainGroup], *, message_bytes: int) -> None:
        self._beside, self._group_of, self._message_bytes = beside, group_of, message_bytes

    @property
    def name(self) -> str:
        """See Transport."""
        return self._beside.name

    def use_ports(self, ports: Mapping[int, RankPort], core_wait: CoreWait | None = None) -> None:
        """See Transport."""
        self._beside.use_ports(ports, core_wait)

    def use_alternates(self, alternates: Mapping[int, str]) -> None:
        """See Transport."""
        self._beside.use_alternates(alternates)

    def migrations(self) -> Sequence[Migration]:
        """See Transport; a domain has no ports to lose."""
        return self._beside.migrations()

    def facts(self) -> Mapping[str, Parameter]:
        """See Transport."""
        return self._beside.facts()

    def tidy(self) -> None:
        """See Transport."""
        self._beside.tidy()

    def timeline(self) -> Timeline | None:
        """See Transport; what goes through a domain has none."""
        return self._beside.timeline()

    def silence(self) -> Silence | None:
        """See Transport; a domain owes nobody an acknowledgement."""
        return self._beside.silence()

    async def open(self, rank: int, host: str) -> Endpoint:
        """See Transport."""
        beside = await self._beside.open(rank, host)
        group = self._group_of.get(rank)
        return beside if group is None else DomainEndpoint(beside, group, message_bytes=self._message_bytes)

    async def __aenter__(self) -> DomainTransport:
        await self._beside.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._beside.__aexit__(*exc_info)


def make_transport(
    name: str,
    *,
    message_bytes: int,
    run: str,
    seed: int = 0,
    options: TransportOptions | None = None,
    devices: Mapping[str, str] | None = None,
    domains: Sequence[DomainPlace] = (),
    clock: Clock | None = None,
) -> Transport:
    """Create a transport for the ranks of one agent. Only the transport that is used is imported.

    Args:
        name: in the registry of transports.
        message_bytes: maximum payload per message.
        run: run id; messages of other runs are dropped.
        seed: random seed.
        options: of this transport; None: its defaults.
        devices: address → interface to bind its sockets to; other addresses may use any interface.
        domains: scale-up domains of the ranks, which keep to themselves what is sent inside.
        clock: of the domains.

    Raises:
        PlanError: there is no such transport.
    """
    make = load(PluginKind.TRANSPORTS, transport_named(name).name)
    made: Transport = make(message_bytes=message_bytes, run=run, seed=seed, options=options, devices=devices or {})
    if clock is None or not domains:
        return made
    return with_domains(made, domains, clock=clock, message_bytes=message_bytes)
