"""The device under test during a run, outside labs; tests/lab/test_profiles.py has labs.

Interface counters as the kernel prints and sends them.
"""

import os
import resource
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from emulator.device.counters.counters import CounterReading
from emulator.device.counters.watch import DutWatch, NamespaceCounters, describe_profile, event_rows, parse_net_dev
from emulator.device.lab.link_news import LinkNews, LinkNote, QdiscNote, RouteNote
from emulator.device.lab.model import Node
from emulator.device.lab.state import LabStore
from emulator.device.profile.applying import AppliedProfile, Scenario
from emulator.device.profile.profile import Schedule
from emulator.errors import HostError, TopologyError
from emulator.topology.load import load_topology
from emulator.topology.model import default_loopback
from tests.support.command import wait_for
from tests.support.labs import designed
from tests.support.limits import limited
from tests.support.profiles import changes, profile_of

HOUR_S = 3600.0


class Source:
    """A counter that grows with every reading."""

    def __init__(self, *, last: int = 99, opens: bool = True) -> None:
        self._values, self._last, self._opens = count(1), last, opens
        self.is_closed = False

    def open(self) -> None:
        if not self._opens:
            raise HostError("leaf0 does not answer")

    def read(self) -> Sequence[CounterReading]:
        value = next(self._values)
        if value > self._last:
            raise HostError("leaf0 does not answer")
        return [CounterReading("leaf0", "p0", "rx_packets", value)]

    def read_queues(self) -> Sequence[CounterReading]:
        return []

    def close(self) -> None:
        self.is_closed = True


def watch(*sources: Source) -> DutWatch:
    return DutWatch(sources, topology=default_loopback(2), period_s=HOUR_S)


def test_counters_are_read_before_and_after_the_run() -> None:
    source = Source()
    with watch(source) as monitor:
        first = monitor.counters()
        monitor.begin(0)
        assert monitor.counters() is None
        monitor.end()
        last = monitor.counters()
    assert (first["value"], last["value"], source.is_closed) == ([1], [2], True)
    assert monitor.facts() == {"counters": {"period_s": HOUR_S, "problems": []}}


def test_a_source_that_fails_during_the_run_is_reported_in_the_manifest() -> None:
    with watch(Source(last=1)) as monitor:
        monitor.end()
        assert monitor.facts()["counters"]["problems"] == ["leaf0 does not answer"]


def test_a_source_that_does_not_answer_prevents_the_run() -> None:
    with pytest.raises(HostError, match="leaf0 does not answer"), watch(Source(opens=False)):
        pass


def test_without_sources_and_lab_nothing_is_recorded() -> None:
    with watch() as monitor:
        monitor.begin(0)
        assert monitor.counters() is None
        monitor.end()
    assert monitor.facts() == {}


TWO_SWITCHES = """
hosts:
  - {name: h0, per_rank: 198.18.1.0/24}
  - {name: h1, per_rank: 198.18.2.0/24}
switches: [{name: sw0, kind: router}, {name: sw1, kind: router}]
links:
  - {endpoints: ["h0:eth0", "sw0:p0"], rate: 100Mbit}
  - {endpoints: ["sw0:p1", "sw1:p1"], rate: 100Mbit}
  - {endpoints: ["h1:eth0", "sw1:p0"]}
"""


def in_a_lab(folder: Path, rules: str, *, dut: str = "") -> DutWatch:
    path = folder / "t.yaml"
    path.write_text(TWO_SWITCHES + dut)
    topology = load_topology(path, ranks=0)
    return DutWatch(
        [],
        topology=topology,
        lab=designed(topology, "test"),
        schedule=Schedule(profile_of(folder, rules)),
        store=LabStore(folder / "labs"),
    )


def test_a_profile_that_does_not_fit_the_lab_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="there is no switch 'sw7'"):
        in_a_lab(tmp_path, '  - {drop: {every: 2}, port: "sw7:p0"}\n')


