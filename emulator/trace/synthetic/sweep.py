"""Workloads that are made for a run: one collective over all ranks, and pairs of ranks.

A collective is swept over a range of sizes as in nccl-tests: every iteration has every size once, in order. A sweep
over pairs has every rank send to every other one: in round k to the rank k after it, all ranks at once. So each rank
sends to one and receives from one at any time, and nothing but the network itself is shared. Calibration plays
all-reduces of all pairs at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import class_name
from emulator.trace.synthetic.synthetic import MAX_COMM_SIZE, NodeStreams, WorkNode, check_size

_SHARDED_INPUT = (CommKind.ALL_GATHER, CommKind.GATHER)


def comm_size_of(kind: CommKind, *, ranks: int, size_bytes: int) -> int:
    """Chakra's comm_size of a collective: input bytes per rank, which is one shard for all_gather and gather.

    Args:
        size_bytes: as nccl-tests counts it, that of the whole array; a barrier has none.

    Raises:
        PlanError: it is out of range, or does not divide into equal shards although the kind needs them.
    """
    if not 0 <= size_bytes <= MAX_COMM_SIZE:
        raise PlanError(f"the size is {size_bytes} bytes: it must be 0 to {MAX_COMM_SIZE}")
    if kind is CommKind.BARRIER:
        return 0
    if kind not in _SHARDED_INPUT:
        return size_bytes
    if size_bytes % ranks:
        raise PlanError(f"{kind.label} of {size_bytes} bytes does not divide into equal shards for {ranks} ranks")
    return size_bytes // ranks


MAX_SIZES = 10_000
"""Most sizes of a sweep: a step of one byte over a large range is a mistake."""


@dataclass(frozen=True, slots=True)
class SweepWorkload:
    """A sweep over all ranks; `sizes` in bytes as nccl-tests counts them, ascending and distinct.

    SEND stands for pairs: every rank sends to the next one and receives from the one before, at the same time.
    """

    kind: CommKind
    ranks: int
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        check_size(self.ranks, len(self.sizes))

    @property
    def label(self) -> str:
        """Name of what is swept."""
        return class_name(self.kind)


def sweep_sizes(
    kind: CommKind, *, ranks: int, least: int, most: int, factor: float = 2, step: int | None = None
) -> list[int]:
    """The sizes of a sweep over a range, bytes: from `least` to at most `most`, as `listed_sizes` plays them.

    Args:
        least, most: bytes, as nccl-tests counts them.
        factor: ratio of a size to the one before, above 1; fractions of a byte are dropped, as in nccl-tests.
        step: bytes from a size to the next, in place of the factor.

    Raises:
        PlanError: the range is empty, the factor or the step is too small, or all sizes round down to 0.
    """
    if factor <= 1:
        raise PlanError(f"the factor of the sweep is {factor:g}: it must be above 1")
    if step is not None and step < 1:
        raise PlanError(f"the step of the sweep is {step} bytes: it must be at least 1")
    if not 0 < least <= most:
        raise PlanError(f"sizes from {least} to {most} bytes: the first must be at least 1, and at most the last")
    sizes: list[int] = []
    size = least
    while size <= most:
        sizes.append(size)
        size = max(size + 1, int(size * factor)) if step is None else size + step
        if len(sizes) > MAX_SIZES:
            raise PlanError(f"more than {MAX_SIZES:,} sizes from {least} to {most} bytes: take larger steps")
    return listed_sizes(kind, ranks=ranks, sizes=sizes)


def listed_sizes(kind: CommKind, *, ranks: int, sizes: Iterable[int]) -> list[int]:
    """The sizes that are played for requested ones, bytes: ascending and distinct.

    Sizes of collectives that need equal shards are rounded down to a multiple of the ranks. A barrier has no size.

    Raises:
        PlanError: all sizes round down to 0.
    """
    if ranks < 2:
        raise PlanError(f"{class_name(kind)} needs at least 2 ranks: one alone sends nothing that could be measured")
    if kind is CommKind.BARRIER:
        return [0]
    requested = {0, *sizes}
    shard = ranks if kind in _SHARDED_INPUT else 1
    distinct = sorted({size // shard * shard for size in requested} - {0})
    if not distinct:
        raise PlanError(
            f"{kind.label} of {ranks} ranks needs at least {shard} bytes; the largest size is {max(requested)}"
        )
    return distinct


def sweep_workload(sweep: SweepWorkload) -> NodeStreams:
    """The sweep as a workload without process groups; the k-th collective, or pair of transfers, has the k-th size."""
    return NodeStreams(
        name=sweep.label,
        ranks=sweep.ranks,
        groups={},
        nodes=partial(_pair_nodes if sweep.kind is CommKind.SEND else _collective_nodes, sweep),
        parameters={"collective": sweep.label, "ranks": sweep.ranks, "sizes": len(sweep.sizes)},
    )


def _pair_nodes(sweep: SweepWorkload, rank: int) -> Iterator[WorkNode]:
    following, previous = (rank + 1) % sweep.ranks, (rank - 1) % sweep.ranks
    for at, size in enumerate(sweep.sizes):
        deps = (2 * at - 1, 2 * at) if at else ()
        yield WorkNode(2 * at + 1, f"send.{size}", deps, kind=CommKind.SEND, size_bytes=size, peer=following)
        yield WorkNode(2 * at + 2, f"recv.{size}", deps, kind=CommKind.RECV, size_bytes=size, peer=previous)


def _collective_nodes(sweep: SweepWorkload, rank: int) -> Iterator[WorkNode]:
    del rank  # all ranks do the same
    for number, size in enumerate(sweep.sizes, 1):
        dependencies = (number - 1,) if number > 1 else ()
        comm_size = comm_size_of(sweep.kind, ranks=sweep.ranks, size_bytes=size)
        yield WorkNode(number, f"{sweep.label}.{size}", dependencies, kind=sweep.kind, size_bytes=comm_size)


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
        nodes=partial(_nodes_of_pairs, pairs),
        parameters={"ranks": pairs.ranks, "sizes": len(pairs.counts)},
    )


def _nodes_of_pairs(pairs: PairsWorkload, rank: int) -> Iterator[WorkNode]:
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
