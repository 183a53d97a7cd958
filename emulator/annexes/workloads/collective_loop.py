"""A workload of one collective over all ranks, repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from emulator.annexes.workloads.options import option
from emulator.annexes.workloads.totals import GroupRole, SyntheticWorkload
from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import COLLECTIVES, parse_collective
from emulator.trace.meaning.program import MAX_MICROS
from emulator.trace.synthetic.sweep import comm_size_of
from emulator.trace.synthetic.synthetic import NodeChain, WorkNode, check_size
from emulator.units import parse_size


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
        comm_size_of(self.kind, ranks=self.ranks, size_bytes=self.size_bytes)


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
    comm_size = comm_size_of(loop.kind, ranks=loop.ranks, size_bytes=loop.size_bytes)
    for k in range(loop.count):
        if loop.compute_micros:
            last = yield from chain.append(f"compute.{k}", last, duration_micros=loop.compute_micros)
        last = yield from chain.append(f"{loop.kind.label}.{k}", last, kind=loop.kind, size_bytes=comm_size)
