"""Verdict on each dimension of the simulated network, and where the simulator differs from the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator.annexes.exports.astra_sim.fit import GOOD, Fit
from emulator.annexes.exports.astra_sim.network import Dimension
from emulator.annexes.exports.astra_sim.observe import LinkClass
from emulator.annexes.exports.astra_sim.simulator import SimulatedPoint, simulate
from emulator.trace.meaning.model import CommKind
from emulator.units import BITS_PER_BYTE
from emulator.views.columns.figures import link_rate_cell


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
