"""Find the slow ports in the bandwidths of pairs of ports.

A slow port lowers every pair that uses it in one direction. A slow link between two good ports lowers one pair only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median, median_high

SLOW_BELOW = 0.9
"""Share of the median bandwidth below which a pair or a port is slow."""


class Direction(StrEnum):
    """Whether a port is slow when it sends or when it receives."""

    SEND = "send"
    RECEIVE = "receive"


@dataclass(frozen=True, slots=True)
class SlowPort:
    """A port whose pairs are slow in one direction. Bandwidths are medians, in bit/s."""

    port: str
    direction: Direction
    bits_per_s: float
    others_bits_per_s: float


@dataclass(frozen=True, slots=True)
class SlowPair:
    """A slow pair of ports, neither of which is slow with others. Bandwidths are in bit/s; others: the median."""

    source: str
    destination: str
    bits_per_s: float
    others_bits_per_s: float


@dataclass(frozen=True, slots=True)
class Slow:
    """What is slow, slowest first."""

    ports: tuple[SlowPort, ...] = ()
    pairs: tuple[SlowPair, ...] = ()


def find_slow(bandwidths: Mapping[tuple[str, str], float]) -> Slow:
    """Name the slow ports and pairs.

    The port with the lowest mean is named first; its pairs in that direction are then set aside, so that it does not
    make the ports it talks to look slow. A port with one pair in a direction cannot be told from the pair: the pair is
    named.

    Args:
        bandwidths: bit/s by (source port, destination port).
    """
    left = dict(bandwidths)
    ports: list[SlowPort] = []
    while (slowest := _slowest_port(left)) is not None:
        ports.append(slowest)
        left = {pair: rate for pair, rate in left.items() if _end(pair, slowest.direction) != slowest.port}
    if not left:
        return Slow(tuple(ports), ())
    usual = median(left.values())
    pairs = [SlowPair(*pair, rate, usual) for pair, rate in left.items() if rate < SLOW_BELOW * usual]
    return Slow(tuple(ports), tuple(sorted(pairs, key=lambda pair: pair.bits_per_s)))


def _slowest_port(bandwidths: Mapping[tuple[str, str], float]) -> SlowPort | None:
    candidates: list[tuple[float, SlowPort]] = []
    for direction in Direction:
        by_port: dict[str, list[float]] = defaultdict(list)
        for pair, rate in bandwidths.items():
            by_port[_end(pair, direction)].append(rate)
        for port, rates in by_port.items():
            others = [rate for pair, rate in bandwidths.items() if _end(pair, direction) != port]
            # The higher median: one slow pair of two does not make the port slow.
            if len(rates) > 1 and others and median_high(rates) < SLOW_BELOW * median(others):
                candidates.append((fmean(rates), SlowPort(port, direction, median(rates), median(others))))
    # The lowest mean: where several receivers are slow, most pairs of a good sender are, but not all of them.
    return min(candidates, key=lambda candidate: candidate[0], default=(0.0, None))[1]


def _end(pair: tuple[str, str], direction: Direction) -> str:
    return pair[0] if direction is Direction.SEND else pair[1]
