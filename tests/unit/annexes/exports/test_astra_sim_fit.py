"""Latency and bandwidth are found where the times have them, and a bad fit says so."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from emulator.annexes.exports.astra_sim_fit import Observation, fit
from tests.unit.annexes.exports.test_astra_sim_simulator import fitted

SIZES = (1 << 10, 1 << 14, 1 << 20, 1 << 26)


def observation(messages: int, port_bytes: int, cct_ns: float) -> Observation:
    return Observation(f"{messages} messages, {port_bytes} B", messages, port_bytes, round(cct_ns), 20)


@given(latency_ns=st.floats(1e3, 1e6), gigabits=st.floats(0.1, 400))
def test_exact_times_give_back_what_made_them(latency_ns: float, gigabits: float) -> None:
    per_byte = 8 / gigabits
    found = fitted(*(observation(6, size, 6 * latency_ns + size * per_byte) for size in SIZES))
    assert found.is_good
    assert found.latency_ns == pytest.approx(latency_ns, rel=1e-2)
    assert found.bandwidth_bytes_per_s == pytest.approx(gigabits * 1e9 / 8, rel=0.03)
    for point in found.points:
        assert point.blind_ns == pytest.approx(point.observation.cct_ns, rel=0.02)


def test_times_that_no_latency_and_bandwidth_explain_make_a_bad_fit() -> None:
    found = fitted(*(observation(6, size, 1e3 * size**1.5) for size in SIZES))
    assert not found.is_good
    assert found.worst_residual > 0.10


def test_two_points_on_two_parameters_are_not_a_good_fit() -> None:
    found = fitted(observation(6, 1 << 10, 7024), observation(6, 1 << 20, 1_054_576))
    assert found.worst_residual < 0.01
    assert not found.is_good


def test_one_size_tells_a_bandwidth_but_no_latency() -> None:
    found = fitted(observation(2, 1000, 8000))
    assert (found.latency_ns, found.bandwidth_bytes_per_s) == (0, pytest.approx(125e6))
    assert not found.is_determined
    assert not found.is_good


def test_sizes_and_messages_in_one_proportion_tell_no_latency() -> None:
    assert not fitted(observation(2, 1000, 8000), observation(4, 2000, 16000)).is_determined


def test_neither_becomes_negative() -> None:
    found = fitted(observation(2, 1000, 100), observation(2, 1_000_000, 2_000_000))
    assert found.latency_ns >= 0
    assert found.bandwidth_bytes_per_s > 0


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 10_000), st.integers(1, 10**6)), min_size=3, max_size=8),
    st.none() | st.integers(1, 1_000),
)
def test_the_fit_is_the_bounded_least_squares_solution_of_scipy(
    drawn: list[tuple[int, int, int]], least_ns: int | None
) -> None:
    observations = [observation(messages, size, cct_ns) for messages, size, cct_ns in drawn]
    if least_ns is not None:
        observations = [replace(one, ideal_ns=least_ns * one.port_bytes) for one in observations]
    found = fitted(*observations)
    if not found.is_determined:
        return
    matrix = np.array([[one.messages, one.port_bytes] for one in observations]) / [[one.cct_ns] for one in observations]
    scale = matrix.max(axis=0)
    bounds = np.array([0, least_ns or 0]) * scale, np.inf
    expected = lsq_linear(matrix / scale, np.ones(len(matrix)), bounds=bounds, tol=1e-14).cost
    solution = found.latency_ns, 1e9 / found.bandwidth_bytes_per_s
    assert float(np.sum((matrix @ solution - 1) ** 2)) / 2 <= expected + 1e-9
    assert solution[0] >= 0
    assert solution[1] >= (least_ns or 0) * (1 - 1e-9)


def test_nothing_that_moved_bytes_is_nothing_to_fit() -> None:
    assert fit([]) is None
    assert fit([observation(3, 0, 500)]) is None


def over_a_port(size: int, cct_ns: float, *, overhead: float = 1.08) -> Observation:
    """A class on a port of 1 Gbit/s, 8 ns a byte, that carries 1 / overhead of it as payload."""
    return replace(observation(2, size, cct_ns), ideal_ns=round(8 * overhead * size))


def test_the_bandwidth_is_at_most_the_payload_that_the_port_can_carry() -> None:
    # 7.8 ns a byte is 1.0256 Gbit/s of payload; 1 Gbit/s / 1.08 is 0.926 Gbit/s, 115.74 MB/s.
    found = fitted(*(over_a_port(size, 2 * 50e3 + 7.8 * size) for size in SIZES[1:]))
    assert found.limit_bytes_per_s == pytest.approx(1e9 / 8 / 1.08, rel=1e-4)
    assert found.bandwidth_bytes_per_s == pytest.approx(115.74e6, rel=1e-4)
    assert found.is_at_limit
    slower = fitted(*(over_a_port(size, 2 * 50e3 + 10 * size) for size in SIZES[1:]))
    assert slower.bandwidth_bytes_per_s == pytest.approx(100e6, rel=1e-3)
    assert not slower.is_at_limit


def test_a_bandwidth_without_latency_is_bounded_too_and_without_rates_nothing_is() -> None:
    assert fitted(over_a_port(1 << 20, 7.8 * (1 << 20))).bandwidth_bytes_per_s == pytest.approx(115.74e6, rel=1e-4)
    free = fitted(*(observation(2, size, 2 * 50e3 + 7.8 * size) for size in SIZES[1:]))
    assert (free.limit_bytes_per_s, free.is_at_limit) == (None, False)
    assert free.bandwidth_bytes_per_s == pytest.approx(1e9 / 7.8, rel=1e-3)
