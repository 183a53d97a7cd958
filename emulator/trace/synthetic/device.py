"""What a device achieves, how long its work takes at that rate, and the chain of its nodes, one after the other."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from emulator.errors import PlanError
from emulator.trace.meaning.program import MAX_MICROS
from emulator.trace.synthetic.options import option
from emulator.trace.synthetic.synthetic import WorkNode

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


Emission: TypeAlias = Generator[WorkNode, None, int]
"""Yields nodes; returns the id of the node after which the result is available, 0 if from the start."""


class NodeChain:
    """The last id and the last compute node of a rank.

    Attributes:
        device: id of the last node that the device computes; 0: none yet.
    """

    def __init__(self) -> None:
        self._last_id = 0
        self.device = 0

    def compute(self, name: str, micros: int, ready: int) -> Emission:
        """The device computes, once it is free and `ready` is done."""
        self.device = yield from self.append(name, self.device, ready, duration_micros=micros)
        return self.device

    def append(self, name: str, *after: int, **more: Any) -> Emission:
        """A node that starts once all of `after` are done; 0: nothing. `more`: as of WorkNode."""
        self._last_id += 1
        number = self._last_id
        yield WorkNode(number, name, tuple(sorted({dep for dep in after if dep})), **more)
        return number
