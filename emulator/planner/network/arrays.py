"""Operations on arrays: sums of values with equal keys, and concatenated ranges."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from emulator.trace.meaning.model import IntArray

FloatArray: TypeAlias = npt.NDArray[np.float64]

_DENSE_KEYS = 1 << 22
"""Below this largest key, counting in an array is faster than sorting."""


def sum_by(keys: IntArray, values: FloatArray | IntArray) -> tuple[IntArray, FloatArray]:
    """(distinct keys ascending, sums of the values of each); keys must not be negative."""
    if not len(keys):
        return keys, np.zeros(0)
    if int(keys.max()) < _DENSE_KEYS:
        distinct = np.flatnonzero(np.bincount(keys)).astype(np.int64)
        return distinct, np.bincount(keys, values)[distinct].astype(np.float64)
    distinct, inverse = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(inverse, values).astype(np.float64)


def concatenated_ranges(first: IntArray, count: IntArray) -> IntArray:
    """count[0] numbers from first[0] on, then count[1] numbers from first[1] on, and so on."""
    ends = np.cumsum(count)
    steps = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)
    return steps + np.repeat(first - ends + count, count)
