"""A rank's program: its nodes in canonical order with what each occupies and for how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from emulator.errors import TraceError
from emulator.trace.meaning import warnings
from emulator.trace.meaning.exclusive_durations import exclusive_micros
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
