"""A rank's program: its nodes in canonical order with what each occupies and for how long.

Durations are exclusive: what a PyTorch operator took itself. PyTorch records a call stack: an operator's duration
contains those of the operators it called, and the trace has the caller as the callee's control dependency. Played one
after the other, the inner time would pass twice. A storage stack nests in the same way: a checkpoint contains file
operations, which contain those on pages and blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from emulator.errors import TraceError
from emulator.trace.meaning import warnings
from emulator.trace.meaning.model import (
    BoolArray,
    Communication,
    IntArray,
    NodeType,
    RankProgram,
    RankTrace,
    Resource,
    is_communication,
    is_storage,
)
from emulator.trace.meaning.order import RankOrder
from emulator.units import NS_PER_US

MAX_MICROS = 1 << 40
"""Longest duration taken for real, about 13 days; eight million of them add up to less than 2 ** 63."""


def check_durations(trace: RankTrace) -> None:
    """Refuse durations and start times that no step of a training run has.

    Raises:
        TraceError: a negative or absurd one, naming the node.
    """
    for what, values in (("duration", trace.duration_micros), ("start time", trace.start_micros)):
        limit = MAX_MICROS if what == "duration" else 1 << 62
        wrong = np.flatnonzero((values < 0) | (values > limit))
        if len(wrong):
            row = int(wrong[0])
            raise TraceError(
                f"has the {what} {int(values[row])} µs, which cannot be", path=trace.path, node=int(trace.node_id[row])
            )


def resources(trace: RankTrace) -> npt.NDArray[np.int8]:
    """What each row occupies: int8, shape (n,), Resource numbers."""
    result = np.where(trace.is_cpu, np.int8(Resource.CPU), np.int8(Resource.DEVICE))
    result[_is_free(trace)] = Resource.NONE
    result[is_communication(trace.node_type) & ~trace.is_cpu] = Resource.NETWORK
    result[is_storage(trace.node_type)] = Resource.CPU  # system calls and what they cause
    return result


def durations_ns(trace: RankTrace, resource: npt.NDArray[np.int8]) -> tuple[IntArray, int]:
    """Exclusive nanoseconds each row takes on CPU or device, and how many were deducted over the rank."""
    exclusive = exclusive_micros(trace)
    is_computed = (resource == Resource.CPU) | (resource == Resource.DEVICE)
    deducted = int(np.sum((trace.duration_micros - exclusive)[is_computed]))
    return np.where(is_computed, exclusive, 0) * NS_PER_US, deducted * NS_PER_US


def rank_program(
    trace: RankTrace, order: RankOrder, communications: Mapping[int, Communication]
) -> tuple[RankProgram, int]:
    """Put a rank's program together; `communications` is by position. Also the nanoseconds deducted."""
    resource = resources(trace)
    duration, deducted = durations_ns(trace, resource)
    program = RankProgram(
        rank=trace.rank,
        order=order.order,
        resource=resource[order.order],
        duration_ns=duration[order.order],
        dep_offset=order.dep_offset,
        dep_position=order.dep_position,
        communications=communications,
    )
    return program, deducted


def oddities(trace: RankTrace, order: RankOrder) -> Counter[str]:
    """Warnings about a rank's nodes: name → count, counts above 0."""
    is_compute = (trace.node_type >= NodeType.MEM_LOAD) & (trace.node_type <= NodeType.COMP)
    has_time = bool(np.any(trace.duration_micros[is_compute]))
    counts = {
        warnings.NO_DURATIONS: int(bool(np.any(is_compute)) and not has_time),
        warnings.FREE_DURATION: int(np.count_nonzero(_is_free(trace) & (trace.duration_micros > 0))),
        warnings.INVALID_NODE: int(np.count_nonzero(trace.node_type == NodeType.INVALID)),
        warnings.CPU_COMMUNICATION: int(np.count_nonzero(is_communication(trace.node_type) & trace.is_cpu)),
        warnings.STORAGE_AS_TIME: _storage_as_time(trace),
        warnings.DANGLING: order.dropped,
        warnings.CIRCULAR: order.opened,
        warnings.DUPLICATE_DEPENDENCY: order.duplicates,
    }
    found = Counter({name: count for name, count in counts.items() if count})
    for name, count in trace.attribute_names.items():
        found[f"{warnings.UNKNOWN_ATTRIBUTE} {name}"] += count
    return found


def _storage_as_time(trace: RankTrace) -> int:
    """Storage nodes that take time, or would transfer bytes."""
    counted = is_storage(trace.node_type) & (trace.duration_micros > 0)
    counted[[one.row for one in trace.storage if one.moves]] = True
    return int(np.count_nonzero(counted))


def _is_free(trace: RankTrace) -> BoolArray:
    """Metadata and invalid nodes take no time."""
    result: BoolArray = (trace.node_type == NodeType.METADATA) | (trace.node_type == NodeType.INVALID)
    return result


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
