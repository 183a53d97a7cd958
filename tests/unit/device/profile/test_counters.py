"""Frames that rules counted, by rule and by kind."""

import os
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from emulator.device.counters.counters import (
    QUEUES_ROWS,
    QUEUES_SHARE,
    CounterReading,
    ProfileCounter,
    Sampler,
    counters_of,
    sum_up,
)
from emulator.errors import HostError
from tests.support.command import wait_for
from tests.support.profiles import changes

HOUR_S = 3600.0


class Growing:
    """A source whose counter grows with every reading, and which can fail at one of them."""

    def __init__(self, device: str, *, fails_at: int | None = None, opens: bool = True) -> None:
        self._device, self._fails_at, self._opens = device, fails_at, opens
        self._read = 0
        self.is_closed = False

    def open(self) -> None:
        if not self._opens:
            raise HostError(f"{self._device} cannot be reached")

    def read(self) -> Sequence[CounterReading]:
        if self._read == self._fails_at:
            raise HostError(f"{self._device} no longer answers")
        self._read += 1
        return [CounterReading(self._device, "p0", "rx_packets", self._read)]

    def read_queues(self) -> Sequence[CounterReading]:
        return []

    def close(self) -> None:
        self.is_closed = True


class Queue(Growing):
    """A queue of these depths, read by read, whose last reading fails."""

    def __init__(self, *depths: int) -> None:
        super().__init__("sw0")
        self._depths = iter(depths)

    def read(self) -> Sequence[CounterReading]:
        return [CounterReading("sw0", "p0", "qdisc_backlog_bytes", 0)]

    def read_queues(self) -> Sequence[CounterReading]:
        depth = next(self._depths, None)
        if depth is None:
            raise HostError("sw0 no longer answers")
        return [CounterReading("sw0", "p0", "qdisc_backlog_bytes", depth)]


def clock() -> Iterator[int]:
    return count(100, 10)


def test_counters_are_read_before_and_after_a_run_on_its_clock() -> None:
    """A reading has the time at which it was complete: nothing that it counts happened later."""
    source, ticks = Growing("sw0"), clock()
    sampler = Sampler([source], clock_ns=lambda: next(ticks), period_s=HOUR_S)
    sampler.start()
    assert sampler.take() == {
        "time_ns": [100],
        "device": ["sw0"],
        "interface": ["p0"],
        "counter": ["rx_packets"],
        "value": [1],
    }
    assert sampler.take() is None
    sampler.stop()
    columns = sampler.take()
    assert (columns["time_ns"], columns["value"], source.is_closed) == ([110], [2], True)
    sampler.stop()
    assert sampler.take() is None


def test_counters_are_read_again_each_period() -> None:
    source = Growing("sw0", fails_at=4)
    sampler = Sampler([source], period_s=0.001)
    sampler.start()
    wait_for(lambda: sampler.problems or None)
    sampler.stop()
    columns = sampler.take()
    assert columns["value"] == [1, 2, 3, 4]


def test_queues_are_read_often_and_kept_where_their_depth_changes() -> None:
    """A line through the rows goes through the readings between them: equal ones are left out, but for the last."""
    ticks = clock()
    source = Queue(0, 0, 0, 0, 7, 7, 9, 9, 9, 2)
    sampler = Sampler([source], clock_ns=lambda: next(ticks), period_s=HOUR_S)
    sampler.start()
    wait_for(lambda: sampler.problems or None)
    sampler.stop()
    columns = sampler.take()
    rows = list(zip(columns["time_ns"], columns["value"], strict=True))
    last = (200, 0)  # only its queues failed
    assert rows == [(100, 0), (130, 0), (140, 7), (150, 7), (160, 9), (180, 9), (190, 2), last]
    assert sampler.queues_period_s


def test_queues_are_read_less_often_when_they_take_much_of_a_core_or_of_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("emulator.device.counters.counters.QUEUES_PERIOD_S", 0.0)
    waits: list[float] = []

    class Busy(Queue):
        def read_queues(self) -> Sequence[CounterReading]:
            begin = time.thread_time()
            while time.thread_time() < begin + 0.002:
                pass
            return super().read_queues()

    for source in (Busy(0, 0, 0), Queue(0, *range(1, 40))):
        sampler = Sampler([source], period_s=HOUR_S)
        sampler.start()
        wait_for(lambda one=sampler: one.problems or None)  # type: ignore[misc]
        waits.append(sampler.queues_period_s or 0)
        sampler.stop()
    assert waits[0] >= 0.002 / QUEUES_SHARE / 2
    assert waits[1] >= 1 / QUEUES_ROWS / 2


