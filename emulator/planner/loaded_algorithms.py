"""Algorithms that this process has read from files, by the name under which runs list them; an annex reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from emulator.planner.schedule import Algorithm
from emulator.plugins import PluginKind, load
from emulator.trace.meaning.model import CommKind

MAX_ALGORITHM_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class LoadedAlgorithm:
    """An algorithm.

    Attributes:
        name: that of the file with a part of its digest: two algorithms of one name are told apart.
        text: of the file, for agents.
        kind: the collective that it computes.
        members: of the groups that it is for.
        least_bytes, most_bytes: of the array that it is for; most 0: no limit.
        run: lanes of a member; PlanError: the collective is another one, of another size of group, or uneven.
    """

    name: str
    text: str
    path: str
    kind: CommKind
    members: int
    least_bytes: int
    most_bytes: int
    run: Algorithm

    def fits(self, *, members: int, size_bytes: int) -> bool:
        """Whether it is for a group of this size and an array of this size (Chakra's comm_size)."""
        whole = size_bytes * members if self.kind is CommKind.ALL_GATHER else size_bytes
        return members == self.members and self.least_bytes <= whole <= (self.most_bytes or whole)


_LOADED: dict[str, LoadedAlgorithm] = {}


def load_algorithm(text: str, path: str) -> LoadedAlgorithm:
    """Read an algorithm and prove it; afterwards it can be chosen by its name.

    Raises:
        PlanError: it is not valid, or it does not compute its collective; the message names file and line.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    known = next((one for one in _LOADED.values() if one.text == text), None)
    if known is not None:
        _LOADED[known.name] = replace(known, path=path)
        return _LOADED[known.name]
    one: LoadedAlgorithm = load(PluginKind.HOOKS, "read_algorithm")(text, path)
    one = replace(one, name=f"{one.name}-{digest}")
    _LOADED[one.name] = one
    return one


def loaded_algorithms() -> Mapping[str, LoadedAlgorithm]:
    """By name."""
    return _LOADED
