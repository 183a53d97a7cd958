"""The time that transfers inside a scale-up domain take. Agents and simulations both use this model, on their clocks.

Every rank has a port into the domain and a port out of it, both at the domain's rate, as GPUs have at a switch of
NVLinks. Transfers from one rank to another follow each other. A port divides its rate equally among the pairs that are
active at it, and a transfer goes at the smaller part of its two ports. It arrives when its last byte is through and the
latency has passed: k transfers of one size, from or to one rank, take k * size / rate + latency. One of 0 bytes takes
the latency alone and waits for nothing. Acknowledgements take no time.

Max-min fair shares would use a port in full more often, but every change would concern all pairs: too many in a domain
of 72 ranks. Equal parts concern only those at two ports. For balanced patterns the two are the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from emulator.topology.model import Domain, Topology
from emulator.units import BITS_PER_BYTE, NS_PER_S

T = TypeVar("T")
_ROUNDING_NS = 1e-6
"""Sums of float64 can exceed a whole number of ns by less than this, which does not count as another ns."""
Port: TypeAlias = tuple[str, Hashable]
"""A direction, and a rank."""


class TransferArrival(NamedTuple, Generic[T]):
    """A transfer whose last byte arrives at `at_ns`."""

    at_ns: int
    transfer: T


class _DomainChannel(Generic[T]):
    """Transfers from one rank to another; the first is under way. Times are ns since the origin of the model.

    Attributes:
        share: of the rate of a port, which it has since `since_ns`.
        left_ns: what was left of it then, as time at the rate of a port.
        end_ns: when it is through if its share stays.
    """

    __slots__ = ("end_ns", "into", "left_ns", "out", "share", "since_ns", "waiting")

    def __init__(self, sender: Hashable, receiver: Hashable) -> None:
        self.out: Port = ("out", sender)
        self.into: Port = ("in", receiver)
        self.waiting: deque[tuple[int, T]] = deque()  # bytes, transfer
        self.share = self.left_ns = self.since_ns = 0.0
        self.end_ns = math.inf

    def begin(self, left_ns: float, at_ns: float) -> None:
        """Begin a transfer with the present share."""
        self.left_ns, self.since_ns = left_ns, at_ns
        self.end_ns = at_ns + left_ns / self.share if self.share else math.inf

    def left_at_ns(self, at_ns: float) -> float:
        """What is left then."""
        return self.left_ns - (at_ns - self.since_ns) * self.share


class Domains(Generic[T]):
    """All domains of a topology, for simulations; transfers are between world ranks."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._models: dict[int, DomainModel[T]] = {}

    def connect(self, sender: int, receiver: int) -> bool:
        """Whether both ranks belong to one domain."""
        domain = self._topology.domain_of(sender)
        return domain is not None and domain == self._topology.domain_of(receiver)

    @property
    def next_ns(self) -> int | None:
        """See DomainModel."""
        times_ns = (model.next_ns for model in self._models.values())
        return min((at_ns for at_ns in times_ns if at_ns is not None), default=None)

    def post(self, sender: int, receiver: int, size_bytes: int, transfer: T, *, now_ns: float) -> None:
        """Take a transfer between two ranks that a domain connects."""
        host = self._topology.host_index[sender]
        if host not in self._models:
            domain = self._topology.hosts[host].domain
            assert domain is not None  # as `connect` says
            self._models[host] = DomainModel(domain)
        self._models[host].post(sender, receiver, size_bytes, transfer, now_ns=_whole_ns(now_ns))

    def arrivals(self, now_ns: int) -> list[TransferArrival[T]]:
        """See DomainModel."""
        found = [arrival for model in self._models.values() for arrival in model.arrivals(now_ns)]
        return sorted(found, key=lambda arrival: arrival.at_ns)


