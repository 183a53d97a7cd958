"""What a device achieves, and how long its work takes at that rate."""

from __future__ import annotations

from typing import Any

from emulator.annexes.workloads.options import option
from emulator.errors import PlanError
from emulator.trace.meaning.program import MAX_MICROS

ADAM_STATE_BYTES = 24
"""Bytes per parameter that a mixed-precision Adam step reads and writes in addition to gradient and parameter: float32
master copy, momentum and variance, each read once and written once (Rajbhandari et al., SC'20, section 3.1)."""

BACKWARD_TO_FORWARD = 2
"""Gradients of inputs and of weights, a matrix product each (Narayanan et al., SC'21)."""


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
