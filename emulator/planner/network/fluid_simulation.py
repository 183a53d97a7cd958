"""Simulation of a collective with flows as fluids: steps wait for each other, flows share links max-min fairly.

All transfers in progress share the links on their paths max-min fairly, instantly and without loss. A member begins its
next step when everything it receives in the current one has arrived. The latency of links, acknowledgements and the
work of endpoints are left out; scale-up domains take the time that they take in agents. Every transfer is simulated, so
this is for small groups.

Source: Bertsekas & Gallager, Data Networks (1992), 6.5.2, for max-min fairness by progressive filling.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from emulator.planner.algorithms import schedule
from emulator.planner.network.arrays import FloatArray
from emulator.planner.network.domain import Domains
from emulator.planner.network.routing import Router
from emulator.planner.schedule import Collective, Step, Transfer
from emulator.planner.traffic.operation import Operation
from emulator.trace.meaning.model import BoolArray, IntArray


class LaneProgress:
    """The remaining steps of one lane of a member, and the transfers that its current step is waiting for."""

    __slots__ = ("_early", "_missing", "steps")

    def __init__(self, steps: Iterator[Step]) -> None:
        self.steps = steps
        self._missing: Counter[int] = Counter()
        self._early: Counter[int] = Counter()

    @property
    def is_waiting(self) -> bool:
        """Whether the current step lacks a transfer."""
        return bool(self._missing)

    def await_transfers(self, peers: Iterable[int]) -> bool:
        """Begin to wait for one transfer from each peer; whether any has not arrived yet."""
        self._missing = Counter(peers)
        arrived = self._missing & self._early
        self._missing -= arrived
        self._early -= arrived
        return self.is_waiting

    def receive(self, peer: int) -> bool:
        """Take a transfer that has arrived; whether it completes the current step."""
        if not self._missing[peer]:
            self._early[peer] += 1
            return False
        self._missing -= Counter([peer])
        return not self._missing


def lanes_of(operation: Operation, member: int) -> Sequence[Iterator[Step]]:
    """The lanes of one member of a collective or of a send."""
    if not operation.kind.is_collective:
        transfer = (Transfer(1 - member, 0, operation.size_bytes),) if operation.size_bytes else ()
        return [iter([Step(sends=transfer) if member == 0 else Step(recvs=transfer)])]
    view = Collective(
        operation.kind, operation.members, member, operation.size_bytes, operation.root, layout=operation.layout
    )
    if operation.splits is not None:
        splits = np.zeros((operation.members, operation.members), np.int64)
        splits[operation.splits.senders, operation.splits.receivers] = operation.splits.sizes
        view = replace(view, send_splits=splits[member].tolist(), recv_splits=splits[:, member].tolist())
    return schedule(operation.algorithm, view)


MOST_TRANSFERS = 2048
"""Transfers over all groups of an operation that are simulated, at most; that many take some milliseconds."""
_SAME_TIME = 1e-9
"""Relative difference below which two transfers end at the same time."""


def fluid_ns(operation: Operation, router: Router, byte_ns: FloatArray) -> int | None:
    """Time of the slowest group on its own, ns.

    Args:
        router: its hash, or the explicit routes, choose paths.
        byte_ns: per directed link, time of a payload byte.

    Returns:
        None if the operation is too large, splits are uneven, or a link has no rate.

    Raises:
        PlanError: as `Router.hashed`.
    """
    if operation.splits is not None or operation.transfers * operation.groups > MOST_TRANSFERS:
        return None
    longest = float(np.max([_Group(operation, ranks, router, byte_ns).run() for ranks in operation.ranks]))
    return None if np.isnan(longest) else int(np.ceil(longest - 1e-6))


class IdealTransfer(NamedTuple):
    """A transfer in the simulation, in world ranks; times in ns since all members began."""

    sender: int
    receiver: int
    lane: int
    post_ns: int
    arrival_ns: int


def fluid_transfers(
    operation: Operation, group: int, router: Router, byte_ns: FloatArray
) -> Sequence[IdealTransfer] | None:
    """Every transfer of one group on its own; those from one rank to another in one lane are in order.

    Args:
        group: number of the group in it.
        router, byte_ns: see `fluid_ns`.

    Returns:
        None as of `fluid_ns`.

    Raises:
        PlanError: as `Router.hashed`.
    """
    if operation.splits is not None or operation.transfers > MOST_TRANSFERS:
        return None
    ranks = operation.ranks[group]
    simulated = _Group(operation, ranks, router, byte_ns)
    if np.isnan(simulated.run()):
        return None
    return [
        IdealTransfer(int(ranks[one.sender]), int(ranks[one.receiver]), one.lane, round(post_ns), round(arrival_ns))
        for one, post_ns, arrival_ns in simulated.transfers
    ]


class _Channel:
    """Transfers from one member to another in one lane; they arrive in the order they are sent."""

    __slots__ = ("is_busy", "lane", "left_bytes", "links", "post_ns", "receiver", "sender", "waiting")

    def __init__(self, sender: int, receiver: int, lane: int, links: IntArray) -> None:
        self.sender, self.receiver, self.lane, self.links = sender, receiver, lane, links
        self.waiting: deque[tuple[int, float]] = deque()  # bytes, time of post
        self.left_bytes, self.post_ns, self.is_busy = 0.0, 0.0, False


class _Group:
    """Simulates one group.

    Attributes:
        transfers: (channel, post, arrival) of those that are done, in order of arrival, ns.
    """

    def __init__(self, operation: Operation, ranks: IntArray, router: Router, byte_ns: FloatArray) -> None:
        self._ranks, self._router, self._byte_ns = ranks, router, byte_ns
        self._lanes = {
            (member, number): LaneProgress(iter(lane))
            for member in range(operation.members)
            for number, lane in enumerate(lanes_of(operation, member))
        }
        self._channels: dict[tuple[int, int, int], _Channel] = {}
        self._active: list[_Channel] = []
        self._domains: Domains[tuple[_Channel, float]] = Domains(router.topology)  # channel, time of post
        self._now_ns = 0.0
        self.transfers: list[tuple[_Channel, float, float]] = []

    def run(self) -> float:
        """Time until every member is done, ns; NaN if a link has no rate or a receive is never satisfied."""
        for member, lane in list(self._lanes):
            self._advance(member, lane)
        while self._active or self._domains.next_ns is not None:
            rates = fair_rates([channel.links for channel in self._active], 1 / self._byte_ns)
            left = np.array([channel.left_bytes for channel in self._active])
            with np.errstate(divide="ignore", invalid="ignore"):
                times = np.where(np.isinf(rates), 0.0, left / rates)
            step = float(times.min(initial=np.inf))
            if np.isnan(step):
                return step
            domain_ns = self._domains.next_ns
            if domain_ns is not None and (until_ns := max(0.0, domain_ns - self._now_ns)) < step:
                self._now_ns += until_ns
                self._finish(times < 0, left - np.where(np.isinf(rates), 0.0, rates) * until_ns)
                self._arrive(domain_ns)
                continue
            self._now_ns += step
            done = times <= step * (1 + _SAME_TIME)
            self._finish(done, left - np.where(np.isinf(rates), 0.0, rates) * step)
        return np.nan if any(lane.is_waiting for lane in self._lanes.values()) else self._now_ns

    def _arrive(self, now_ns: int) -> None:
        """What has come through domains."""
        for _, (channel, post_ns) in self._domains.arrivals(now_ns):
            self.transfers.append((channel, post_ns, self._now_ns))
            if self._lanes[channel.receiver, channel.lane].receive(channel.sender):
                self._advance(channel.receiver, channel.lane)

    def _finish(self, done: BoolArray, left: FloatArray) -> None:
        active, self._active = self._active, []
        finished = []
        for channel, is_done, left_bytes in zip(active, done.tolist(), left.tolist(), strict=True):
            channel.left_bytes = left_bytes
            if is_done:
                finished.append(channel)
                self.transfers.append((channel, channel.post_ns, self._now_ns))
                self._begin_next(channel)
            else:
                self._active.append(channel)
        for channel in finished:
            if self._lanes[channel.receiver, channel.lane].receive(channel.sender):
                self._advance(channel.receiver, channel.lane)

    def _advance(self, member: int, number: int) -> None:
        """Begin steps until one has to wait."""
        lane = self._lanes[member, number]
        for step in lane.steps:
            for transfer in step.sends:
                self._send(member, transfer.peer, number, transfer.size)
            if lane.await_transfers(transfer.peer for transfer in step.recvs):
                return

    def _send(self, member: int, peer: int, lane: int, size: int) -> None:
        key = (member, peer, lane)
        if key not in self._channels:
            self._channels[key] = _Channel(member, peer, lane, self._path(member, peer))
        channel = self._channels[key]
        ends = int(self._ranks[member]), int(self._ranks[peer])
        if self._domains.connect(*ends):
            self._domains.post(*ends, size, (channel, self._now_ns), now_ns=self._now_ns)
            return
        channel.waiting.append((size, self._now_ns))
        if not channel.is_busy:
            self._begin_next(channel)

    def _begin_next(self, channel: _Channel) -> None:
        channel.is_busy = bool(channel.waiting)
        if channel.is_busy:
            size, channel.post_ns = channel.waiting.popleft()
            channel.left_bytes = float(size)
            self._active.append(channel)

    def _path(self, sender: int, receiver: int) -> IntArray:
        """Directed links from one member to another; empty within a host."""
        one, other = self._ranks[sender : sender + 1], self._ranks[receiver : receiver + 1]
        if not self._router.remote(one, other)[0]:
            return np.zeros(0, dtype=np.int64)
        crossings = [*self._router.edges(one, other), *self._router.hashed(one, other)]
        return np.concatenate([crossing.links for crossing in crossings])


def fair_rates(paths: list[IntArray], capacity: FloatArray) -> FloatArray:
    """Max-min fair rates of flows: the most loaded link determines the rate of its flows, then the next, and so on.

    Args:
        paths: the links that each flow crosses.
        capacity: of every link.

    Returns:
        Shape (flows,), in the unit of the capacities; infinite for a flow without links, all NaN if any link that is
        used has no capacity.
    """
    rates = np.full(len(paths), np.inf)
    flows = np.repeat(np.arange(len(paths)), [len(path) for path in paths])
    if not len(flows):
        return rates
    used, links = np.unique(np.concatenate(paths), return_inverse=True)
    room = capacity[used].copy()
    if np.isnan(room).any():
        return np.full(len(paths), np.nan)
    is_open = np.ones(len(flows), dtype=np.bool_)
    while is_open.any():
        counts = np.bincount(links[is_open], minlength=len(used))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(counts > 0, room / counts, np.inf)
        share = float(shares.min())
        is_full = shares <= share * (1 + _SAME_TIME)
        settled = np.unique(flows[is_open & is_full[links]])
        rates[settled] = share
        of_settled = is_open & np.isin(flows, settled)
        room -= share * np.bincount(links[of_settled], minlength=len(used))
        is_open &= ~of_settled
    return rates
