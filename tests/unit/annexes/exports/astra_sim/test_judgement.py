"""Verdicts on the fit and on what the simulator makes of it, and the README that shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.annexes.exports.astra_sim.fit import Observation, fit
from emulator.annexes.exports.astra_sim.judgement import Judged, judge, limits_of
from emulator.annexes.exports.astra_sim.network import Dimension
from emulator.annexes.exports.astra_sim.observe import LinkClass
from emulator.annexes.exports.astra_sim.simulator import choose_algorithms
from emulator.trace.meaning.model import CommKind

SIZES = (1 << 12, 1 << 18, 1 << 24)


def ring(size: int, cct_ns: float | None = None, algorithm: str = "ring") -> Observation:
    """A ring all-reduce of 8 ranks on a network of 1 us a message and 1 ns a byte."""
    messages, port_bytes = 14, 14 * size // 8
    exact = messages * 1000 + port_bytes
    return Observation(
        f"all_reduce {size}", messages, port_bytes, round(cct_ns or exact), 5, CommKind.ALL_REDUCE, 8, size, algorithm
    )


def to_all(size: int) -> Observation:
    port_bytes = 7 * size // 8
    return Observation(
        f"all_to_all {size}", 1, port_bytes, 1000 + port_bytes, 5, CommKind.ALL_TO_ALL, 8, size, "parallel"
    )


def judged(*observations: Observation) -> Judged:
    found = fit(observations)
    assert found is not None
    return judge(Dimension(8, LinkClass.BETWEEN_HOSTS, found), choose_algorithms([found]), {})


@pytest.mark.parametrize(
    ("observations", "verdict"),
    [
        ([ring(size) for size in SIZES], "good: every class within 10 % of the fit and of the simulated time"),
        ([ring(size) for size in SIZES[:2]], "not tested: 2 classes determine latency and bandwidth"),
        ([ring(SIZES[0])], "latency unknown: one size"),
        ([ring(size, 10 * size**1.5) for size in SIZES], "BAD: all_reduce "),
        ([to_all(size) for size in SIZES], "BAD for simulation: all_to_all 4096 is "),
    ],
)
def test_the_verdict_names_the_first_thing_that_is_wrong(observations: list[Observation], verdict: str) -> None:
    assert judged(*observations).verdict.startswith(verdict)


def test_the_verdict_says_when_the_bandwidth_is_bounded_by_the_port() -> None:
    # 1 ns a byte is measured, 8 Gbit/s; the port needs 1.05 ns, 7.619 Gbit/s of payload.
    bounded = judged(*(replace(one, ideal_ns=round(1.05 * one.port_bytes)) for one in map(ring, SIZES)))
    assert bounded.verdict.startswith("good: ")
    assert bounded.verdict.endswith("; bandwidth at its bound, the payload that a port can carry (7.619 Gbit/s)")
    free = judged(*(replace(one, ideal_ns=round(0.9 * one.port_bytes)) for one in map(ring, SIZES)))
    assert "bound" not in free.verdict


def test_without_a_fit_the_verdict_gives_the_reasons() -> None:
    dimension = Dimension(8, LinkClass.WITHIN_HOST, None)
    assert str(judge(dimension, {}, {"of more than 512 ranks": 2})) == (
        "within a host, 8 ranks: no fit (2 classes of more than 512 ranks): for replaying only"
    )
    assert judge(dimension, {}, {}).verdict == "no fit (no measurements): for replaying only"


def test_a_network_the_simulator_reproduces_has_no_limits() -> None:
    one = judged(*(ring(size) for size in SIZES))
    assert limits_of([one], (0, 20), {LinkClass.BETWEEN_HOSTS: one.dimension.fit}) == []


def test_another_algorithm_than_the_one_played_is_a_limit() -> None:
    one = judged(*(ring(size) for size in SIZES), ring(SIZES[1], algorithm="double_binary_tree"))
    [limit] = limits_of([one], (0, 20), {})
    assert limit.startswith("all_reduce played as double_binary_tree is simulated as ring: ASTRA-sim takes one")


def test_two_dimensions_are_refused_by_the_congestion_aware_backend() -> None:
    one = judged(*(ring(size) for size in SIZES))
    [limit] = limits_of([one, one], (0, 20), {})
    assert "Use the congestion-unaware backend" in limit


def test_a_link_class_that_no_dimension_takes_is_named() -> None:
    one = judged(*(ring(size) for size in SIZES))
    [limit] = limits_of([one], (0, 20), {LinkClass.MIXED: one.dimension.fit, LinkClass.WITHIN_HOST: None})
    assert limit.startswith("between hosts, several ranks a host: 3 classes were measured and are not in network.yml")
