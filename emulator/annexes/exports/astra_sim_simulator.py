"""The simulated network, and what ASTRA-sim's analytical backend makes of a collective, per algorithm.

The congestion-unaware backend gives every message its full bandwidth: messages that a rank sends at the same time do
not share its port. A collective therefore takes as long as its longest chain of messages: messages · latency + bytes of
the chain / bandwidth.

Source: ASTRA-sim, astra-sim/system/astraccl/native_collectives/collective_algorithm (Ring.cc, AllToAll.cc for direct,
HalvingDoubling.cc); astra-network-analytical, congestion_unaware/basic-topology/BasicTopology.cpp.

In the file of the network GB/s are 2^30 B/s, and a message through a Switch takes two hops, so twice the latency.

Each dimension of the network gets a verdict, and where the simulator differs from the run is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from emulator.annexes.exports.astra_sim_fit import GOOD, Fit, FittedPoint, Observation
from emulator.annexes.exports.astra_sim_observe import LinkClass
from emulator.trace.meaning.model import CommKind
from emulator.units import BITS_PER_BYTE
from emulator.views.columns.figures import link_rate_cell

GB = 1 << 30
_SWITCH_HOPS = 2
_ACROSS = (LinkClass.BETWEEN_HOSTS, LinkClass.MIXED, LinkClass.WITHIN_HOST)
"""Whose fit a network of one dimension between several hosts gets: the first that has one."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of the simulated network, the innermost first; `fit` is None if nothing gave a fit for it."""

    ranks: int
    link: LinkClass
    fit: Fit | None


