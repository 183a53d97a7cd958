"""Fields of a workload's description as options of the command line, their ranges, and their values as text.

And of those of the device that it is for: how long work takes there.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any

from emulator.errors import PlanError
from emulator.option import Level, plain_value
from emulator.option import option as plain_option
from emulator.trace.meaning.program import MAX_MICROS

ADAM_STATE_BYTES = 24
"""Bytes per parameter that a mixed-precision Adam step reads and writes in addition to gradient and parameter: float32
master copy, momentum and variance, each read once and written once (Rajbhandari et al., SC'20, section 3.1)."""

BACKWARD_TO_FORWARD = 2
"""Gradients of inputs and of weights, a matrix product each (Narayanan et al., SC'21)."""


def option(
    summary: str, *, default: Any = MISSING, group: str = "workload", is_advanced: bool = False, **facts: Any
) -> Any:
    """A field that is an option; without a default it must be given.

    Args:
        summary, default, group: see `emulator.option`.
        is_advanced: only `--help-all` lists it.
        facts: others.
    """
    level = Level.FULL if is_advanced else Level.COMMON
    return plain_option(summary, default=default, group=group, level=level, **facts)


def check_ranges(description: Any, *, or_zero: Collection[str] = ()) -> None:
    """Refuse numbers that are not positive and finite; those of `or_zero` may be 0.

    Raises:
        PlanError: one is out of range.
    """
    for one in fields(description):
        value = getattr(description, one.name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if one.name in or_zero and not 0 <= value < math.inf:
            raise PlanError(f"{one.name} is {value}: it must be at least 0")
        if one.name not in or_zero and not 0 < value < math.inf:
            raise PlanError(f"{one.name} is {value}: it must be greater than 0")


def described(description: Any) -> dict[str, int | str]:
    """All fields of a description as names and plain values; those that are not set are left out."""
    values = {one.name: getattr(description, one.name) for one in fields(description)}
    return {
        name: int(value) if isinstance(value, bool) else plain_value(value)
        for name, value in values.items()
        if value is not None
    }


def tflops_option() -> Any:
    """A field: compute rate that a device achieves, 10¹² floating-point operations per second."""
    summary = "achieved TFLOP/s of one device"
    return option(summary, default=200.0, group="device", flags="--tflops", is_advanced=True)


def memory_option() -> Any:
    """A field: memory bandwidth that a device achieves, 10⁹ bytes per second."""
    summary = "achieved memory traffic of one device, GB/s"
    return option(summary, default=1500.0, group="device", flags="--memory-gbytes", is_advanced=True)


def compute_micros(flops: float, *, tflops: float) -> int:
    """Duration of a node that computes, µs, at least 1.

    Raises:
        PlanError: it is longer than a trace can say.
    """
    return _whole_micros(flops / (tflops * 1e6))


def memory_micros(size_bytes: float, *, gbytes_per_s: float) -> int:
    """Duration of a node that reads and writes memory, µs, at least 1.

    Raises:
        PlanError: it is longer than a trace can say.
    """
    return _whole_micros(size_bytes / (gbytes_per_s * 1e3))


def _whole_micros(duration: float) -> int:
    if duration > MAX_MICROS:
        raise PlanError(f"a node would compute for {duration:.3g} µs; the limit of a trace is {MAX_MICROS}")
    return max(1, round(duration))
