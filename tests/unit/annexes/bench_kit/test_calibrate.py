"""A calibration in the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes.bench_kit.calibrate import (
    calibrate,
    can_be_cabled,
    doubts,
    fit_tester_model,
    render,
    slowest_likely,
    uncertainty,
)
from emulator.errors import InputError
from emulator.results.statistics import tester_model
from emulator.results.statistics.calibration import (
    AgentClock,
    Calibration,
    ClosureTest,
    TimerJitter,
    TransportCost,
    expired,
)
from emulator.results.statistics.samples.collectives import merge
from emulator.results.statistics.samples.transfers import bytes_in_flight
from emulator.results.statistics.uncertainty import Sources
from tests.support.runs import collective, manifest, table
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


def test_what_could_not_be_planted_is_said_and_casts_no_doubt() -> None:
    absent = ClosureTest("delay", "ns", None, None, None, "not planted: the switch is ovs")
    assert absent.is_inside is None
    assert list(doubts(None, replace(MEASURED, closure=(absent,)))) == []
    *_, delay = rows_of(shown(render(replace(MADE, closure=(absent,))), width=120))
    assert " ".join(delay).startswith("delay – – – – not planted: the switch is ovs")  # noqa: RUF001


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


def test_a_ceiling_is_what_its_own_measurements_are_a_hundred_percent_of() -> None:
    samples = [
        *collective((0, 0), (240, 240), size_bytes=16, bytes_sent=16, instance=0),
        *collective((1000, 1000), (11240, 11240), size_bytes=10**6, bytes_sent=10**6, instance=1),
        *collective((20_000, 20_000), (21_240, 21_240), size_bytes=1000, bytes_sent=1000, instance=2),
        *collective((30_000, 30_000), (30_250, 30_250), size_bytes=100, bytes_sent=100, instance=3),  # hardly longer
    ]
    merged = merge(table(samples))
    sent = bytes_in_flight(table(samples), merged)
    ceiling = fit_tester_model(merged, sent, steps=2, step_bytes={16: 8, 100: 50, 1000: 500, 10**6: 500_000})
    assert ceiling.step_ns == 120
    assert [size for size, _ in ceiling.rates] == [500, 500_000]
    assert [rate for _, rate in ceiling.rates] == pytest.approx([2 * 1000 / 1000 * 1e9, 2 * 10**6 / 10_000 * 1e9])
    assert ceiling.rate_bytes_per_s(1) == ceiling.rates[0][1]
    assert ceiling.rate_bytes_per_s(10**9) == ceiling.rates[1][1]
    assert ceiling.rates[0][1] < ceiling.rate_bytes_per_s(10_000) < ceiling.rates[1][1]


def test_several_calibrations_give_the_slow_end_of_a_further_one() -> None:
    # Steps of 90, 100 and 110 ns: 10 * sqrt(1 + 1 / 3), t(2; 0.975) = 4.3027, so 100 + 49.68 ns.
    models = [tester_model.TesterModel([(8, rate)], step) for step, rate in ((90.0, 1e9), (100.0, 1e9), (110.0, 1e9))]
    slow = slowest_likely(models)
    assert slow.step_ns == pytest.approx(149.68, abs=0.01)
    assert slow.rates == [(8, pytest.approx(1e9))]
    assert slowest_likely(models[:1]) == models[0]


def test_a_rate_is_the_lower_the_more_it_varies() -> None:
    models = [tester_model.TesterModel([(8, rate), (99, 1e9)], 100.0) for rate in (1e9, 0.5e9)] + [
        tester_model.TesterModel([(8, 1e9)], 100.0)
    ]
    slow = slowest_likely(models)
    assert slow.step_ns == 100
    assert [size for size, _ in slow.rates] == [8]  # the third has no rate for 99
    # 1, 2 and 1 ns a byte: mean 4 / 3, standard deviation 0.57735, so 1.333 + 4.3027 * 2 / 3 ns.
    assert slow.rates[0][1] == pytest.approx(1e9 / (4 / 3 + 4.30265 * 2 / 3), rel=1e-4)


def test_a_calibration_is_as_uncertain_as_what_varies_most() -> None:
    steady = [tester_model.TesterModel([(8, 1e9)], step) for step in (90.0, 100.0, 110.0)]
    assert uncertainty(steady) == pytest.approx(0.2484, abs=1e-4)  # 4.3027 / sqrt(3) of 10 ns
    varied = [tester_model.TesterModel([(8, rate)], 100.0) for rate in (1e9, 0.5e9, 1e9)]
    assert uncertainty(varied) == pytest.approx(4.30265 / 4, rel=1e-4)
    assert uncertainty(varied[::2]) == 0
