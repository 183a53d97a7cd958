"""How long work takes on a device."""

import pytest

from emulator.annexes.workloads.options import compute_micros, memory_micros
from emulator.errors import PlanError


def test_durations_follow_from_rates() -> None:
    assert compute_micros(3e12, tflops=1.5) == 2_000_000
    assert memory_micros(4e9, gbytes_per_s=2) == 2_000_000
    assert compute_micros(1, tflops=1) == memory_micros(1, gbytes_per_s=1) == 1


def test_a_duration_beyond_the_limit_of_a_trace_is_refused() -> None:
    with pytest.raises(PlanError, match="would compute for"):
        compute_micros(1e30, tflops=1e-3)