class DomainModel(Generic[T]):
    """A domain as a machine without IO: transfers go in, and come out when they arrive. Times must not go backwards."""

    def __init__(self, domain: Domain) -> None:
        self._byte_ns = BITS_PER_BYTE * NS_PER_S / domain.rate_bps
        self._latency_ns = domain.latency_ns
        self._channels: dict[tuple[Hashable, Hashable], _DomainChannel[T]] = {}
        self._at_port: dict[Port, dict[_DomainChannel[T], None]] = {}
        self._changed: dict[Port, None] = {}  # ports whose channels have to be given new shares, from now on
        self._ends: list[tuple[float, int, _DomainChannel[T]]] = []  # a channel with another end now is no longer meant
        self._order = 0
        self._through: deque[TransferArrival[T]] = deque()  # in order of time
        self._origin_ns = self._now_ns = 0  # floats count from the origin, so that they stay exact

    @property
    def next_ns(self) -> int | None:
        """When the next transfer arrives, if nothing is posted until then; None: none is under way."""
        if self._through:
            return self._through[0].at_ns
        end_ns = self._next_end_ns()
        return None if end_ns is None else self._arrival_ns(end_ns)

    def post(self, sender: Hashable, receiver: Hashable, size_bytes: int, transfer: T, *, now_ns: int) -> None:
        """Take a transfer of one rank to another, or to itself."""
        self._advance(now_ns)
        if not size_bytes:
            self._through.append(TransferArrival(self._now_ns + self._latency_ns, transfer))
            return
        channel = self._channels.get((sender, receiver))
        if channel is None:
            channel = self._open(sender, receiver)
            channel.begin(size_bytes * self._byte_ns, self._now_ns - self._origin_ns)
        channel.waiting.append((size_bytes, transfer))

    def arrivals(self, now_ns: int) -> list[TransferArrival[T]]:
        """Transfers that have arrived by `now_ns`, in order of time; each is returned once."""
        self._advance(now_ns)
        found = []
        while self._through and self._through[0].at_ns <= now_ns:
            found.append(self._through.popleft())
        return found

    def drop(self, rank: Hashable) -> list[T]:
        """Forget what is under way from and to a rank, and return it."""
        channels = [self._channels[pair] for pair in self._channels if rank in pair]
        for channel in channels:
            self._close(channel)
        return [transfer for channel in channels for _, transfer in channel.waiting]

    def under_way_bytes(self, sender: Hashable, *, now_ns: int) -> int:
        """Bytes that are through, of transfers of which others are not yet."""
        self._advance(now_ns)
        at_ns = self._now_ns - self._origin_ns
        channels = self._at_port.get(("out", sender), ())
        return sum(one.waiting[0][0] - math.ceil(one.left_at_ns(at_ns) / self._byte_ns) for one in channels)

    def _open(self, sender: Hashable, receiver: Hashable) -> _DomainChannel[T]:
        if not self._channels:
            self._origin_ns = self._now_ns
            self._ends.clear()
        channel = self._channels[sender, receiver] = _DomainChannel(sender, receiver)
        for port in (channel.out, channel.into):
            self._at_port.setdefault(port, {})[channel] = None
            self._changed[port] = None
        return channel

    def _close(self, channel: _DomainChannel[T]) -> None:
        del self._channels[channel.out[1], channel.into[1]]
        channel.end_ns = math.inf
        for port in (channel.out, channel.into):
            del self._at_port[port][channel]
            self._changed[port] = None

    def _advance(self, now_ns: int) -> None:
        """Carry bytes until `now_ns`."""
        while (end_ns := self._next_end_ns()) is not None and end_ns <= now_ns - self._origin_ns + _ROUNDING_NS:
            self._end(end_ns)
        self._now_ns = max(now_ns, self._now_ns)

    def _next_end_ns(self) -> float | None:
        """When the next transfer is through."""
        if self._changed:
            self._share(self._now_ns - self._origin_ns)
        while self._ends and self._ends[0][2].end_ns != self._ends[0][0]:
            heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def _end(self, at_ns: float) -> None:
        """All transfers that are through at a time."""
        arrival_ns = self._arrival_ns(at_ns)
        while self._ends and self._ends[0][0] <= at_ns + _ROUNDING_NS:
            end_ns, _, channel = heappop(self._ends)
            if end_ns != channel.end_ns:
                continue
            self._through.append(TransferArrival(arrival_ns, channel.waiting.popleft()[1]))
            if channel.waiting:
                channel.begin(channel.waiting[0][0] * self._byte_ns, at_ns)
                self._expect(channel)
            else:
                self._close(channel)
        self._share(at_ns)

    def _share(self, at_ns: float) -> None:
        """Give the channels at ports that have changed their shares."""
        changed, self._changed = self._changed, {}
        for channel in {one: None for port in changed for one in self._at_port[port]}:
            share = 1 / max(len(self._at_port[channel.out]), len(self._at_port[channel.into]))
            if share != channel.share:
                left_ns, channel.share = channel.left_at_ns(at_ns), share
                channel.begin(left_ns, at_ns)
                self._expect(channel)

    def _expect(self, channel: _DomainChannel[T]) -> None:
        self._order += 1
        heappush(self._ends, (channel.end_ns, self._order, channel))

    def _arrival_ns(self, end_ns: float) -> int:
        return self._origin_ns + _whole_ns(end_ns + self._latency_ns)


def _whole_ns(time_ns: float) -> int:
    return math.ceil(time_ns - _ROUNDING_NS)
