from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes.bench_kit.measure_tester import can_be_cabled, doubts
from emulator.results.statistics.tester.calibration import Calibration, TimerJitter, TransportCost
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
MADE = Calibration("2026-01-02T03:04:05+00:00", "loopback", None, None, (STEADY,), TimerJitter(2000, 1, 2, 3))


def test_a_steady_measurement_without_a_topology_is_not_commented() -> None:
    assert list(doubts(None, MADE)) == []


def test_loopback_instead_of_a_lab_is_pointed_out() -> None:
    topology = shipped_topology("two-hosts-switch")
    (problem,) = doubts(topology, MADE)
    assert "rates are too high: run as root to measure between network namespaces" in problem
    assert list(doubts(topology, replace(MADE, where="cables"))) == []


def test_a_transport_that_varies_is_named_with_its_variation() -> None:
    made = replace(MADE, transports=(STEADY, replace(STEADY, transport="zmq", variation=0.31)))
    (problem,) = doubts(None, made)
    assert problem.startswith("zmq varies by 31")
    assert "calibrate when it is idle" in problem
