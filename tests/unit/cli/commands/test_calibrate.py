"""`charkha calibrate`: what it says about a measurement that is not to be relied on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.cli.commands.calibrate import _problems
from emulator.statistics.calibration import Calibration, TimerJitter, TransportCost
from tests.support.command import refused
from tests.support.topologies import shipped_topology

STEADY = TransportCost("roce", {}, 4, 2, [(1 << 20, 1.5e9)], 400_000.0, 100_000.0, 0.04)
MADE = Calibration("2026-01-02T03:04:05+00:00", "loopback", None, None, (STEADY,), TimerJitter(2000, 1, 2, 3))


def test_a_steady_measurement_without_a_topology_is_not_commented() -> None:
    assert list(_problems(None, MADE)) == []


def test_loopback_instead_of_a_lab_is_pointed_out() -> None:
    topology = shipped_topology("two-hosts-switch")
    (problem,) = _problems(topology, MADE)
    assert "rates are too high: run as root to measure between network namespaces" in problem
    assert list(_problems(topology, replace(MADE, where="cables"))) == []


def test_a_transport_that_varies_is_named_with_its_variation() -> None:
    made = replace(MADE, transports=(STEADY, replace(STEADY, transport="zmq", variation=0.31)))
    (problem,) = _problems(None, made)
    assert problem.startswith("zmq varies by 31")
    assert "calibrate when it is idle" in problem


def test_too_few_ranks_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "a whole number of at least 2 is needed" in refused("calibrate", "--ranks", "1", capsys=capsys)
