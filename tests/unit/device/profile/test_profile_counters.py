"""Frames that rules counted, by rule and by kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.device.counters.profile_counters import ProfileCounter, counters_of, sum_up
from tests.support.profiles import changes


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
