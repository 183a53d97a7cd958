"""Latency and bandwidth of a link class, fitted to measured times: cct = messages · alpha + bytes / bandwidth.

Messages are those that follow one another, bytes those on the busiest port; both come from the algorithm that played
the collective. Large and small sizes count alike: residuals are relative. The bandwidth is at most the payload that the
busiest port can carry: noise in the times must not make it faster. Source of the model: Hockney, Parallel Computing 20
(1994); for collectives Thakur et al., IJHPCA 19 (2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.trace.meaning.model import CommKind
from emulator.units import NS_PER_S

Floats = npt.NDArray[np.float64]

GOOD = 0.10
"""Largest relative residual of a good fit."""
_AT_LIMIT = 1e-6
PARAMETERS = 2
"""Latency and bandwidth: so many classes are met exactly by any fit and prove nothing."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A class of collectives with its median time.

    Attributes:
        label: name of the class, for people.
        messages: messages that follow one another.
        port_bytes: payload on the busiest port.
        cct_ns: median.
        samples: number of measurements.
        collective: kind of communication; a send is a pair.
        members: ranks in the group.
        comm_size: bytes, as Chakra counts them.
        algorithm: as played.
        ideal_ns: time that the bytes need at the rates of the ports, headers included; None if a port has no rate.
    """

    label: str
    messages: int
    port_bytes: int
    cct_ns: int
    samples: int
    collective: CommKind = CommKind.SEND
    members: int = 2
    comm_size: int = 0
    algorithm: str = ""
    ideal_ns: int | None = None


@dataclass(frozen=True, slots=True)
class FittedPoint:
    """An observation and what the fit predicts for it.

    Attributes:
        predicted_ns: by the fit to all observations.
        blind_ns: by the fit to all other observations; None if too few are left.
    """

    observation: Observation
    predicted_ns: float
    blind_ns: float | None

    @property
    def residual(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted_ns / self.observation.cct_ns - 1


@dataclass(frozen=True, slots=True)
class Fit:
    """Latency and bandwidth of a link class.

    Attributes:
        latency_ns: alpha, per message; 0 if the observations cannot separate it from the bandwidth, see
            `is_determined`.
        bandwidth_bytes_per_s: payload.
        points: the observations with their predictions.
        limit_bytes_per_s: payload that the busiest port can carry; None if a port has no rate.
        is_determined: False if all observations have messages and bytes in the same proportion.
    """

    latency_ns: float
    bandwidth_bytes_per_s: float
    points: Sequence[FittedPoint]
    is_determined: bool
    limit_bytes_per_s: float | None = None

    @property
    def is_at_limit(self) -> bool:
        """Whether the times alone would give as much bandwidth as the port can carry, or more."""
        limit = self.limit_bytes_per_s
        return limit is not None and self.bandwidth_bytes_per_s >= limit * (1 - _AT_LIMIT)

    @property
    def worst_residual(self) -> float:
        """The largest relative residual, without its sign."""
        return max(abs(point.residual) for point in self.points)

    @property
    def is_good(self) -> bool:
        """Whether there are more observations than parameters and the fit meets each to within GOOD."""
        return self.is_determined and len(self.points) > PARAMETERS and self.worst_residual <= GOOD

    def time_ns(self, messages: int, port_bytes: int) -> float:
        """Time of messages that follow one another and carry so many bytes in total, in ns."""
        return messages * self.latency_ns + port_bytes * NS_PER_S / self.bandwidth_bytes_per_s


def fit(observations: Sequence[Observation]) -> Fit | None:
    """Fit a link class; None if no observation moved bytes.

    Args:
        observations: with cct_ns above 0.
    """
    useful = [one for one in observations if one.cct_ns > 0 and one.messages > 0]
    if not any(one.port_bytes for one in useful):
        return None
    limit = _limit(useful)
    found = _solve(useful, limit)
    predicted = _columns(useful) @ found
    points = [
        FittedPoint(one, float(prediction), _blind(useful, number, limit))
        for number, (one, prediction) in enumerate(zip(useful, predicted, strict=True))
    ]
    return Fit(float(found[0]), NS_PER_S / float(found[1]), points, _is_determined(useful), limit)


def _limit(observations: Sequence[Observation]) -> float | None:
    """Payload that the busiest port can carry, bytes per second; None if a port has no rate."""
    rates = [one.port_bytes * NS_PER_S / one.ideal_ns for one in observations if one.ideal_ns]
    return max(rates, default=None)


def _solve(observations: Sequence[Observation], limit: float | None) -> Floats:
    """(ns per message, ns per byte), neither negative, the latter above 0 and of at most the limit's bandwidth."""
    columns = _columns(observations)
    times = np.array([one.cct_ns for one in observations], np.float64)
    least = np.array([0.0, NS_PER_S / limit if limit else np.finfo(np.float64).tiny])
    if not _is_determined(observations):
        per_byte = float(np.mean(times[columns[:, 1] > 0] / columns[columns[:, 1] > 0, 1]))
        return np.array([0.0, max(per_byte, float(least[1]))])
    relative, ones = columns / times[:, None], np.ones(len(times))
    scale = relative.max(axis=0)  # to like sizes, or the bytes' column would have no weight
    free = np.linalg.lstsq(relative / scale, ones)[0] / scale
    if np.all(free >= least):
        return np.asarray(free)
    # The squares are convex: then the least is where one of both is at its bound.
    return min(
        (_one_bound(relative, least, at) for at in (0, 1)), key=lambda one: float(np.sum((relative @ one - 1) ** 2))
    )


def _one_bound(relative: Floats, least: Floats, at: int) -> Floats:
    """The best pair with one of both at its bound."""
    found, other = least.copy(), relative[:, 1 - at]
    rest = 1 - relative[:, at] * least[at]
    found[1 - at] = max(least[1 - at], float(other @ rest / (other @ other)))
    return found


def _columns(observations: Sequence[Observation]) -> Floats:
    return np.array([[one.messages, one.port_bytes] for one in observations], np.float64)


def _is_determined(observations: Sequence[Observation]) -> bool:
    columns = _columns(observations)
    scaled = columns / np.maximum(columns.max(axis=0), 1)
    return len(columns) > 1 and int(np.linalg.matrix_rank(scaled / np.linalg.norm(scaled, axis=1)[:, None], 1e-6)) == 2


def _blind(observations: Sequence[Observation], left_out: int, limit: float | None) -> float | None:
    others = [one for number, one in enumerate(observations) if number != left_out]
    if len(others) < 2 or not _is_determined(others):
        return None
    return float((_columns(observations[left_out : left_out + 1]) @ _solve(others, limit))[0])
