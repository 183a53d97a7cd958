"""Workloads of pairs of ranks: all-reduces of all pairs at once, and a sweep over all pairs in rounds.

Calibration uses the former. In the latter every rank sends to every other one: in round k to the rank k after it, all
ranks at once. So each rank sends to one and receives from one at any time, and nothing but the network itself is
shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import NodeStreams, WorkNode


@dataclass(frozen=True, slots=True)
class PairsWorkload:
    """All-reduces of two ranks each, one after the other.

    Attributes:
        ranks: number of ranks, even.
        counts: (size in bytes, number of all-reduces), in order.

    Raises:
        PlanError: the number of ranks is odd or 0.
    """

    ranks: int
    counts: Sequence[tuple[int, int]]

    def __post_init__(self) -> None:
        if self.ranks < 2 or self.ranks % 2:
            raise PlanError(f"{self.ranks} ranks cannot form pairs: use an even number")

    @property
    def sizes(self) -> list[int]:
        """Size of every all-reduce, in order."""
        return [size for size, count in self.counts for _ in range(count)]


def pairs_workload(pairs: PairsWorkload) -> NodeStreams:
    """The pairs as a workload: ranks 0 and 1 form the first pair, 2 and 3 the second."""
    return NodeStreams(
        name="pairs",
        ranks=pairs.ranks,
        groups={pair + 1: (2 * pair, 2 * pair + 1) for pair in range(pairs.ranks // 2)},
        nodes=partial(_nodes, pairs),
        parameters={"ranks": pairs.ranks, "sizes": len(pairs.counts)},
    )


def _nodes(pairs: PairsWorkload, rank: int) -> Iterator[WorkNode]:
    for number, size in enumerate(pairs.sizes, 1):
        dependencies = (number - 1,) if number > 1 else ()
        yield WorkNode(
            number, f"all_reduce.{size}", dependencies, kind=CommKind.ALL_REDUCE, size_bytes=size, group=rank // 2 + 1
        )


_NODES_OF_A_ROUND = 3


@dataclass(frozen=True, slots=True)
class PairSweepWorkload:
    """Rounds of transfers, a barrier after each.

    Attributes:
        rounds: how many of the `ranks` - 1 rounds are played; None: all. Fewer are spread evenly over the distances.

    Raises:
        PlanError: there are too few ranks, or too many rounds.
    """

    ranks: int
    size_bytes: int
    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise PlanError(f"{self.ranks} rank has no pairs: at least 2 ranks are needed")
        if self.rounds is not None and not 1 <= self.rounds < self.ranks:
            raise PlanError(f"{self.rounds} rounds: {self.ranks} ranks have from 1 to {self.ranks - 1}")

    @property
    def distances(self) -> Sequence[int]:
        """Of every round: destination minus source, modulo the number of ranks."""
        count = self.ranks - 1
        rounds = self.rounds or count
        return [1 + number * count // rounds for number in range(rounds)]


def pair_sweep_workload(sweep: PairSweepWorkload) -> NodeStreams:
    """The sweep as a workload without process groups."""
    rounds, ranks = len(sweep.distances), sweep.ranks
    return NodeStreams(
        name="pairs",
        ranks=ranks,
        groups={},
        nodes=partial(_pair_sweep_nodes, sweep),
        parameters={"ranks": ranks, "size_bytes": sweep.size_bytes, "rounds": rounds},
    )


def _pair_sweep_nodes(sweep: PairSweepWorkload, rank: int) -> Iterator[WorkNode]:
    for number, distance in enumerate(sweep.distances):
        send, receive, barrier = (_NODES_OF_A_ROUND * number + which for which in (1, 2, 3))
        after = (send - 1,) if number else ()
        there, here = (rank + distance) % sweep.ranks, (rank - distance) % sweep.ranks
        size = sweep.size_bytes
        yield WorkNode(send, f"send.{distance}", after, kind=CommKind.SEND, size_bytes=size, peer=there)
        yield WorkNode(receive, f"recv.{distance}", after, kind=CommKind.RECV, size_bytes=size, peer=here)
        yield WorkNode(barrier, f"barrier.{distance}", (send, receive), kind=CommKind.BARRIER)
