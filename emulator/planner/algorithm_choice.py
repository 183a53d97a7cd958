"""Which algorithm plays which communication of a workload, decided once for every class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from emulator.planner.algorithms import POINT_TO_POINT, choose
from emulator.trace.model import CommKind, Communication, Workload


class AlgorithmChoice:
    """Algorithms of a workload: `names` holds those in use, `index_of` says which of them plays a communication.

    Args:
        overrides: collective (`all_reduce`) → algorithm, from `parse_overrides`, which has checked them.
    """

    def __init__(self, workload: Workload, overrides: Mapping[str, str]) -> None:
        self._workload = workload
        self._overrides = dict(overrides)
        self._names: list[str] = []
        self._choose = cache(self._choose_uncached)
        self._uneven = _largest_sizes(workload)
        for program in workload.programs:
            for communication in program.communications.values():
                self.index_of(communication)

    @property
    def names(self) -> Sequence[str]:
        """Names in use; indices into this list go to the agents."""
        return self._names

    def index_of(self, communication: Communication) -> int:
        """Index into `names`."""
        members = len(self._workload.groups[communication.group])
        size_bytes = self._uneven.get(communication.instance, communication.size_bytes)
        return self._choose(communication.kind, members, size_bytes)

    def name_of(self, communication: Communication) -> str:
        """Name of the algorithm."""
        return self._names[self.index_of(communication)]

    def _choose_uncached(self, kind: CommKind, members: int, size_bytes: int) -> int:
        name = POINT_TO_POINT
        if kind.is_collective:
            name = choose(kind, members=members, size_bytes=size_bytes, overrides=self._overrides)
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)


def _largest_sizes(workload: Workload) -> dict[int, int]:
    """Instance → largest size of its members, for uneven all-to-all: all members must choose alike."""
    largest: dict[int, int] = {}
    for program in workload.programs:
        for communication in program.communications.values():
            if communication.send_splits is not None:
                known = largest.get(communication.instance, 0)
                largest[communication.instance] = max(known, communication.size_bytes)
    return largest
