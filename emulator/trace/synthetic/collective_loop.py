"""Workloads of one collective over all ranks, repeated, or swept over a range of sizes as in nccl-tests.

Every iteration of a sweep has every size once, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import COLLECTIVES, SEND_RECV, parse_collective
from emulator.trace.meaning.program import MAX_MICROS
from emulator.trace.synthetic.device import NodeChain
from emulator.trace.synthetic.options import option
from emulator.trace.synthetic.synthetic import (
    MAX_COMM_SIZE,
    GroupRole,
    SyntheticWorkload,
    WorkNode,
    check_size,
)
from emulator.units import parse_size

_SHARDED_INPUT = (CommKind.ALL_GATHER, CommKind.GATHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLoop:
    """`count` collectives of all ranks, each posted when the previous one is done.

    Attributes:
        size_bytes: size as nccl-tests counts it, that of the whole array; not used by a barrier.

    Raises:
        PlanError: a number is out of range, or the size does not divide into equal shards although the kind needs them.
    """

    kind: CommKind = option(", ".join(COLLECTIVES), flags="kind", metavar="COLLECTIVE", read=parse_collective)
    ranks: int = option("number of ranks", flags="-n --ranks")
    size_bytes: int = option(
        "size as in nccl-tests, e.g. 64M", default=0, flags="-b --bytes", metavar="SIZE", read=parse_size
    )
    count: int = option("number of collectives", default=1, metavar="K")
    compute_micros: int = option("compute time before each, µs", default=0, flags="--gap-micros", metavar="US")

    def __post_init__(self) -> None:
        if not self.kind.is_collective:
            raise PlanError(f"{self.kind.label} is not a collective")
        if self.ranks < 1 or self.count < 1:
            raise PlanError(f"{self.count} collectives of {self.ranks} ranks: both numbers must be at least 1")
        check_size(self.ranks, self.count)
        if not 0 <= self.compute_micros <= MAX_MICROS:
            raise PlanError(f"the gap is {self.compute_micros} microseconds: it must be 0 to {MAX_MICROS}")
        if not 0 <= self.size_bytes <= MAX_COMM_SIZE:
            raise PlanError(f"the size is {self.size_bytes} bytes: it must be 0 to {MAX_COMM_SIZE}")
        if self.kind in _SHARDED_INPUT and self.size_bytes % self.ranks:
            raise PlanError(
                f"{self.kind.label} of {self.size_bytes} bytes does not divide into equal shards for {self.ranks} ranks"
            )

    @property
    def comm_size(self) -> int:
        """Chakra's comm_size: input bytes per rank, which is one shard for all_gather and gather."""
        if self.kind is CommKind.BARRIER:
            return 0
        return self.size_bytes // self.ranks if self.kind in _SHARDED_INPUT else self.size_bytes


def collective_workload(loop: CollectiveLoop) -> SyntheticWorkload:
    """The loop as a workload without process groups."""
    return SyntheticWorkload(
        name=loop.kind.label,
        ranks=loop.ranks,
        groups={},
        nodes=partial(_nodes, loop),
        parameters={
            "collective": loop.kind.label,
            "ranks": loop.ranks,
            "size_bytes": loop.size_bytes,
            "count": loop.count,
            "compute_micros": loop.compute_micros,
        },
        role=lambda rank, node: GroupRole.WORLD,
        alike={0: loop.ranks},
    )


def _nodes(loop: CollectiveLoop, rank: int) -> Iterator[WorkNode]:
    del rank  # all ranks do the same
    chain, last = NodeChain(), 0
    for k in range(loop.count):
        if loop.compute_micros:
            last = yield from chain.append(f"compute.{k}", last, duration_micros=loop.compute_micros)
        last = yield from chain.append(f"{loop.kind.label}.{k}", last, kind=loop.kind, size_bytes=loop.comm_size)


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
        return SEND_RECV if self.kind is CommKind.SEND else self.kind.label

    @property
    def loops(self) -> list[CollectiveLoop]:
        """A loop of one collective for every size."""
        return [CollectiveLoop(kind=self.kind, ranks=self.ranks, size_bytes=size) for size in self.sizes]


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
        name = SEND_RECV if kind is CommKind.SEND else kind.label
        raise PlanError(f"{name} needs at least 2 ranks: one alone sends nothing that could be measured")
    if kind is CommKind.BARRIER:
        return [0]
    requested = {0, *sizes}
    shard = ranks if kind in (CommKind.ALL_GATHER, CommKind.GATHER) else 1
    distinct = sorted({size // shard * shard for size in requested} - {0})
    if not distinct:
        raise PlanError(
            f"{kind.label} of {ranks} ranks needs at least {shard} bytes; the largest size is {max(requested)}"
        )
    return distinct


def sweep_workload(sweep: SweepWorkload) -> SyntheticWorkload:
    """The sweep as a workload without process groups; the k-th collective has the k-th size."""
    if sweep.kind is CommKind.SEND:
        return _pairs_workload(sweep)
    loops = sweep.loops
    return SyntheticWorkload(
        name=sweep.kind.label,
        ranks=sweep.ranks,
        groups={},
        nodes=partial(_sweep_nodes, loops),
        parameters={"collective": sweep.kind.label, "ranks": sweep.ranks, "sizes": len(sweep.sizes)},
        role=lambda rank, node: GroupRole.WORLD,
        alike={0: sweep.ranks},
    )


def _pairs_workload(sweep: SweepWorkload) -> SyntheticWorkload:
    return SyntheticWorkload(
        name=sweep.label,
        ranks=sweep.ranks,
        groups={},
        nodes=partial(_pair_nodes, sweep),
        parameters={"collective": sweep.label, "ranks": sweep.ranks, "sizes": len(sweep.sizes)},
        role=lambda rank, node: GroupRole.WORLD,
        alike={0: sweep.ranks},
    )


def _pair_nodes(sweep: SweepWorkload, rank: int) -> Iterator[WorkNode]:
    following, previous = (rank + 1) % sweep.ranks, (rank - 1) % sweep.ranks
    for at, size in enumerate(sweep.sizes):
        deps = (2 * at - 1, 2 * at) if at else ()
        yield WorkNode(2 * at + 1, f"send.{size}", deps, kind=CommKind.SEND, size_bytes=size, peer=following)
        yield WorkNode(2 * at + 2, f"recv.{size}", deps, kind=CommKind.RECV, size_bytes=size, peer=previous)


def _sweep_nodes(loops: Sequence[CollectiveLoop], rank: int) -> Iterator[WorkNode]:
    del rank  # all ranks do the same
    for number, loop in enumerate(loops, 1):
        name = f"{loop.kind.label}.{loop.size_bytes}"
        dependencies = (number - 1,) if number > 1 else ()
        yield WorkNode(number, name, dependencies, kind=loop.kind, size_bytes=loop.comm_size)
