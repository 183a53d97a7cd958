"""Reduces what a chart draws; every remaining point is a measured value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from emulator.results.statistics.method.descriptive import Values
from emulator.trace.meaning.model import IntArray

CURVE_POINTS = 160
TAIL_POINTS = 24
"""Largest values that a curve always keeps, because readers look for the tail."""


class Curve(NamedTuple):
    """Points of an empirical distribution: a fraction `share` of all values is at most `value`."""

    value: list[float]
    share: list[float]


Interval: TypeAlias = tuple[int, int]
"""(start, end)."""


class IterationSlice(NamedTuple):
    """Consecutive iterations that are drawn as one point, and their rows."""

    first: int
    last: int
    rows: IntArray


def distribution_curve(values: Values, *, points: int = CURVE_POINTS) -> Curve:
    """The empirical distribution; every point is exact.

    Args:
        values: in any order.
        points: approximate number of points, spread evenly over the share; the tail is kept in addition.
    """
    ordered = np.sort(values)
    count = len(ordered)
    if count > points:
        even = np.ceil(np.linspace(1, count, points)).astype(np.int64) - 1
        ordered = ordered[np.unique(np.concatenate((even, np.arange(count - TAIL_POINTS, count))))]
    kept = np.unique(ordered)
    share = np.searchsorted(np.sort(values), kept, side="right") / max(count, 1)
    return Curve(kept.tolist(), share.tolist())


def iteration_slices(iteration: IntArray, *, most: int) -> Iterator[IterationSlice]:
    """Rows by iteration; if there are more than `most` iterations, by equal slices of them."""
    numbers = np.unique(iteration)
    width = -(-len(numbers) // most) if len(numbers) else 1
    for low in range(0, len(numbers), width):
        first, last = int(numbers[low]), int(numbers[min(low + width, len(numbers)) - 1])
        yield IterationSlice(first, last, np.flatnonzero((iteration >= first) & (iteration <= last)))


def joined_intervals(start: IntArray, end: IntArray, *, gap: float) -> list[Interval]:
    """The union of intervals; those at most `gap` apart are joined.

    Args:
        start, end: of the intervals, in any order.
        gap: in the unit of both.
    """
    if not len(start):
        return []
    order = np.argsort(start, kind="stable")
    low, reach = start[order], np.maximum.accumulate(end[order])
    fresh = np.flatnonzero(np.concatenate(([True], low[1:] - reach[:-1] > gap)))
    last = np.append(fresh[1:], len(low)) - 1
    return list(zip(low[fresh].tolist(), reach[last].tolist(), strict=True))


def states(one: Sequence[Interval], other: Sequence[Interval]) -> Iterator[tuple[int, int, int]]:
    """(state, start, end) wherever at least one is active: 1 = `one`, 2 = `other`, 3 = both.

    Args:
        one, other: ascending, disjoint intervals.
    """
    edges = np.unique(np.array([*one, *other], np.int64).reshape(-1))
    if len(edges) < 2:  # no interval, or none with a length
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
    """At most `most` of the items, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[int(at)] for at in np.unique(np.linspace(0, len(items) - 1, most).round().astype(np.int64))]