def test_a_profile_applies_to_all_switches_unless_the_topology_names_those_under_test(tmp_path: Path) -> None:
    rule = "  - {police: {rate: 50%}}\n"
    with pytest.raises(TopologyError, match="is a share of the rate of p0, which has no rate"):
        in_a_lab(tmp_path, rule)
    in_a_lab(tmp_path, rule, dut="dut: {kind: switch, nodes: [sw0]}\n")


class Applied:
    """Accepts every change, or none."""

    def __init__(self, problem: str = "") -> None:
        self._problem = problem

    def start(self, change: object) -> None:
        if self._problem:
            raise HostError(self._problem)


def scenario(folder: Path, applied: Applied, *rules: str) -> Scenario:
    ticks = count(1_000_000_000, 500_000_000)
    return Scenario(cast(AppliedProfile, applied), changes(folder, *rules), clock_ns=lambda: next(ticks))


def test_the_manifest_has_every_rule_with_its_commands_and_times(tmp_path: Path) -> None:
    rules = ("{name: slow, shape: {rate: 50%}}", "{name: later, drop: {every: 2}, start: 86400}")
    schedule = scenario(tmp_path, Applied(), *rules)
    profile = profile_of(tmp_path, "".join(f"  - {rule}\n" for rule in rules))
    schedule.prepare()
    schedule.begin(0)
    schedule.end()
    facts = describe_profile(profile, schedule)
    assert (facts["name"], facts["digest"], facts["failure"]) == ("profile", profile.digest, None)
    slow, later = facts["rules"]
    assert (slow["at"], slow["kind"], slow["ports"]) == ("sw0", "bridge", ["p0", "p1"])
    assert slow["action"] == "shape to 50 % of the port's rate"
    assert all("tbf rate 50000000bit" in line for line in slow["commands"])
    assert (slow["started_s"], slow["ended_s"]) == (-0.5, None)
    assert (later["start_s"], later["started_s"]) == (86_400, None)


def test_a_change_that_cannot_be_made_in_time_is_in_the_manifest(tmp_path: Path) -> None:
    schedule = scenario(tmp_path, Applied("p1 is gone"), "{name: now, drop: {every: 2}, start: 0}")
    schedule.begin(0)
    wait_for(lambda: schedule.failure)
    schedule.end()
    facts = describe_profile(profile_of(tmp_path, "  - {drop: {every: 2}}\n"), schedule)
    assert facts["failure"] == "p1 is gone"


class Changes(Applied):
    """Accepts every change."""

    def stop(self, change: object) -> None:
        pass


def test_every_change_during_the_run_has_its_time_and_who_says_so(tmp_path: Path) -> None:
    rules = (
        '{name: cut, state: down, port: "sw0:p1", start: 0, end: 1.0e-9}',
        "{name: lost, drop: {every: 2}, end: 86400}",
        "{name: always, drop: {every: 3}}",
    )
    now = count(1_000_000_000, 1_000)
    applied = cast(AppliedProfile, Changes())
    schedule = Scenario(applied, changes(tmp_path, *rules), clock_ns=lambda: next(now))
    schedule.prepare()
    schedule.begin(0)
    wait_for(lambda: schedule.timings[0].ended_ns)
    schedule.end()
    start, end = schedule.timings[0].start, schedule.timings[0].end
    news = LinkNews([])
    news._notes.append(LinkNote(start.asked_ns + 400, "sw0", "p1", False))
    news._notes.append(LinkNote(end.done_ns + 5, "sw0", "p1", True))  # heard late: the call had returned before
    news._routes.append(RouteNote(end.done_ns + 9, "sw0", "p1"))
    down, up, never = event_rows(schedule, news)
    assert down == {
        "name": "cut",
        "edge": "begin",
        "what": "port down",
        "device": "sw0",
        "interface": "p1",
        "stops_traffic": True,
        "planned_ns": schedule.begun_ns,
        "time_ns": start.asked_ns + 400,
        "uncertainty_ns": 400,
        "seen_by": "kernel",
        "routes_ns": None,
        "exit_code": None,
    }
    assert (up["edge"], up["time_ns"], up["uncertainty_ns"]) == ("end", end.done_ns, 1_000)
    assert (up["seen_by"], up["routes_ns"]) == ("command", end.done_ns + 9)
    assert (never["name"], never["edge"], never["interface"], never["time_ns"]) == ("lost", "end", "", None)


