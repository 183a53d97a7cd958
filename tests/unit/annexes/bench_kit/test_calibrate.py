"""A calibration in the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes.bench_kit.calibrate import calibrate, can_be_cabled, doubts, render
from emulator.errors import InputError
from emulator.results.statistics.tester.calibration import (
    AgentClock,
    Calibration,
    ClosureTest,
    TimerJitter,
    TransportCost,
    expired,
)
from emulator.results.statistics.uncertainty.budget import Sources
from tests.support.runs import manifest
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


PLANTED = (
    ClosureTest("rate", "%", 50, 50.1, 0.2),
    ClosureTest("loss", "{count}", 1200, 1199, 0.0),
    ClosureTest("outage", "ns", 2e8, None, None, "not found"),
)


def test_a_closure_test_says_whether_what_was_planted_was_found() -> None:
    assert [one.is_inside for one in PLANTED] == [True, False, None]
    made = replace(MEASURED, closure=PLANTED)
    assert list(doubts(None, made)) == [
        "loss: what was planted was not found within U",
        "outage: what was planted was not found (not found)",
    ]
    *_, rate, loss, outage = rows_of(shown(render(replace(MADE, closure=PLANTED))))
    assert rate[:8] == ["rate", "50.0", "%", "50.1", "%", "0.200", "%", "yes"]
    assert loss[:5] == ["loss", "1,200", "1,199", "0", "no"]
    assert outage[-2:] == ["not", "found"]


def test_closure_tests_need_a_lab() -> None:
    with pytest.raises(InputError, match="name the --topology of one"):
        calibrate(None, transports=(), ranks=None, closure=True)


@pytest.mark.parametrize(("began", "days"), [("2026-02-01", 0), ("2026-02-02", 31), ("2027-01-02", 365)])
def test_a_calibration_expires(began: str, days: int) -> None:
    said = expired({"created": MADE.created}, f"{began}T03:04:05+00:00")
    assert said == (f"the calibration expired: made 2026-01-02, {days} days before" if days else "")
    assert expired({}, f"{began}T03:04:05+00:00") == ""


@pytest.mark.parametrize(
    ("closure", "began", "said"),
    [
        ([], "2026-01-03", "no closure test"),
        ([{"name": "rate", "inside": True}], "2026-01-03", "a closure test on 2026-01-02 found a planted rate"),
        ([{"name": "rate", "inside": False}], "2026-01-03", "did NOT find a planted rate"),
        ([{"name": "rate", "inside": True}], "2026-03-03", "the calibration expired"),
    ],
)
def test_a_budget_says_what_a_closure_test_found(closure: list[dict[str, object]], began: str, said: str) -> None:
    calibration = {"created": MADE.created, "timer_ns": 5, "closure": closure}
    run = manifest(calibration=calibration, topology={"lab": {"id": "1"}}, created=f"{began}T03:04:05+00:00")
    found = Sources.of(run)
    assert said in found.reference_source
    assert ("expired" in found.stamp) is ("expired" in said)
