"""Which world ranks the communicators of NCCL consist of, told from what every process says of its own rank in each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from emulator.annexes.importers.model import Fate, Losses
from emulator.annexes.importers.pytorch.call import LARGEST_WORLD
from emulator.errors import TraceError


@dataclass(frozen=True, slots=True)
class Membership:
    """What a process says of itself in a communicator.

    Attributes:
        process: that which has one rank in a communicator: host, process id, and the device if it has several.
        communicator: the same in all processes.
        rank: within the communicator.
        size: ranks of the communicator.
        where: file and line.
    """

    process: tuple[str | int, ...]
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


def find_world(memberships: Iterable[Membership], losses: Losses) -> World:
    """The world is the communicator with the most ranks, of several the first one.

    If it does not hold all processes, world ranks are guessed: processes by host, id and device.

    Raises:
        TraceError: processes contradict each other, or members of a communicator are missing.
    """
    communicators = _by_communicator(memberships)
    world = max(communicators.values(), key=lambda ranks: next(iter(ranks.values())).size)
    size = next(iter(world.values())).size
    rank_of: dict[Hashable, int] = {one.process: rank for rank, one in world.items()}
    processes = {one.process for ranks in communicators.values() for one in ranks.values()}
    if len(processes) > len(rank_of):
        rank_of = {one: rank for rank, one in enumerate(sorted(processes, key=natural_order))}
        size, world = len(rank_of), {}
        where = next(iter(next(iter(communicators.values())).values())).where
        what = "ranks in the world are not recorded: by host, process and device"
        losses.count(Fate.GUESSED, what, where, number=size)
    ranks_of: dict[Hashable, tuple[int, ...]] = {}
    for name, ranks in communicators.items():
        first = next(iter(ranks.values()))
        if ranks is world or [rank_of.get(ranks[at].process) for at in sorted(ranks)] == list(range(size)):
            ranks_of[name] = ()
        elif len(ranks) < first.size:
            problem = f"is in a communicator of {first.size} ranks; {len(ranks)} of them are in the files"
            raise TraceError(f"{problem}: add the others", path=first.where)
        else:
            ranks_of[name] = tuple(rank_of[ranks[at].process] for at in range(first.size))
    return World(size, rank_of, ranks_of)


def natural_order(process: tuple[str | int, ...]) -> list[tuple[int, int | str]]:
    """A key that sorts node10 after node2."""
    words = [word for part in process for word in re.findall(r"\d{1,18}|\D+", str(part))]
    return [(0, int(word)) if word.isdecimal() else (1, word) for word in words]


def _by_communicator(memberships: Iterable[Membership]) -> dict[Hashable, dict[int, Membership]]:
    found: defaultdict[Hashable, dict[int, Membership]] = defaultdict(dict)
    for one in memberships:
        if not 1 <= one.size <= LARGEST_WORLD or not 0 <= one.rank < one.size:
            problem = f"says that it is rank {one.rank} of {one.size} ranks; ranks count from 0, up to {LARGEST_WORLD}"
            raise TraceError(problem, path=one.where)
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
