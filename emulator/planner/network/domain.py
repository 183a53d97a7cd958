"""The time that transfers inside a scale-up domain take. Agents and simulations both use this model, on their clocks.

Every rank has a port into the domain and a port out of it, both at the domain's rate, as GPUs have at a switch of
NVLinks. Transfers from one rank to another follow each other; those of different pairs share the ports max-min fairly,
in any proportion and at once. A transfer arrives when its last byte is through and the latency has passed: k transfers
of one size, from or to one rank, take k * size / rate + latency. One of 0 bytes takes the latency alone and waits for
nothing. Acknowledgements take no time.

Source: Bertsekas & Gallager, Data Networks (1992), 6.5.2, for max-min fairness by progressive filling.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from emulator.topology.model import Domain, Topology
from emulator.units import BITS_PER_BYTE, NS_PER_S

T = TypeVar("T")
_ROUNDING_NS = 1e-6
"""Sums of float64 can exceed a whole number of ns by less than this, which does not count as another ns."""
_SAME_SHARE = 1 + 1e-9


class Arrival(NamedTuple, Generic[T]):
    """A transfer whose last byte arrives at `at_ns`."""

    at_ns: int
    transfer: T


class _Channel(Generic[T]):
    """Transfers from one rank to another; the first is under way.

    Attributes:
        left_ns: what is left of it, as time at the rate of a port.
        share: of that rate, which it has at present.
    """

    __slots__ = ("into", "left_ns", "out", "share", "waiting")

    def __init__(self, sender: Hashable, receiver: Hashable) -> None:
        self.out, self.into = ("out", sender), ("in", receiver)
        self.waiting: deque[tuple[int, T]] = deque()  # bytes, transfer
        self.left_ns, self.share = 0.0, 0.0


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

    def arrivals(self, now_ns: int) -> list[Arrival[T]]:
        """See DomainModel."""
        found = [arrival for model in self._models.values() for arrival in model.arrivals(now_ns)]
        return sorted(found, key=lambda arrival: arrival.at_ns)


class DomainModel(Generic[T]):
    """A domain as a machine without IO: transfers go in, and come out when they arrive. Times must not go backwards.

    Args:
        domain: its rate and latency.
    """

    def __init__(self, domain: Domain) -> None:
        self._byte_ns = BITS_PER_BYTE * NS_PER_S / domain.rate_bps
        self._latency_ns = domain.latency_ns
        self._channels: dict[tuple[Hashable, Hashable], _Channel[T]] = {}
        self._through: deque[Arrival[T]] = deque()  # in order of time
        self._at_ns = 0
        self._is_shared = True  # every channel has its share

    @property
    def next_ns(self) -> int | None:
        """When the next transfer arrives, if nothing is posted until then; None: none is under way."""
        if self._through:
            return self._through[0].at_ns
        if not self._channels:
            return None
        return self._at_ns + _whole_ns(self._step_ns() + self._latency_ns)

    def post(self, sender: Hashable, receiver: Hashable, size_bytes: int, transfer: T, *, now_ns: int) -> None:
        """Take a transfer of one rank to another, or to itself."""
        self._advance(now_ns)
        if not size_bytes:
            self._through.append(Arrival(self._at_ns + self._latency_ns, transfer))
            return
        channel = self._channels.get((sender, receiver))
        if channel is None:
            channel = self._channels[sender, receiver] = _Channel(sender, receiver)
            channel.left_ns = size_bytes * self._byte_ns
            self._is_shared = False
        channel.waiting.append((size_bytes, transfer))

    def arrivals(self, now_ns: int) -> list[Arrival[T]]:
        """Transfers that have arrived by `now_ns`, in order of time; each is returned once."""
        self._advance(now_ns)
        found = []
        while self._through and self._through[0].at_ns <= now_ns:
            found.append(self._through.popleft())
        return found

    def drop(self, rank: Hashable) -> list[T]:
        """Forget what is under way from and to a rank, and return it."""
        pairs = [pair for pair in self._channels if rank in pair]
        self._is_shared = self._is_shared and not pairs
        return [transfer for pair in pairs for _, transfer in self._channels.pop(pair).waiting]

    def under_way_bytes(self, sender: Hashable, *, now_ns: int) -> int:
        """Bytes that are through, of transfers of which others are not yet."""
        self._advance(now_ns)
        return sum(
            channel.waiting[0][0] - math.ceil(channel.left_ns / self._byte_ns)
            for (one, _), channel in self._channels.items()
            if one == sender
        )

    def _advance(self, now_ns: int) -> None:
        """Carry bytes until `now_ns`."""
        passed_ns, room_ns = 0.0, now_ns - self._at_ns
        while self._channels and passed_ns < room_ns:
            step_ns = self._step_ns()
            if passed_ns + step_ns > room_ns + _ROUNDING_NS:
                for channel in self._channels.values():
                    channel.left_ns -= (room_ns - passed_ns) * channel.share
                break
            passed_ns += step_ns
            self._carry(step_ns, self._at_ns, passed_ns)
        self._at_ns = max(now_ns, self._at_ns)

    def _step_ns(self) -> float:
        """Time until the next transfer is through."""
        if not self._is_shared:
            _share(self._channels.values())
            self._is_shared = True
        return max(0.0, min(channel.left_ns / channel.share for channel in self._channels.values()))

    def _carry(self, step_ns: float, since_ns: int, passed_ns: float) -> None:
        """Carry bytes for a time at the end of which one transfer or more are through."""
        at_ns = since_ns + _whole_ns(passed_ns + self._latency_ns)
        for pair, channel in list(self._channels.items()):
            channel.left_ns -= step_ns * channel.share
            if channel.left_ns <= _ROUNDING_NS:
                self._through.append(Arrival(at_ns, channel.waiting.popleft()[1]))
                if channel.waiting:
                    channel.left_ns = channel.waiting[0][0] * self._byte_ns
                else:
                    del self._channels[pair]
                    self._is_shared = False


def _whole_ns(time_ns: float) -> int:
    return math.ceil(time_ns - _ROUNDING_NS)


def _share(channels: Collection[_Channel[T]]) -> None:
    """Max-min fair shares: the most crowded port determines those of its channels, then the next, and so on."""
    room: dict[Hashable, float] = {}
    unsettled: Sequence[_Channel[T]] = list(channels)
    while unsettled:
        crowd = Counter(_ports(unsettled))
        shares = {port: room.get(port, 1.0) / count for port, count in crowd.items()}
        least = min(shares.values())
        full = {port for port, share in shares.items() if share <= least * _SAME_SHARE}
        later = []
        for channel in unsettled:
            if channel.out in full or channel.into in full:
                channel.share = least
                for port in (channel.out, channel.into):
                    room[port] = room.get(port, 1.0) - least
            else:
                later.append(channel)
        unsettled = later


def _ports(channels: Sequence[_Channel[T]]) -> Iterator[Hashable]:
    for channel in channels:
        yield channel.out
        yield channel.into
