"""Comparing with peers: the arithmetic from readings to ratios, verdicts and the table, without any peer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from lab.benchmarks.blast import segments_of_a_call
from lab.benchmarks.peers.children import MeasurementFailed
from lab.benchmarks.peers.collectives import Shape, summarise
from lab.benchmarks.peers.environment import Load
from lab.benchmarks.peers.flows import iperf3_reading
from lab.benchmarks.peers.programs.transport_flow import window
from lab.benchmarks.peers.quantities import TARGETS, Quantity, Target, Verdict
from lab.benchmarks.peers.report import Measured, render, to_json
from lab.benchmarks.peers.rounds import compare, measure
from lab.benchmarks.peers.settings import FULL, Setting, settings
from lab.benchmarks.peers.spread import Spread, paired_ratios, spread
from lab.benchmarks.peers.subjects import Reading, Subject, last_json

MS = 1_000_000
IDLE = Load(before=0, after=0, stolen=None)


@dataclass
class Scripted:
    """A subject that reads what it was told; None: it fails."""

    name: str
    script: list[float | None]
    log: list[str] = field(default_factory=list)
    lack: str | None = None

    def __post_init__(self) -> None:
        self._left: Iterator[float | None] = iter(self.script)

    def lacking(self) -> str | None:
        return self.lack

    def measure(self) -> Reading:
        self.log.append(self.name)
        value = next(self._left)
        if value is None:
            raise MeasurementFailed(f"{self.name} broke")
        return Reading(value)


def _setting(*subjects: Subject, key: str = "x", quantity: Quantity = Quantity.GOODPUT) -> Setting:
    pairs = [(subjects[0].name, other.name) for other in subjects[1:]]
    return Setting(key, "title", quantity, subjects, pairs or [(subjects[0].name, None)], remark="a remark")


def _text(measured: Measured, *, width: int = 130) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(render([measured]))
    return captured.get()


def test_spread_is_median_and_range() -> None:
    assert spread([5.0, 1.0, 3.0]) == Spread(3.0, 1.0, 5.0, 3)
    assert spread([1.0, 2.0, 4.0, 8.0]) == Spread(3.0, 1.0, 8.0, 4)
    assert spread([]) is None


def test_ratios_are_taken_within_a_round_and_rounds_with_a_gap_left_out() -> None:
    assert paired_ratios([8.0, None, 6.0, 4.0], [2.0, 1.0, None, 8.0]) == [4.0, 0.5]
    # the median of ratios is not the ratio of medians: noise that hits a whole round cancels out
    assert spread(paired_ratios([10.0, 1.0, 30.0], [5.0, 0.5, 15.0])) == Spread(2.0, 2.0, 2.0, 3)


def test_rounds_are_interleaved_and_reversed_in_turn() -> None:
    log: list[str] = []
    subjects = [Scripted(name, [1.0] * 3, log) for name in "abc"]
    series = measure(_setting(*subjects), pairs=3, say=lambda _: None)
    assert "".join(log) == "abccbaabc"
    assert series["b"].values == [1.0, 1.0, 1.0]


def test_a_failure_costs_its_round_and_two_end_a_subject() -> None:
    log: list[str] = []
    ours = Scripted("ours", [4.0, 6.0, 8.0, 10.0], log)
    once, always = Scripted("once", [2.0, None, 2.0, 2.0], log), Scripted("always", [None] * 4, log)
    setting = _setting(ours, once, always)
    series = measure(setting, pairs=4, say=lambda _: None)
    assert log.count("always") == 2
    to_once, to_always = compare(setting, series, judged=True)
    assert to_once.ratio == Spread(4.0, 2.0, 5.0, 3)
    assert (to_always.ratio, to_always.other) == (None, None)
    shown = _text(Measured(setting, series, [to_once, to_always], Load(0.5, 7.25, stolen=0.0312)))
    assert "4.00 [2.00, 5.00]" in shown
    assert "once: once broke" in shown
    assert "load average 0.5 before, 7.2 after; steal 3.1 %" in shown


def test_what_is_not_installed_is_named_and_never_run() -> None:
    absent = Scripted("absent", [], lack="absent is not installed")
    setting = _setting(Scripted("ours", [1.0, 1.0]), absent)
    series = measure(setting, pairs=2, say=lambda _: None)
    assert absent.log == []
    assert series["absent"].values == [None, None]
    shown = _text(Measured(setting, series, compare(setting, series, judged=True), IDLE))
    assert "absent is not installed" in shown


@pytest.mark.parametrize(
    ("readings", "verdict"),
    [([2.2] * 5, Verdict.REACHED), ([2.1] * 3 + [9.0] * 2, Verdict.MISSED), ([9.0] * 4, Verdict.UNDECIDED)],
)
def test_a_target_is_judged_by_the_median_of_at_least_five_pairs(readings: list[float], verdict: Verdict) -> None:
    ours, peer = Scripted("roce", [*readings]), Scripted("iperf3 UDP", [1.0] * len(readings))
    setting = _setting(ours, peer, key="flow-4096")
    series = measure(setting, pairs=len(readings), say=lambda _: None)
    (line,) = compare(setting, series, judged=True)
    assert line.verdict is verdict
    assert f"≥ 2.2: {verdict.value}" in _text(Measured(setting, series, [line], IDLE))
    (unjudged,) = compare(setting, series, judged=False)
    assert unjudged.verdict is None


def test_a_target_without_a_peer_bounds_the_value() -> None:
    name = "roce, credits off"
    setting = _setting(Scripted(name, [0.9 * MS] * 5), key="all-reduce-small", quantity=Quantity.TIME)
    series = measure(setting, pairs=5, say=lambda _: None)
    (line,) = compare(setting, series, judged=True)
    assert line.verdict is Verdict.REACHED
    shown = _text(Measured(setting, series, [line], IDLE))
    assert "≤ 1 ms: reached" in shown
    assert "lower is better" in shown
    assert Target(1 * MS, is_upper=True).verdict(1.1 * MS, pairs=5) is Verdict.MISSED
    assert Target(1).verdict(None, pairs=0) is Verdict.UNDECIDED


def test_every_target_belongs_to_a_comparison_that_is_made() -> None:
    every = settings(FULL, transports=("roce", "zmq"), peers_python=Path("bin/python"))
    made = {(setting.key, ours, peer) for setting in every for ours, peer in setting.pairs}
    assert set(TARGETS) <= made
    for setting in every:
        names = [subject.name for subject in setting.subjects]
        assert len(set(names)) == len(names)
        assert {name for pair in setting.pairs for name in pair if name} <= set(names)


def test_times_of_ranks_become_cct_longest_span_bus_bandwidth_and_message_rate() -> None:
    post = np.array([[0, 0, 0], [1 * MS, 3 * MS, 0]])
    done = np.array([[4 * MS, 6 * MS, 1 * MS], [5 * MS, 7 * MS, 3 * MS]])
    shape = Shape(2, 8_000_000, iterations=3, warmup=0, quantity=Quantity.TIME)
    reading = summarise(post, done, shape)
    # cct 4, 4, 3 ms; the longest of a rank 4, 6, 3 ms; span 5, 7, 3 ms
    assert reading.details == {"cct_ns": 4 * MS, "longest_ns": 4 * MS, "span_ns": 5 * MS, "iterations": 3}
    assert reading.value == 4 * MS
    bandwidth = summarise(post, done, Shape(2, 8_000_000, 3, 0, Quantity.BUS_BANDWIDTH))
    assert bandwidth.value == pytest.approx(8_000_000 / 4e-3)  # two ranks: factor 1
    rate = summarise(post, done, Shape(2, 8_000_000, 3, 0, Quantity.MESSAGE_RATE))
    assert rate.value == pytest.approx(4 / 5e-3)


def test_bus_bandwidth_and_messages_of_the_shapes_in_the_settings() -> None:
    times = np.zeros((8, 1), np.int64), np.full((8, 1), 100 * MS)
    large = Shape(8, 64 << 20, iterations=1, warmup=0, quantity=Quantity.BUS_BANDWIDTH)
    assert summarise(*times, large).value == pytest.approx(1.75 * (64 << 20) / 0.1)
    assert Shape(256, 1 << 20, 1, 0, Quantity.MESSAGE_RATE).ring_messages == 130_560


def test_iperf3s_rate_is_the_receivers() -> None:
    received = {"bits_per_second": 2e9, "bytes": 500, "seconds": 2.0, "lost_packets": 1, "packets": 9}
    found = {"end": {"sum_sent": {"bits_per_second": 9e9}, "sum_received": received}}
    assert iperf3_reading(found).value == 2e9
    with pytest.raises(MeasurementFailed, match="unable to connect"):
        iperf3_reading({"error": "unable to connect"})


def test_the_window_of_a_flow_begins_after_the_warm_up_and_ends_in_time() -> None:
    arrivals = [round(second * 1e9) for second in (10.0, 10.4, 10.5, 11.0, 11.5, 12.4, 12.6)]
    found = window(arrivals, size=100, warmup_s=0.5, seconds=2)
    assert found == {"received_bytes": 300, "seconds": pytest.approx(1.9)}
    with pytest.raises(SystemExit, match="nothing arrived"):
        window([], size=1, warmup_s=0, seconds=1)


def test_a_blast_fills_calls_up_to_the_kernels_limits() -> None:
    assert [segments_of_a_call(size) for size in (4124, 1052, 100)] == [15, 62, 64]


def test_json_is_found_after_other_output() -> None:
    assert last_json('{\n "a": 1\n}\n') == {"a": 1}
    assert last_json('warning\n{"a": 2}\n') == {"a": 2}
    with pytest.raises(MeasurementFailed, match="no JSON"):
        last_json("3\nnothing")


def test_json_has_every_reading_and_the_verdicts() -> None:
    setting = _setting(Scripted("roce", [3.0] * 5), Scripted("iperf3 UDP", [1.0] * 4 + [None]), key="flow-4096")
    series = measure(setting, pairs=5, say=lambda _: None)
    lines = compare(setting, series, judged=True)
    whole = to_json([Measured(setting, series, lines, Load(1, 2, stolen=0.25))], facts={"pairs": 5})
    (stored,) = json.loads(json.dumps(whole))["settings"]
    assert stored["subjects"]["iperf3 UDP"]["readings"] == [{"value": 1.0}] * 4 + [None]
    assert stored["comparisons"][0]["ratio"] == {"median": 3.0, "least": 3.0, "most": 3.0, "count": 4}
    assert stored["comparisons"][0]["verdict"] == "undecided"
    assert stored["quantity"] == "goodput_bps"
    assert (stored["load_average"], stored["steal_fraction"]) == ({"before": 1, "after": 2}, 0.25)


def test_a_narrow_table_wraps_and_loses_no_figure() -> None:
    name = "roce, credits off"
    ours, peer = Scripted(name, [270_427.0, 263_218.0, 287_435.0]), Scripted("ZeroMQ PUSH/PULL", [183_001.0] * 3)
    setting = replace(
        _setting(ours, peer, key="all-reduce-many", quantity=Quantity.MESSAGE_RATE),
        pairs=[(name, None), (name, peer.name)],
    )
    series = measure(setting, pairs=3, say=lambda _: None)
    measured = Measured(setting, series, compare(setting, series, judged=True), IDLE)
    assert "…" not in _text(measured, width=60)
    shown = _text(measured, width=100)
    assert "…" not in shown
    for figure in ("270,427/s", "[263,218/s,", "287,435/s]", "183,001/s", "≥ 100,000/s:", "undecided"):
        assert figure in shown
