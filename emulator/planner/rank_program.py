"""What agents receive of a run, as plain values: settings, and a rank's program in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from emulator.planner.group_layout import Layouts
from emulator.trace.meaning.model import CommKind

NO_STEPS, WORST_STEPS = 0, -1
"""Values of PlaySettings.record_steps besides N."""


@dataclass(frozen=True, slots=True)
class PlaySettings:
    """Settings that apply to all ranks of a run.

    Attributes:
        credits: payload is sent to a rank only after it has posted the collective.
        instances: number of collectives and send-receive pairs in an iteration; keeps tags of iterations distinct.
        algorithms: names; PlannedCommunication.algorithm is an index into them.
        groups: world ranks by group index; empty if no rank of the agent is a member.
        record_steps: record the steps of every Nth instance; NO_STEPS; or WORST_STEPS: of those that the controller
            asks for when they are done.
        algorithm_files: algorithms that are no part of Charkha → XML of MSCCL.
        layouts: of groups; empty if no algorithm depends on them.
        hosts: host of each rank, where times are split into network and tester; empty: they are not.
    """

    credits: bool
    instances: int
    algorithms: Sequence[str]
    groups: Sequence[Sequence[int]]
    record_steps: int = NO_STEPS
    algorithm_files: Mapping[str, str] = field(default_factory=dict)
    layouts: Layouts = field(default_factory=Layouts)
    hosts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class PlannedCommunication:
    """A communication node of a rank's program; fields as in emulator.trace.meaning.model.Communication.

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
        node_id: shape (n,).
        resource: shape (n,), emulator.trace.meaning.model.Resource numbers.
        duration_ns: shape (n,), ns.
        dependencies: shape (n,), number of dependencies of each node.
        distance: shape (m,), position of the node minus that of its dependency, at least 1.
        communications: position → communication, for NETWORK nodes.
    """

    rank: int
    first_position: int
    node_id: npt.NDArray[np.uint64]
    resource: npt.NDArray[np.uint32]
    duration_ns: npt.NDArray[np.uint64]
    dependencies: npt.NDArray[np.uint32]
    distance: npt.NDArray[np.uint64]
    communications: Mapping[int, PlannedCommunication]

    def __len__(self) -> int:
        return len(self.node_id)
