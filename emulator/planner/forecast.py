"""What a run will move and how long that takes at least, known before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.planner.group_layout import Layouts
from emulator.planner.network.ideal_times import UNKNOWN_NS
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.trace.analysis.critical_path import LateTimes, longest_path_ns
from emulator.trace.meaning.model import Communication, IntArray, Workload


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
    late: LateTimes | None = None,
) -> Forecast:
    """The forecast of a run.

    Args:
        workload: with scaled sizes and compute.
        ideal_ns: of each instance; UNKNOWN_NS if a port has no rate.
        late: the same where members post at different times.

    Raises:
        PlanError: there is no such algorithm.
    """
    unknown = ideal_ns == UNKNOWN_NS
    return Forecast(
        iterations=warmup + iterations,
        warmup=warmup,
        communications=sum(len(program.communications) for program in workload.programs),
        sent_bytes=sent_bytes(workload, algorithm_of=algorithm_of, layouts=layouts),
        least_ns=longest_path_ns(workload, communication_ns=np.where(unknown, 0, ideal_ns), late=late),
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
    traffic = traffic_of_workload(workload, name_of=algorithm_of, layouts=layouts)
    ends = max((int(operation.ranks.max()) for operation in traffic.operations), default=0) + 1
    sent = np.zeros(max(ends, traffic.ranks), np.int64)  # storage endpoints come after the ranks
    for operation in traffic.operations:
        by_member = np.zeros(operation.members, np.int64)
        for phase in operation.totals():
            np.add.at(by_member, phase.senders, phase.sizes)
        np.add.at(sent, operation.ranks, operation.counts[:, None] * by_member)
    return list(map(int, sent[: traffic.ranks]))
