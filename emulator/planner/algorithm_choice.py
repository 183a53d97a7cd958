"""The algorithm of every communication of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from emulator.errors import PlanError
from emulator.planner.algorithms import POINT_TO_POINT, choose
from emulator.planner.msccl.loaded import loaded_algorithms
from emulator.trace.model import CommKind, Communication, Workload


class AlgorithmChoice:
    """The algorithms that a workload uses; each class of communications is decided once.

    Args:
        workload: the workload.
        overrides: collective (`all_reduce`) → algorithm, from `parse_overrides`.

    Raises:
        PlanError: an algorithm from a file fits no collective of the workload.
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
        for collective, name in overrides.items():
            loaded = loaded_algorithms().get(name)
            if loaded is not None and name not in self._names:
                gpus = loaded.run.program.gpus
                problem = f"is for {collective} of {gpus} ranks; the workload has none that it fits"
                raise PlanError(f"--algorithm {collective}={loaded.path}: {problem}")

    @property
    def names(self) -> Sequence[str]:
        """Algorithms in use; agents receive indices into this list."""
        return self._names

    @property
    def files(self) -> Mapping[str, str]:
        """Algorithms in use that were read from files → the XML, for agents."""
        return {name: loaded_algorithms()[name].text for name in self._names if name in loaded_algorithms()}

    def index_of(self, communication: Communication) -> int:
        """Index into `names` of the algorithm of a communication."""
        members = len(self._workload.groups[communication.group])
        size_bytes = self._uneven.get(communication.instance, communication.size_bytes)
        return self._choose(communication.kind, members, size_bytes, communication.instance in self._uneven)

    def name_of(self, communication: Communication) -> str:
        """Name of the algorithm of a communication."""
        return self._names[self.index_of(communication)]

    def _choose_uncached(self, kind: CommKind, members: int, size_bytes: int, is_uneven: bool) -> int:
        name = POINT_TO_POINT
        if kind.is_collective:
            name = choose(kind, members=members, size_bytes=size_bytes, overrides=self._overrides, is_uneven=is_uneven)
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
