"""How long a collective takes when its steps wait for each other and its flows share links fairly.

A model of flows as fluids: everything that is being sent shares the links it crosses max-min fairly, at once and
without loss; a member begins its next step when everything it receives in this one is there. Latency, acknowledgements
and the work of endpoints are left out. It walks every transfer, so it is for small groups.

Source: Bertsekas & Gallager, Data Networks (1992), 6.5.2, for max-min fairness by progressive filling.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from emulator.planner.algorithms import schedule
from emulator.planner.network.routing import FloatArray, Router
from emulator.planner.schedule import Collective, Step, Transfer
from emulator.planner.traffic.operation import Operation
from emulator.trace.model import IntArray

MOST_TRANSFERS = 2048
"""Transfers over all groups of an operation that are walked; they take some milliseconds each at worst."""
_SAME_TIME = 1e-9
"""Relative: what ends that close together ends together."""


def fluid_ns(operation: Operation, router: Router, byte_ns: FloatArray) -> int | None:
    """Time of the slowest group alone, ns; None if it is too large, has uneven splits, or a link has no rate.

    Args:
        operation: a collective or send.
        router: its hash (or the routes) chooses paths.
        byte_ns: per directed link, time of a payload byte.

    Raises:
        PlanError: as `Router.hashed`.
    """
    if operation.splits is not None or operation.transfers * operation.groups > MOST_TRANSFERS:
        return None
    longest = float(np.max([_Group(operation, ranks, router, byte_ns).run() for ranks in operation.ranks]))
    return None if np.isnan(longest) else int(np.ceil(longest - 1e-6))


class _Queue:
    """Transfers from one member to another in one lane: they arrive in the order they are sent."""

    __slots__ = ("is_busy", "lane", "left", "links", "receiver", "sender", "waiting")

    def __init__(self, sender: int, receiver: int, lane: int, links: IntArray) -> None:
        self.sender, self.receiver, self.lane, self.links = sender, receiver, lane, links
        self.waiting: deque[int] = deque()
        self.left, self.is_busy = 0.0, False


class _Lane:
    """A member's steps to come, whom its present step waits for, and what came before it was waited for."""

    __slots__ = ("early", "missing", "steps")

    def __init__(self, steps: Iterator[Step]) -> None:
        self.steps = steps
        self.missing: Counter[int] = Counter()
        self.early: Counter[int] = Counter()

    def await_from(self, peers: Iterable[int]) -> bool:
        """Wait for a transfer from each; whether anything is still to come."""
        self.missing = Counter(peers)
        here = self.missing & self.early
        self.missing -= here
        self.early -= here
        return bool(self.missing)

    def arrived(self, peer: int) -> bool:
        """A transfer has come; whether the step is complete with it."""
        if not self.missing[peer]:
            self.early[peer] += 1
            return False
        self.missing -= Counter([peer])
        return not self.missing


class _Group:
    """One group while it plays."""

    def __init__(self, operation: Operation, ranks: IntArray, router: Router, byte_ns: FloatArray) -> None:
        self._ranks, self._router, self._byte_ns = ranks, router, byte_ns
        self._lanes = {
            (member, number): _Lane(iter(lane))
            for member in range(operation.members)
            for number, lane in enumerate(lanes_of(operation, member))
        }
        self._queues: dict[tuple[int, int, int], _Queue] = {}
        self._active: list[_Queue] = []

    def run(self) -> float:
        """Time until everybody is done, ns; NaN where a link has no rate, or somebody waits for ever."""
        now = 0.0
        for member, lane in list(self._lanes):
            self._advance(member, lane)
        while self._active:
            rates = fair_rates([queue.links for queue in self._active], 1 / self._byte_ns)
            left = np.array([queue.left for queue in self._active])
            with np.errstate(divide="ignore", invalid="ignore"):
                times = np.where(np.isinf(rates), 0.0, left / rates)
            step = float(times.min())
            if np.isnan(step):
                return step
            now += step
            done = times <= step * (1 + _SAME_TIME)
            self._finish(done, left - np.where(np.isinf(rates), 0.0, rates) * step)
        return np.nan if any(lane.missing for lane in self._lanes.values()) else now

    def _finish(self, done: np.typing.NDArray[np.bool_], left: FloatArray) -> None:
        active, self._active = self._active, []
        finished = []
        for queue, is_done, rest in zip(active, done.tolist(), left.tolist(), strict=True):
            queue.left = rest
            if is_done:
                finished.append(queue)
                self._next(queue)
            else:
                self._active.append(queue)
        for queue in finished:
            if self._lanes[queue.receiver, queue.lane].arrived(queue.sender):
                self._advance(queue.receiver, queue.lane)

    def _advance(self, member: int, number: int) -> None:
        """Begin steps until one has something to wait for."""
        lane = self._lanes[member, number]
        for step in lane.steps:
            for transfer in step.sends:
                self._send(member, transfer.peer, number, transfer.size)
            if lane.await_from(transfer.peer for transfer in step.recvs):
                return

    def _send(self, member: int, peer: int, lane: int, size: int) -> None:
        key = (member, peer, lane)
        if key not in self._queues:
            self._queues[key] = _Queue(member, peer, lane, self._path(member, peer))
        queue = self._queues[key]
        queue.waiting.append(size)
        if not queue.is_busy:
            self._next(queue)

    def _next(self, queue: _Queue) -> None:
        queue.is_busy = bool(queue.waiting)
        if queue.is_busy:
            queue.left = float(queue.waiting.popleft())
            self._active.append(queue)

    def _path(self, sender: int, receiver: int) -> IntArray:
        """Directed links from one member to another; none within a host."""
        one, other = self._ranks[sender : sender + 1], self._ranks[receiver : receiver + 1]
        if not self._router.remote(one, other)[0]:
            return np.zeros(0, dtype=np.int64)
        crossings = [*self._router.edges(one, other), *self._router.hashed(one, other)]
        return np.concatenate([crossing.links for crossing in crossings])


def lanes_of(operation: Operation, member: int) -> Sequence[Iterator[Step]]:
    """What a member of a collective or send does, lane by lane."""
    if not operation.kind.is_collective:
        transfer = (Transfer(1 - member, 0, operation.size_bytes),) if operation.size_bytes else ()
        return [iter([Step(sends=transfer) if member == 0 else Step(recvs=transfer)])]
    view = Collective(operation.kind, operation.members, member, operation.size_bytes, operation.root)
    return schedule(operation.algorithm, view)


def fair_rates(paths: Sequence[IntArray], capacity: FloatArray) -> FloatArray:
    """Max-min fair rates of flows over these links: the fullest link settles its flows, again and again."""
    rates = np.full(len(paths), np.inf)
    flows = np.repeat(np.arange(len(paths)), [len(path) for path in paths])
    if not len(flows):
        return rates
    used, links = np.unique(np.concatenate(paths), return_inverse=True)
    room = capacity[used].copy()
    if np.isnan(room).any():
        return np.full(len(paths), np.nan)
    open_ = np.ones(len(flows), dtype=np.bool_)
    while open_.any():
        counts = np.bincount(links[open_], minlength=len(used))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(counts > 0, room / counts, np.inf)
        share = float(shares.min())
        tight = shares <= share * (1 + _SAME_TIME)
        settled = np.unique(flows[open_ & tight[links]])
        rates[settled] = share
        of_settled = open_ & np.isin(flows, settled)
        room -= share * np.bincount(links[of_settled], minlength=len(used))
        open_ &= ~of_settled
    return rates
