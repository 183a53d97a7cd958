"""A calibration in the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes.bench_kit.calibrate import can_be_cabled, doubts, render
from emulator.results.statistics.tester.calibration import AgentClock, Calibration, TimerJitter, TransportCost
from tests.support.terminal import rows_of, shown
from tests.support.topologies import SHIPPED, shipped_topology, write_topology


@pytest.mark.parametrize(
    ("name", "is_possible"), [("two-hosts-switch", True), ("eight-hosts-switch", True), ("loopback", False)]
)
def test_hosts_of_a_lab_can_be_cabled(name: str, is_possible: bool) -> None:
    assert can_be_cabled(shipped_topology(name)) is is_possible


def test_hosts_at_a_real_switch_cannot_be_cabled(tmp_path: Path) -> None:
    text = (SHIPPED / "two-hosts-switch.yaml").read_text()
    assert not can_be_cabled(write_topology(tmp_path, text.replace("kind: bridge", "kind: physical"), ranks=0))


STEADY = TransportCost("roce", {}, 4, 2, [(1 << 20, 1.5e9)], 400_000.0, 100_000.0, 0.04)
MEASURED = Calibration("2026-01-02T03:04:05+00:00", "loopback", None, None, (STEADY,), TimerJitter(2000, 1, 2, 3))


def test_a_steady_measurement_without_a_topology_is_not_commented() -> None:
    assert list(doubts(None, MEASURED)) == []


def test_loopback_instead_of_a_lab_is_pointed_out() -> None:
    topology = shipped_topology("two-hosts-switch")
    (problem,) = doubts(topology, MEASURED)
    assert "rates are too high: run as root to measure between network namespaces" in problem
    assert list(doubts(topology, replace(MEASURED, where="cables"))) == []


def test_a_transport_that_varies_is_named_with_its_variation() -> None:
    made = replace(MEASURED, transports=(STEADY, replace(STEADY, transport="zmq", variation=0.31)))
    (problem,) = doubts(None, made)
    assert problem.startswith("zmq varies by 31")
    assert "calibrate when it is idle" in problem


ROCE = TransportCost("roce", {}, 4, 2, [(1 << 20, 1.5e9), (1 << 24, 2.5e9)], 400_000.0, 100_000.0, 0.042)
ZMQ = TransportCost("zmq", {}, 4, 2, [], 5_000.0, 1_250.0, None)
MADE = Calibration(
    created="2026-01-02T03:04:05+00:00",
    where="loopback",
    topology=None,
    topology_digest=None,
    transports=[ROCE, ZMQ],
    timer=TimerJitter(alarms=2000, p50_ns=60_000, p99_ns=400_000, max_ns=2_000_000),
    clocks=[AgentClock("a0", 0, 0), AgentClock("a1", 1_500, 20_000)],
    host={},
    host_digest="",
)


def test_a_transport_has_its_highest_rate_and_what_a_message_costs() -> None:
    roce, zmq, *_ = rows_of(shown(render(MADE)))
    assert roce == ["roce", "4", "2", "2.50", "400", "µs", "100", "µs", "4.20", "%"]
    assert zmq == ["zmq", "4", "2", "0", "5", "µs", "1.25", "µs", "–"]  # noqa: RUF001


def test_timer_and_clocks_follow_the_table() -> None:
    lines = shown(render(MADE)).splitlines()
    assert lines[-3:] == [
        "Timer  60 µs late at the median, p99 400 µs, max 2 ms of 2,000 alarms",
        "Clock  a0: offset 0 ns, error none: it shares the controller's clock",
        "Clock  a1: offset 1.5 µs, error 20 µs",
    ]


def test_the_headline_names_what_was_crossed() -> None:
    assert shown(render(MADE)).splitlines()[0].startswith("The tester alone, over loopback")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_line_fits_the_width(width: int) -> None:
    assert max(map(len, shown(render(MADE), width=width).splitlines())) <= width
