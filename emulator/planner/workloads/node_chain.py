"""Generates the nodes of a rank one at a time: ids count up, and the device works on one node after the other."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from emulator.planner.workloads.synthetic import WorkNode
from emulator.trace.model import CommKind

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
        node = self.node(name, self.device, ready, duration_micros=micros)
        self.device = node.node_id
        yield node
        return node.node_id

    def communicate(self, name: str, *after: int, kind: CommKind, size_bytes: int, **more: Any) -> Emission:
        """A communication that starts once all of `after` are done; `more`: as of WorkNode."""
        node = self.node(name, *after, kind=kind, size_bytes=size_bytes, **more)
        yield node
        return node.node_id

    def node(self, name: str, *after: int, **more: Any) -> WorkNode:
        """The next node, which depends on `after` without the zeros."""
        self._last_id += 1
        return WorkNode(self._last_id, name, tuple(sorted({dep for dep in after if dep})), **more)
