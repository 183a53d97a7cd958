"""Generates the nodes of a rank one at a time: ids count up, and the device works on one node after the other."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from emulator.trace.synthetic.synthetic import WorkNode

Emission: TypeAlias = Generator[WorkNode, None, int]
"""Yields nodes; returns the id of the node after which the result is available, 0 if from the start."""


class NodeChain:
    """The last id and the last compute node of a rank.

    Attributes:
        device: id of the last node that the device computes; 0: none yet.
    """

    def __init__(self) -> None:
        self._last_id = 0
        self.device = 0

    def compute(self, name: str, micros: int, ready: int) -> Emission:
        """The device computes, once it is free and `ready` is done."""
        self.device = yield from self.append(name, self.device, ready, duration_micros=micros)
        return self.device

    def append(self, name: str, *after: int, **more: Any) -> Emission:
        """A node that starts once all of `after` are done; 0: nothing. `more`: as of WorkNode."""
        self._last_id += 1
        number = self._last_id
        yield WorkNode(number, name, tuple(sorted({dep for dep in after if dep})), **more)
        return number
