"""Fewer points of the same picture, each of them a value that was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from emulator.statistics.stats import Values
from emulator.trace.model import IntArray

CURVE_POINTS = 160
TAIL_POINTS = 24
"""Largest values that a curve always has: a tail is what is looked for."""


class Curve(NamedTuple):
    """Points of an empirical distribution: `share` of all values are at most `value`."""

    value: list[float]
    share: list[float]


Interval: TypeAlias = tuple[int, int]
"""From, to."""


class Stretch(NamedTuple):
    """Iterations side by side that are drawn as one point, and their rows."""

    first: int
    last: int
    rows: IntArray


def distribution_curve(values: Values, *, points: int = CURVE_POINTS) -> Curve:
    """The empirical distribution, every point of it exact; all of them where they are few.

    Args:
        values: any order.
        points: about how many to keep, evenly over the share; the tail is kept whole beside them.
    """
    ordered = np.sort(values)
    count = len(ordered)
    if count > points:
        even = np.ceil(np.linspace(1, count, points)).astype(np.int64) - 1
        ordered = ordered[np.unique(np.concatenate((even, np.arange(count - TAIL_POINTS, count))))]
    kept = np.unique(ordered)
    share = np.searchsorted(np.sort(values), kept, side="right") / max(count, 1)
    return Curve(kept.tolist(), share.tolist())


def stretches(iteration: IntArray, *, most: int) -> Iterator[Stretch]:
    """Rows by iteration; of more than `most` iterations, by equal stretches of them."""
    numbers = np.unique(iteration)
    width = -(-len(numbers) // most) if len(numbers) else 1
    for low in range(0, len(numbers), width):
        first, last = int(numbers[low]), int(numbers[min(low + width, len(numbers)) - 1])
        yield Stretch(first, last, np.flatnonzero((iteration >= first) & (iteration <= last)))


def joined_intervals(start: IntArray, end: IntArray, *, gap: float) -> list[Interval]:
    """The union of intervals, those that are less than `gap` apart as one.

    Args:
        start, end: of each, any order.
        gap: of the unit of both.
    """
    if not len(start):
        return []
    order = np.argsort(start, kind="stable")
    low, reach = start[order], np.maximum.accumulate(end[order])
    fresh = np.flatnonzero(np.concatenate(([True], low[1:] - reach[:-1] > gap)))
    last = np.append(fresh[1:], len(low)) - 1
    return list(zip(low[fresh].tolist(), reach[last].tolist(), strict=True))


def states(one: Sequence[Interval], other: Sequence[Interval]) -> Iterator[tuple[int, int, int]]:
    """(state, from, to) wherever there is anything: 1 one, 2 the other, 3 both; neighbours of one state are one.

    Args:
        one, other: intervals in order, those of each apart from each other.
    """
    edges = np.unique(np.array([*one, *other], np.int64).reshape(-1))
    if len(edges) < 2:  # nothing, or nothing that lasted
        return
    state = _is_within(edges[:-1], one) + 2 * _is_within(edges[:-1], other)
    fresh = np.flatnonzero(np.concatenate(([True], np.diff(state) != 0)))
    for low, high in zip(fresh, np.append(fresh[1:], len(state)), strict=True):
        if state[low]:
            yield int(state[low]), int(edges[low]), int(edges[high])


def _is_within(points: IntArray, intervals: Sequence[Interval]) -> IntArray:
    start, end = np.array(intervals, np.int64).reshape(-1, 2).T
    inside = np.searchsorted(start, points, side="right") - np.searchsorted(end, points, side="right")
    return np.asarray(inside, np.int64)


def spread_evenly(items: Sequence[int], most: int) -> list[int]:
    """At most so many of them, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[int(at)] for at in np.unique(np.linspace(0, len(items) - 1, most).round().astype(np.int64))]
