"""Exclusive durations: what a PyTorch operator took itself, without the operators it called.

PyTorch records a call stack: an operator's duration contains those of the operators it called, and the trace has the
caller as the callee's control dependency. Played one after the other, the inner time would pass twice.
"""

from __future__ import annotations

import numpy as np

from emulator.trace.model import BoolArray, IntArray, RankTrace


def exclusive_micros(trace: RankTrace) -> IntArray:
    """Durations with the time of called operators deducted.

    A child counts when it and its only control dependency are both PyTorch operators on the CPU. Where both have start
    times, it is deducted when its interval lies within its parent's; the children without are deducted when together
    they are no longer than their parent. Never below 0.

    Returns:
        int64, shape (n,), µs.
    """
    child, parent = _calls(trace)
    duration = trace.duration_micros
    timed = (trace.start_micros[child] > 0) & (trace.start_micros[parent] > 0)
    inside = timed & _is_within(trace, child, parent)
    untimed_sum = _sum_by_parent(trace, child[~timed], parent[~timed])
    deducted = _sum_by_parent(trace, child[inside], parent[inside])
    deducted += np.where(untimed_sum <= duration, untimed_sum, 0)
    result: IntArray = np.maximum(duration - deducted, 0)
    return result


def _calls(trace: RankTrace) -> tuple[IntArray, IntArray]:
    """Rows of (child, parent) for every call between CPU operators."""
    is_operator = trace.is_pytorch_op & trace.is_cpu
    child = np.flatnonzero(is_operator & (trace.ctrl_count == 1)).astype(np.int64, copy=False)
    if not len(child):
        return child, child
    by_id = np.argsort(trace.node_id, kind="stable").astype(np.int64, copy=False)
    wanted = trace.dep_id[trace.dep_offset[child]]
    place = np.searchsorted(trace.node_id, wanted, sorter=by_id)
    parent = by_id[np.minimum(place, len(trace) - 1)]
    keep = (trace.node_id[parent] == wanted) & is_operator[parent]
    return child[keep], parent[keep]


def _is_within(trace: RankTrace, child: IntArray, parent: IntArray) -> BoolArray:
    start, duration = trace.start_micros, trace.duration_micros
    begins = start[child] >= start[parent]
    ends = start[child] + duration[child] <= start[parent] + duration[parent]
    return begins & ends


def _sum_by_parent(trace: RankTrace, child: IntArray, parent: IntArray) -> IntArray:
    total = np.zeros(len(trace), dtype=np.int64)
    np.add.at(total, parent, trace.duration_micros[child])
    return total
