"""A workload of all-reduces between pairs of ranks, all pairs at once; calibration uses it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import GroupRole, SyntheticWorkload, WorkNode


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


def pairs_workload(pairs: PairsWorkload) -> SyntheticWorkload:
    """The pairs as a workload: ranks 0 and 1 form the first pair, 2 and 3 the second."""
    return SyntheticWorkload(
        name="pairs",
        ranks=pairs.ranks,
        groups={pair + 1: (2 * pair, 2 * pair + 1) for pair in range(pairs.ranks // 2)},
        nodes=partial(_nodes, pairs),
        parameters={"ranks": pairs.ranks, "sizes": len(pairs.counts)},
        role=lambda rank, node: GroupRole.DATA,
        alike={0: pairs.ranks},
    )


def _nodes(pairs: PairsWorkload, rank: int) -> Iterator[WorkNode]:
    for number, size in enumerate(pairs.sizes, 1):
        dependencies = (number - 1,) if number > 1 else ()
        yield WorkNode(
            number, f"all_reduce.{size}", dependencies, kind=CommKind.ALL_REDUCE, size_bytes=size, group=rank // 2 + 1
        )
