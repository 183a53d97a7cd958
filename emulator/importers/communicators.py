"""Which world ranks the communicators of NCCL consist of, told from what every process says of its own rank in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from emulator.errors import TraceError
from emulator.importers.pytorch.names import LARGEST_WORLD


@dataclass(frozen=True, slots=True)
class Membership:
    """What a process says of itself in a communicator.

    Attributes:
        process: that which has one rank in a communicator: a process, or one device of it.
        communicator: the same in all processes.
        rank: within the communicator.
        size: ranks of the communicator.
        where: file and line.
    """

    process: Hashable
    communicator: Hashable
    rank: int
    size: int
    where: str


@dataclass(frozen=True, slots=True)
class World:
    """The ranks of a job.

    Attributes:
        rank_of: process → world rank.
        ranks_of: communicator → world ranks by rank in it; (): all ranks in order.
    """

    size: int
    rank_of: Mapping[Hashable, int]
    ranks_of: Mapping[Hashable, tuple[int, ...]]


def find_world(memberships: Iterable[Membership]) -> World:
    """The world is the communicator with the most ranks, of several the first one.

    Raises:
        TraceError: processes contradict each other, or one is not in the world.
    """
    communicators = _by_communicator(memberships)
    world = max(communicators.values(), key=lambda ranks: next(iter(ranks.values())).size)
    size = next(iter(world.values())).size
    rank_of = {one.process: rank for rank, one in world.items()}
    ranks_of: dict[Hashable, tuple[int, ...]] = {}
    for name, ranks in communicators.items():
        first = next(iter(ranks.values()))
        for one in ranks.values():
            if one.process not in rank_of:
                problem = f"is in a communicator of {one.size} ranks, but not in that of {size} ranks"
                raise TraceError(f"{problem}: add the records of its start", path=one.where)
        if ranks is world or [rank_of.get(ranks[at].process) for at in sorted(ranks)] == list(range(size)):
            ranks_of[name] = ()
        elif len(ranks) < first.size:
            problem = f"is in a communicator of {first.size} ranks; {len(ranks)} of them are in the files"
            raise TraceError(f"{problem}: add the others", path=first.where)
        else:
            ranks_of[name] = tuple(rank_of[ranks[at].process] for at in range(first.size))
    return World(size, rank_of, ranks_of)


def _by_communicator(memberships: Iterable[Membership]) -> dict[Hashable, dict[int, Membership]]:
    found: defaultdict[Hashable, dict[int, Membership]] = defaultdict(dict)
    for one in memberships:
        if not 1 <= one.size <= LARGEST_WORLD or not 0 <= one.rank < one.size:
            raise TraceError(f"says rank {one.rank} of {one.size} ranks: the file is corrupt", path=one.where)
        ranks = found[one.communicator]
        other = ranks.setdefault(one.rank, one)
        if other.process != one.process:
            raise TraceError(
                f"rank {one.rank} of its communicator is also another process ({other.where})", path=one.where
            )
        first = next(iter(ranks.values()))
        if first.size != one.size:
            problem = f"its communicator has {one.size} ranks; it had {first.size} ({first.where})"
            raise TraceError(problem, path=one.where)
    return dict(found)