def test_a_shaped_port_has_the_time_at_which_the_kernel_changed_its_queueing_discipline(tmp_path: Path) -> None:
    rules = (
        '{name: slow, shape: {rate: 50%}, port: "sw0:p1", start: 0, end: 1.0e-9}',
        '{name: lost, drop: {every: 2}, port: "sw0:p1", start: 0}',
    )
    now = count(1_000_000_000, 1_000)
    applied = cast(AppliedProfile, Changes())
    schedule = Scenario(applied, changes(tmp_path, *rules), clock_ns=lambda: next(now))
    schedule.begin(0)
    wait_for(lambda: schedule.timings[0].ended_ns and schedule.timings[1].started_ns)
    schedule.end()
    slow, lost = schedule.timings
    news = LinkNews([])
    news._qdiscs += [
        QdiscNote(slow.start.asked_ns + 300, "sw0", "p0"),  # of another port
        QdiscNote(slow.start.asked_ns + 400, "sw0", "p1"),
        QdiscNote(slow.end.done_ns + 5, "sw0", "p1"),  # heard late
        QdiscNote(lost.start.asked_ns + 1, "sw0", "p1"),
    ]
    news._qdiscs.sort()
    rows = {(row["name"], row["edge"]): row for row in event_rows(schedule, news)}
    begin, end = rows["slow", "begin"], rows["slow", "end"]
    assert (begin["time_ns"], begin["uncertainty_ns"], begin["seen_by"]) == (slow.start.asked_ns + 400, 400, "kernel")
    assert (end["time_ns"], end["seen_by"]) == (slow.end.done_ns, "command")
    assert rows["lost", "begin"]["seen_by"] == "command"  # it changes no queueing discipline


NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0: 2124000    2000    1    7    0     0          0         0  2096000    1999    3    4    0     0       0          0
"""  # noqa: E501


def test_interface_counters_are_found_in_their_columns() -> None:
    assert parse_net_dev(NET_DEV)["eth0"] == {
        "rx_bytes": 2124000,
        "rx_packets": 2000,
        "rx_errors": 1,
        "rx_dropped": 7,
        "tx_bytes": 2096000,
        "tx_packets": 1999,
        "tx_errors": 3,
        "tx_dropped": 4,
    }


def test_every_interface_of_the_file_is_read() -> None:
    assert list(parse_net_dev(NET_DEV)) == ["lo", "eth0"]
    assert set(parse_net_dev(NET_DEV)["lo"].values()) == {0}


def test_large_counters_without_a_space_after_the_colon_are_read() -> None:
    line = "  eth0:18446744073709551615 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
    found = parse_net_dev("".join(NET_DEV.splitlines(keepends=True)[:2]) + line)
    assert (found["eth0"]["rx_bytes"], found["eth0"]["tx_dropped"]) == (2**64 - 1, 12)


@pytest.mark.parametrize("spare", range(1, 4))
def test_too_few_descriptors_are_named_and_leave_no_traceback(spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest fails a test in which a destructor raises. The test stays in its own namespace."""
    monkeypatch.setattr("pyroute2.netns.setns", lambda namespace: None)
    next_free = os.dup(0)
    os.close(next_free)
    counters = NamespaceCounters([Node("s0", "bridge", "none", [])])
    with limited(resource.RLIMIT_NOFILE, next_free + spare), pytest.raises(HostError, match="too many open files"):
        counters.open()
