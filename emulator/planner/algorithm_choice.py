"""The algorithm of every communication of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from emulator.errors import PlanError
from emulator.planner.algorithms import POINT_TO_POINT, PXN, choose, depends_on_layout, loaded_algorithms
from emulator.planner.group_layout import Layouts
from emulator.trace.meaning.model import CommKind, Communication, Workload


class AlgorithmChoice:
    """The algorithms that a workload uses; each class of communications is decided once.

    Args:
        overrides: collective (`all_reduce`) → algorithm, from `parse_overrides`.

    Attributes:
        layouts: for agents: those that the algorithms in use need to know.

    Raises:
        PlanError: an algorithm that was asked for fits no collective of the workload.
    """

    def __init__(self, workload: Workload, overrides: Mapping[str, str], layouts: Layouts | None = None) -> None:
        self._workload = workload
        self._layouts = layouts or Layouts()
        self.layouts = Layouts()
        self._overrides = dict(overrides)
        self._names: list[str] = []
        self._choose = cache(self._choose_uncached)
        self._uneven = _largest_sizes(workload)
        for program in workload.programs:
            for communication in program.communications.values():
                self.index_of(communication)
        if overrides.get(CommKind.ALL_TO_ALL.label) == PXN and self._uneven and PXN not in self._names:
            problem = "is for even all-to-all, and all of this workload are uneven: use pairwise or parallel"
            raise PlanError(f"--algorithm all_to_all={PXN}: {problem}")
        for collective, name in overrides.items():
            loaded = loaded_algorithms().get(name)
            if loaded is not None and name not in self._names:
                problem = f"is for {collective} of {loaded.members} ranks; the workload has none that it fits"
                raise PlanError(f"--algorithm {collective}={loaded.path}: {problem}")

    @property
    def names(self) -> Sequence[str]:
        """Algorithms in use; agents receive indices into this list."""
        return self._names

    @property
    def files(self) -> Mapping[str, str]:
        """Algorithms in use that were read from files → their text, for agents."""
        return {name: loaded_algorithms()[name].text for name in self._names if name in loaded_algorithms()}

    def index_of(self, communication: Communication) -> int:
        """Index into `names` of the algorithm of a communication."""
        size_bytes = self._uneven.get(communication.instance, communication.size_bytes)
        return self._choose(communication.kind, communication.group, size_bytes, communication.instance in self._uneven)

    def name_of(self, communication: Communication) -> str:
        """Name of the algorithm of a communication."""
        return self._names[self.index_of(communication)]

    def _choose_uncached(self, kind: CommKind, group: int, size_bytes: int, is_uneven: bool) -> int:
        name = POINT_TO_POINT
        if kind.is_collective:
            ranks = self._workload.groups[group].ranks
            name = choose(
                kind,
                members=len(ranks),
                size_bytes=size_bytes,
                overrides=self._overrides,
                is_uneven=is_uneven,
                layout=self._layouts.in_domains(ranks),
            )
            if depends_on_layout(kind, name):
                self.layouts = self._layouts
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)


def _largest_sizes(workload: Workload) -> dict[int, int]:
    """Instance → largest size of its members, for uneven all-to-all: all members must use the same algorithm."""
    largest: dict[int, int] = {}
    for program in workload.programs:
        for communication in program.communications.values():
            if communication.send_splits is not None:
                known = largest.get(communication.instance, 0)
                largest[communication.instance] = max(known, communication.size_bytes)
    return largest
