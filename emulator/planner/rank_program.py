"""A run as agents are told it: the settings, and slices of a rank's program, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.trace.model import CommKind


@dataclass(frozen=True, slots=True)
class PlaySettings:
    """How every rank of a run plays.

    Attributes:
        credits: payload flows to a rank only after that rank has posted the collective.
        instances: collectives and send-receive pairs of one iteration; makes tags of different iterations distinct.
        algorithms: names that PlannedCommunication.algorithm indexes.
        groups: world ranks by group index; () where no rank of this agent is a member.
    """

    credits: bool
    instances: int
    algorithms: Sequence[str]
    groups: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class PlannedCommunication:
    """A communication node of a rank's program; fields as in emulator.trace.model.Communication.

    `algorithm` is an index into PlaySettings.algorithms; `peer` (send, receive) and `root` are world ranks.
    """

    kind: CommKind
    group: int
    size_bytes: int
    instance: int
    peer: int
    root: int
    algorithm: int
    send_splits: tuple[int, ...] | None = None
    recv_splits: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive positions of one rank's program: n nodes with m dependencies.

    Attributes:
        first_position: position of the first node.
        node_id: shape (n,).
        resource: shape (n,), emulator.trace.model.Resource numbers.
        duration_ns: shape (n,), ns.
        dependencies: shape (n,): how many each node has.
        distance: shape (m,): own position minus the position depended on, at least 1.
        communications: position → what to do, for NETWORK nodes.
    """

    rank: int
    first_position: int
    node_id: npt.NDArray[np.uint64]
    resource: npt.NDArray[np.uint32]
    duration_ns: npt.NDArray[np.uint64]
    dependencies: npt.NDArray[np.uint32]
    distance: npt.NDArray[np.uint64]
    communications: dict[int, PlannedCommunication]

    def __len__(self) -> int:
        return len(self.node_id)