def dimensions(ranks: int, host_index: Sequence[int], fits: Mapping[LinkClass, Fit | None]) -> list[Dimension]:
    """The simulated network: one switch, or a switch in each host and one between if all hosts have equal blocks.

    Args:
        ranks: of the trace.
        host_index: host per rank; empty: all on one host.
        fits: by link class.
    """
    hosts = len(set(host_index))
    within, between = fits.get(LinkClass.WITHIN_HOST), fits.get(LinkClass.BETWEEN_HOSTS)
    if hosts < 2:
        return [Dimension(ranks, LinkClass.WITHIN_HOST, within)]
    per_host = ranks // hosts
    is_block = list(host_index) == [rank // per_host for rank in range(ranks)] if per_host else False
    if per_host > 1 and is_block and within and between:
        return [
            Dimension(per_host, LinkClass.WITHIN_HOST, within),
            Dimension(hosts, LinkClass.BETWEEN_HOSTS, between),
        ]
    link = next((one for one in _ACROSS if fits.get(one)), LinkClass.BETWEEN_HOSTS)
    return [Dimension(ranks, link, fits.get(link))]


def to_yaml(network: Sequence[Dimension]) -> str:
    """network.yml; without a fit it has placeholders, which a replay reads and does not use."""
    known = [one.fit for one in network]
    lines = {
        "topology": ["Switch"] * len(network),
        "npus_count": [one.ranks for one in network],
        "bandwidth": [float(f"{one.bandwidth_bytes_per_s / GB:.6g}") if one else 1.0 for one in known],
        "latency": [round(one.latency_ns / _SWITCH_HOPS, 3) if one else 0.0 for one in known],
    }
    text = "# bandwidth in GB/s of 2^30 B/s, latency in ns per hop (two hops through a switch); see fit.json\n"
    if None in known:
        text += "# PLACEHOLDERS: nothing was measured that gives a fit; for replaying only\n"
    return text + yaml.safe_dump(lines, default_flow_style=None, sort_keys=False)


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


def simulated_kind(kind: CommKind) -> CommKind:
    """What it knows a collective of a trace as."""
    return CommKind.REDUCE_SCATTER if kind is CommKind.REDUCE_SCATTER_BLOCK else kind


def is_replayed(kind: CommKind, members: int, size: int) -> bool:
    """Whether ASTRA-sim gets the collective as a broadcast, whose measured duration it replays.

    It waits forever for shares of no bytes, so this includes collectives of fewer bytes than ranks.
    """
    return kind.is_collective and (simulated_kind(kind) not in SIMULATED or size < members)


def chain(algorithm: str, kind: CommKind, members: int, size: int) -> tuple[int, int] | None:
    """(messages, bytes) of the longest chain of messages; None if the simulator does not have the algorithm.

    Args:
        algorithm: ASTRA-sim's name; ignored for a send.
        kind: a collective of SIMULATED, or a send.
        members: ranks in the group, at least 2.
        size: comm_size in bytes.
    """
    kind = simulated_kind(kind)
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
            points.setdefault(simulated_kind(kind), []).append((one, point.observation))
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
        algorithm = algorithms.get(simulated_kind(one.collective), "")
        cost = chain(algorithm, one.collective, one.members, one.comm_size)
        if cost is not None and not is_replayed(one.collective, one.members, one.comm_size):
            found.append(SimulatedPoint(point, algorithm, fitted.time_ns(*cost)))
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """A dimension with the simulated time of its classes, and the verdict in words."""

    dimension: Dimension
    points: Sequence[SimulatedPoint]
    verdict: str

    def __str__(self) -> str:
        return f"{self.dimension.link.value}, {self.dimension.ranks} ranks: {self.verdict}"


def judge(dimension: Dimension, algorithms: Mapping[CommKind, str], left_out: Mapping[str, int]) -> Judged:
    """Compare the simulated time of each class with the measured one.

    Args:
        dimension: with its fit.
        algorithms: ASTRA-sim's algorithm for each collective.
        left_out: reason → number of classes that gave no observation.
    """
    fitted = dimension.fit
    if fitted is None:
        reasons = "; ".join(f"{count} classes {why}" for why, count in left_out.items()) or "no measurements"
        return Judged(dimension, (), f"no fit ({reasons}): for replaying only")
    points = simulate(fitted, algorithms)
    verdict = _verdict(fitted, points)
    if fitted.is_at_limit:
        verdict += f"; bandwidth at its bound, the payload that a port can carry ({_carried(fitted)})"
    return Judged(dimension, points, verdict)


def _carried(fitted: Fit) -> str:
    return link_rate_cell(BITS_PER_BYTE * (fitted.limit_bytes_per_s or 0.0))


def _verdict(fitted: Fit, points: Sequence[SimulatedPoint]) -> str:
    if not fitted.is_determined:
        return "latency unknown: one size, or sizes in one proportion; it is taken as 0. Measure several sizes (bench)"
    if fitted.worst_residual > GOOD:
        worst = max(fitted.points, key=lambda point: abs(point.residual))
        return (
            f"BAD: {worst.observation.label} is {100 * worst.residual:+.0f} % off; latency and bandwidth alone do not"
            " explain these times"
        )
    off = max(points, key=lambda point: abs(point.residual), default=None)
    if off is not None and abs(off.residual) > GOOD:
        return (
            f"BAD for simulation: {off.fitted.observation.label} is {100 * off.residual:+.0f} % off when simulated as"
            f" {off.algorithm or 'a message'}; the fit itself is within 10 %"
        )
    if not fitted.is_good:
        return (
            f"not tested: {len(fitted.points)} classes determine latency and bandwidth, and no class is left to test"
            " them. Measure more sizes (bench)"
        )
    return "good: every class within 10 % of the fit and of the simulated time"


def limits_of(
    judged: Sequence[Judged], overlaps: tuple[int, int], fits: Mapping[LinkClass, Fit | None]
) -> Sequence[str]:
    """Where the simulator cannot do what the run did.

    Args:
        judged: the dimensions of the network.
        overlaps: communications that overlap, and all.
        fits: of all link classes.
    """
    found = []
    count, total = overlaps
    if count:
        found.append(
            f"{count} of {total} communications overlap another one on their rank. ASTRA-sim runs one at a time per"
            " rank, so its iteration time differs from the measured JCT, in a replay too"
        )
    other: dict[tuple[str, str], set[str]] = {}
    for point in (point for one in judged for point in one.points if not point.is_played_alike):
        observation = point.fitted.observation
        other.setdefault((observation.collective.label, point.algorithm), set()).add(observation.algorithm)
    for (collective, algorithm), played in other.items():
        found.append(
            f"{collective} played as {', '.join(sorted(played))} is simulated as {algorithm}: ASTRA-sim takes one"
            " algorithm per collective, and this one comes closest"
        )
    if len(judged) > 1:
        found.append(
            "network.yml has two dimensions. Use the congestion-unaware backend: the congestion-aware backend accepts"
            " one dimension only"
        )
    return [*found, *_unused([one.dimension for one in judged], fits)]


def _unused(network: Sequence[Dimension], fits: Mapping[LinkClass, Fit | None]) -> Sequence[str]:
    """Link classes with a fit that no dimension of the network takes."""
    used = {one.link for one in network}
    return [
        f"{link.value}: {len(fitted.points)} classes were measured and are not in network.yml, which has one link class"
        " per dimension"
        for link, fitted in fits.items()
        if fitted and link not in used
    ]