def test_a_device_that_stops_answering_does_not_end_the_run() -> None:
    silent, other = Growing("sw0", fails_at=1), Growing("sw1")
    sampler = Sampler([silent, other], period_s=HOUR_S)
    sampler.start()
    sampler.stop()
    columns = sampler.take()
    assert columns["device"] == ["sw0", "sw1", "sw1"]
    assert sampler.problems == ["sw0 no longer answers"]
    assert silent.is_closed


def test_a_device_that_cannot_be_reached_prevents_the_run() -> None:
    reached = Growing("sw0")
    with pytest.raises(HostError, match="sw1 cannot be reached"):
        Sampler([reached, Growing("sw1", opens=False)]).start()
    assert reached.is_closed


def test_a_sampler_that_was_never_started_can_be_stopped() -> None:
    Sampler([]).stop()


def test_only_the_thread_that_reads_counters_has_a_low_priority() -> None:
    usual, seen = os.getpriority(os.PRIO_PROCESS, 0), []

    class Looking(Growing):
        def read(self) -> Sequence[CounterReading]:
            seen.append(os.getpriority(os.PRIO_PROCESS, 0))
            return super().read()

    sampler = Sampler([Looking("sw0")])
    sampler.start()
    sampler.stop()
    assert set(seen) == {min(usual + 10, 19)}
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual


def test_rules_are_counted_one_by_one_and_by_kind() -> None:
    counters = [
        ProfileCounter("sw0", "lost", "profile_drops", "bridge", "rule_0"),
        ProfileCounter("sw0", "policed", "profile_drops", "bridge", "rule_1"),
        ProfileCounter("sw0", "later", "ecn_marked", "bridge", "rule_2"),
    ]
    readings = sum_up("sw0", counters, {("bridge", "rule_0"): 3, ("bridge", "rule_1"): 4, ("inet", "rule_2"): 9})
    assert {(one.counter, one.value) for one in readings} == {
        ("profile_drops[lost]", 3),
        ("profile_drops[policed]", 4),
        ("profile_drops", 7),
        ("ecn_marked[later]", 0),
        ("ecn_marked", 0),
    }


def test_a_rule_with_one_port_is_counted_there() -> None:
    counters = [
        ProfileCounter("sw0", "a", "profile_drops", "bridge", "rule_0", "p1"),
        ProfileCounter("sw0", "b", "profile_drops", "bridge", "rule_1", "p1"),
        ProfileCounter("sw0", "c", "profile_drops", "bridge", "rule_2"),
    ]
    readings = sum_up("sw0", counters, {("bridge", f"rule_{number}"): number + 1 for number in range(3)})
    assert {(one.interface, one.counter): one.value for one in readings} == {
        ("p1", "profile_drops[a]"): 1,
        ("p1", "profile_drops[b]"): 2,
        ("", "profile_drops[c]"): 3,
        ("p1", "profile_drops"): 3,
        ("", "profile_drops"): 3,
    }


def test_the_port_of_a_rule_is_that_of_its_counter(tmp_path: Path) -> None:
    found = counters_of(changes(tmp_path, '{name: r, port: "sw0:p1", drop: {every: 2}}', "{name: s, mark: {every: 2}}"))
    assert [(one.rule, one.interface) for one in found] == [("r", "p1"), ("s", "")]


def test_frames_that_a_rule_takes_where_they_arrive_are_counted_at_that_port(tmp_path: Path) -> None:
    (one,) = counters_of(changes(tmp_path, '{name: r, arriving: "sw0:p0", drop: {once: true}}'))
    assert one.interface == "p0"
    (both,) = counters_of(changes(tmp_path, '{name: r, arriving: ["sw0:p0", "sw0:p1"], drop: {once: true}}'))
    assert both.interface == ""


@pytest.mark.parametrize(
    ("rule", "counter"),
    [
        ("{name: r, drop: {every: 2}}", "profile_drops"),
        ("{name: r, police: {rate: 90%}}", "profile_drops"),
        ("{name: r, mark: {every: 2}}", "ecn_marked"),
        ("{name: r, duplicate: {every: 2}}", "profile_duplicates"),
    ],
)
def test_every_action_on_frames_has_its_counter(tmp_path: Path, rule: str, counter: str) -> None:
    (found,) = counters_of(changes(tmp_path, rule))
    assert (found.node, found.rule, found.counter, found.name) == ("sw0", "r", counter, "rule_0")


def test_rules_about_ports_count_nothing(tmp_path: Path) -> None:
    assert counters_of(changes(tmp_path, "{shape: {rate: 90%}}", "{delay: {time: 1ms}}")) == []


def test_without_rules_there_is_nothing_to_sum_up() -> None:
    assert list(sum_up("sw0", [], {("bridge", "rule_0"): 3})) == []
