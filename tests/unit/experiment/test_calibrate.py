from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.experiment.play.calibrate import can_be_cabled, doubts
from emulator.results.statistics.tester.calibration import Calibration, TimerJitter, TransportCost
from emulator.topology.load import load_topology
from emulator.topology.model import default_loopback
from tests.support.topologies import shipped_topology

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@pytest.mark.parametrize(
    ("name", "is_possible"), [("two-hosts-switch", True), ("eight-hosts-switch", True), ("loopback", False)]
)
def test_hosts_of_a_lab_can_be_cabled(name: str, is_possible: bool) -> None:
    assert can_be_cabled(load_topology(TOPOLOGIES / f"{name}.yaml", ranks=0)) is is_possible


def test_loopback_cannot_be_cabled() -> None:
    assert not can_be_cabled(default_loopback(2))


def test_hosts_of_other_machines_cannot_be_cabled(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    text = (TOPOLOGIES / "two-hosts-switch.yaml").read_text()
    path.write_text(text.replace("kind: bridge", "kind: physical"))
    found = load_topology(path, ranks=0)
    kinds = {switch.kind for switch in found.network.switches}
    assert can_be_cabled(found) is ("physical" not in kinds)


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
