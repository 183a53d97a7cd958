"""What a run will move and how long that takes at least, known before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.planner.algorithms import bytes_per_member, depends_on_layout
from emulator.planner.group_layout import Layouts
from emulator.planner.network.ideal_times import UNKNOWN_NS
from emulator.planner.schedule import Collective
from emulator.trace.critical_path import longest_path_ns
from emulator.trace.model import Communication, IntArray, Workload


@dataclass(frozen=True, slots=True)
class Forecast:
    """A run before it starts.

    Attributes:
        iterations: number of iterations, warm-up included.
        warmup: how many of them are not counted.
        communications: communication nodes of one iteration, over all ranks.
        sent_bytes: payload that each rank sends in one iteration.
        read_bytes: payload that storage hosts send in one iteration.
        least_ns: shortest time of an iteration, with ideal communication at the rates of the ports; compute alone if
            they have none.
        has_rates: the rates of the ports are part of `least_ns`.
    """

    iterations: int
    warmup: int
    communications: int
    sent_bytes: Sequence[int]
    least_ns: int
    has_rates: bool
    read_bytes: int = 0


def forecast(
    workload: Workload,
    *,
    algorithm_of: Callable[[Communication], str],
    ideal_ns: IntArray,
    iterations: int,
    warmup: int,
    layouts: Layouts | None = None,
) -> Forecast:
    """The forecast of a run.

    Args:
        workload: with scaled sizes and compute.
        ideal_ns: of each instance; UNKNOWN_NS if a port has no rate.

    Raises:
        PlanError: there is no such algorithm.
    """
    unknown = ideal_ns == UNKNOWN_NS
    return Forecast(
        iterations=warmup + iterations,
        warmup=warmup,
        communications=sum(len(program.communications) for program in workload.programs),
        sent_bytes=sent_bytes(workload, algorithm_of=algorithm_of, layouts=layouts),
        least_ns=longest_path_ns(workload, communication_ns=np.where(unknown, 0, ideal_ns)),
        has_rates=not unknown.any(),
        read_bytes=sum(node.size_bytes for one in workload.storage for node in one.communications.values()),
    )


def sent_bytes(
    workload: Workload, *, algorithm_of: Callable[[Communication], str], layouts: Layouts | None = None
) -> list[int]:
    """Payload that each rank sends in one iteration, bytes; retransmissions do not count.

    Raises:
        PlanError: there is no such algorithm.
    """
    known: dict[object, int] = {}
    layouts = layouts or Layouts()

    def of_collective(rank: int, node: Communication) -> int:
        ranks = workload.groups[node.group].ranks
        algorithm, number = algorithm_of(node), ranks.index(rank)
        root = ranks.index(node.root) if node.root in ranks else 0
        layout = layouts.of(ranks) if depends_on_layout(node.kind, algorithm) else None
        splits = node.send_splits, node.recv_splits
        key = algorithm, node.kind, len(ranks), number, node.size_bytes, root, splits, layout
        if key not in known:
            member = Collective(
                node.kind,
                len(ranks),
                number,
                node.size_bytes,
                root,
                send_splits=node.send_splits,
                recv_splits=node.recv_splits,
                layout=layout,
            )
            known[key] = bytes_per_member(algorithm, member)[0]
        return known[key]

    def of_rank(rank: int, nodes: Sequence[Communication]) -> int:
        collectives = sum(of_collective(rank, node) for node in nodes if node.kind.is_collective)
        others = (node for node in nodes if not node.kind.is_collective)
        return collectives + sum(node.size_bytes for node in others if node.ends(rank)[0] == rank)

    return [of_rank(program.rank, list(program.communications.values())) for program in workload.programs]
