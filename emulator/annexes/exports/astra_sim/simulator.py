"""What the analytical backend of ASTRA-sim makes of a collective, per algorithm, in the terms of the fit.

The congestion-unaware backend gives every message its full bandwidth: messages that a rank sends at the same time do
not share its port. A collective therefore takes as long as its longest chain of messages:
messages · latency + bytes of the chain / bandwidth.

Source: ASTRA-sim, astra-sim/system/astraccl/native_collectives/collective_algorithm (Ring.cc, AllToAll.cc for direct,
HalvingDoubling.cc); astra-network-analytical, congestion_unaware/basic-topology/BasicTopology.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator.annexes.exports.astra_sim.fit import Fit, FittedPoint, Observation
from emulator.trace.meaning.model import CommKind

SIMULATED: Sequence[CommKind] = (
    CommKind.ALL_REDUCE,
    CommKind.ALL_GATHER,
    CommKind.REDUCE_SCATTER,
    CommKind.ALL_TO_ALL,
)
"""Collectives that it simulates; it replays the measured duration of a broadcast."""
ONE_AT_A_TIME = "direct1"
"""Direct with a window of one message: each rank sends to one peer after the other."""
_NAMES: Mapping[str, str] = {
    "ring": "ring",
    "direct": "direct",
    "halving_doubling": "halvingDoubling",
    "recursive_doubling": "halvingDoubling",
    "parallel": "direct",
    "pairwise": ONE_AT_A_TIME,
}
_CANONICAL = {CommKind.REDUCE_SCATTER_BLOCK: CommKind.REDUCE_SCATTER}


@dataclass(frozen=True, slots=True)
class SimulatedPoint:
    """A class as measured, fitted, and simulated.

    Attributes:
        fitted: measured and fitted time.
        algorithm: ASTRA-sim's algorithm; "" for a send.
        simulated_ns: time in the congestion-unaware backend on the fitted network.
    """

    fitted: FittedPoint
    algorithm: str
    simulated_ns: float

    @property
    def residual(self) -> float:
        """(simulated - measured) / measured."""
        return self.simulated_ns / self.fitted.observation.cct_ns - 1

    @property
    def is_played_alike(self) -> bool:
        """Whether the simulator uses the algorithm that was played."""
        return not self.algorithm or _name_of(self.fitted.observation) == self.algorithm


def is_replayed(kind: CommKind, members: int, size: int) -> bool:
    """Whether ASTRA-sim gets the collective as a broadcast, whose measured duration it replays.

    It waits forever for shares of no bytes, so this includes collectives of fewer bytes than ranks.
    """
    return kind.is_collective and (_CANONICAL.get(kind, kind) not in SIMULATED or size < members)


def chain(algorithm: str, kind: CommKind, members: int, size: int) -> tuple[int, int] | None:
    """(messages, bytes) of the longest chain of messages; None if the simulator does not have the algorithm.

    Args:
        algorithm: ASTRA-sim's name; ignored for a send.
        kind: a collective of SIMULATED, or a send.
        members: ranks in the group, at least 2.
        size: comm_size in bytes.
    """
    kind = _CANONICAL.get(kind, kind)
    if kind is CommKind.SEND:
        return 1, size
    if kind not in SIMULATED:
        return None
    share = size if kind is CommKind.ALL_GATHER else size // members
    phases = 2 if kind is CommKind.ALL_REDUCE else 1
    others = members - 1
    if algorithm == "ring":
        messages = members * others // 2 if kind is CommKind.ALL_TO_ALL else phases * others
        return messages, messages * share
    if algorithm == "direct":
        return phases, phases * share
    if algorithm == ONE_AT_A_TIME and kind is CommKind.ALL_TO_ALL:
        return others, others * share
    if algorithm == "halvingDoubling" and kind is not CommKind.ALL_TO_ALL and not members & others:
        return phases * (members.bit_length() - 1), phases * others * share
    return None


def choose_algorithms(fits: Sequence[Fit]) -> Mapping[CommKind, str]:
    """The algorithm of each collective: the one with the smallest worst factor between simulated and measured time.

    ASTRA-sim takes one algorithm per collective. Factors count, not residuals: seven times too fast is worse than
    twice too slow. Ties go to the algorithm that was played.
    """
    points: dict[CommKind, list[tuple[Fit, Observation]]] = {}
    for one in fits:
        for point in one.points:
            kind = point.observation.collective
            if is_replayed(kind, point.observation.members, point.observation.comm_size):
                continue
            points.setdefault(_CANONICAL.get(kind, kind), []).append((one, point.observation))
    return {kind: _best(kind, points.get(kind, [])) for kind in SIMULATED}


def _best(kind: CommKind, points: Sequence[tuple[Fit, Observation]]) -> str:
    usual = ONE_AT_A_TIME if kind is CommKind.ALL_TO_ALL else "ring"
    played = [name for _, one in points if (name := _name_of(one)) is not None]
    found, least = usual, math.inf
    for algorithm in dict.fromkeys([*played, usual, *_NAMES.values()]):
        factors = [_factor(algorithm, fitted, one) for fitted, one in points]
        worst = max(factors, default=math.inf)
        if worst < least * (1 - 1e-9):
            found, least = algorithm, worst
    return found


def _name_of(played: Observation) -> str | None:
    """ASTRA-sim's algorithm; None if it has none. A ring in channels is a ring: its chains are those of a ring."""
    return _NAMES.get(played.algorithm.partition(":")[0])


def _factor(algorithm: str, fitted: Fit, one: Observation) -> float:
    """Between the simulated and the measured time, at least 1; infinite if the simulator lacks the algorithm."""
    cost = chain(algorithm, one.collective, one.members, one.comm_size)
    if cost is None or (simulated_ns := fitted.time_ns(*cost)) <= 0:
        return math.inf
    return max(simulated_ns / one.cct_ns, one.cct_ns / simulated_ns)


def simulate(fitted: Fit, algorithms: Mapping[CommKind, str]) -> Sequence[SimulatedPoint]:
    """Each class of a fit that the simulator does not replay."""
    found = []
    for point in fitted.points:
        one = point.observation
        algorithm = algorithms.get(_CANONICAL.get(one.collective, one.collective), "")
        cost = chain(algorithm, one.collective, one.members, one.comm_size)
        if cost is not None and not is_replayed(one.collective, one.members, one.comm_size):
            found.append(SimulatedPoint(point, algorithm, fitted.time_ns(*cost)))
    return found
