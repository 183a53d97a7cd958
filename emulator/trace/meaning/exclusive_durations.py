"""Exclusive durations: what a PyTorch operator took itself, without the operators it called.

PyTorch records a call stack: an operator's duration contains those of the operators it called, and the trace has the
caller as the callee's control dependency. Played one after the other, the inner time would pass twice. A storage stack
nests in the same way: a checkpoint contains file operations, which contain those on pages and blocks.
"""

from __future__ import annotations

import numpy as np

from emulator.trace.meaning.model import BoolArray, IntArray, RankTrace, is_storage

CONTAINED_SHARE = 0.9
"""From which share of calls on, the durations of a rank are taken to contain those of the operators called.

Inclusive durations always contain; some converters write exclusive ones, which contain by chance (12 % of the callers
in a published trace). The remainder is for calls into other threads, which may outlive their caller.
"""


def exclusive_micros(trace: RankTrace) -> IntArray:
    """Durations with the time of called operators deducted, where the rank's durations contain it.

    A child counts when it and its only control dependency are both PyTorch operators on the CPU, or storage nodes.
    Where both have start times, a child is contained when its interval lies within its parent's; the children without
    are contained when together they are no longer than the parent. Each kind is deducted if nearly all of it is
    contained (see CONTAINED_SHARE), and of it what is. Never below 0.

    Returns:
        int64, shape (n,), µs.
    """
    child, parent = _calls(trace)
    duration = trace.duration_micros
    timed = (trace.start_micros[child] > 0) & (trace.start_micros[parent] > 0)
    inside = _is_within(trace, child[timed], parent[timed])
    deducted = np.zeros(len(trace), dtype=np.int64)
    if _is_nearly_all(inside):
        deducted += _sum_by_parent(trace, child[timed][inside], parent[timed][inside])
    untimed = _sum_by_parent(trace, child[~timed], parent[~timed])
    fits = untimed <= duration
    if _is_nearly_all(fits[untimed > 0]):
        deducted += np.where(fits, untimed, 0)
    result: IntArray = np.maximum(duration - deducted, 0)
    return result


def _is_nearly_all(contained: BoolArray) -> bool:
    return int(np.count_nonzero(contained)) >= CONTAINED_SHARE * len(contained)


def _calls(trace: RankTrace) -> tuple[IntArray, IntArray]:
    """Rows of (child, parent) for every call between CPU operators, or storage nodes."""
    is_operator = (trace.is_pytorch_op & trace.is_cpu) | is_storage(trace.node_type)
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
    result: BoolArray = begins & (start[child] + duration[child] <= start[parent] + duration[parent])
    return result


def _sum_by_parent(trace: RankTrace, child: IntArray, parent: IntArray) -> IntArray:
    total = np.zeros(len(trace), dtype=np.int64)
    np.add.at(total, parent, trace.duration_micros[child])
    return total
