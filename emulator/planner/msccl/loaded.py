"""Algorithms of MSCCL that this process has loaded, by the name under which runs list them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from emulator.trace.meaning.model import CommKind

if TYPE_CHECKING:
    from emulator.planner.msccl.lanes import ProgramLanes

PREFIX = "msccl:"
_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class LoadedAlgorithm:
    """An algorithm.

    Attributes:
        name: that of the file with a part of its digest: two algorithms of one name are told apart.
        text: the XML, for agents.
    """

    name: str
    text: str
    path: str
    run: ProgramLanes

    @property
    def kind(self) -> CommKind:
        """The collective that it computes."""
        return self.run.program.kind

    def fits(self, *, members: int, size_bytes: int) -> bool:
        """Whether it is for a group of this size and an array of this size (Chakra's comm_size)."""
        program = self.run.program
        whole = size_bytes * members if program.kind is CommKind.ALL_GATHER else size_bytes
        return members == program.gpus and program.least_bytes <= whole <= (program.most_bytes or whole)


_LOADED: dict[str, LoadedAlgorithm] = {}


def load_algorithm(text: str, path: str) -> LoadedAlgorithm:
    """Read an algorithm from XML and prove it; afterwards it can be chosen by its name.

    Raises:
        PlanError: it is not valid, or it does not compute its collective; the message names file and line.
    """
    # Every agent imports this module, and few runs have such an algorithm.
    from emulator.planner.msccl.document import parse_program
    from emulator.planner.msccl.lanes import lanes_of
    from emulator.planner.msccl.proof import prove

    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    known = next((one for one in _LOADED.values() if one.text == text), None)
    if known is not None:
        _LOADED[known.name] = replace(known, path=path)
        return _LOADED[known.name]
    program = parse_program(text, path)
    word = re.sub(r"[^A-Za-z0-9_.-]+", "-", program.name)[:_NAME_LENGTH] or "algorithm"
    run = lanes_of(program, prove(program, path), path)
    one = LoadedAlgorithm(f"{PREFIX}{word}-{digest}", text, path, run)
    _LOADED[one.name] = one
    return one


def loaded_algorithms() -> Mapping[str, LoadedAlgorithm]:
    """By name."""
    return _LOADED
