"""Rates, delays and links of ports as commands, and the commands that undo them."""

from __future__ import annotations

from pathlib import Path

from tests.support.profiles import changes, commands, two_hosts

IN = "-n charkha-test-sw0"


def test_shaping_a_port_changes_its_token_bucket_and_restores_it(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{shape: {rate: 90%}, port: "sw0:p1"}')
    shaping = two_hosts(tmp_path).node("sw0").port("p1").shaping
    assert shaping is not None
    bucket = f"burst {shaping.burst_bytes} limit {shaping.limit_bytes} overhead {shaping.overhead_bytes}"
    assert commands(change, "start") == [
        f"tc {IN}: qdisc change dev p1 parent 1:1 handle 2: tbf rate 90000000bit {bucket}"
    ]
    assert commands(change, "stop") == [
        f"tc {IN}: qdisc change dev p1 parent 1:1 handle 2: tbf rate 100000000bit {bucket}"
    ]


def test_a_port_without_a_rate_gets_a_token_bucket_for_the_time_of_the_rule(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{shape: {rate: 10Mbit, queue: 50K}, port: "sw0:p1"}', rate=None)
    (start,) = commands(change, "start")
    assert "qdisc add dev p1 root handle 2: tbf rate 10000000bit" in start
    assert "limit 51200" in start
    assert commands(change, "stop") == [f"tc {IN}: qdisc del dev p1 root"]


def test_a_delay_is_added_after_the_shaper_whose_queue_is_restored(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{delay: {time: 100us, jitter: 10us, reorder: 2%}, port: "sw0:p1"}')
    (start,) = commands(change, "start")
    assert start.endswith("qdisc replace dev p1 parent 2:1 handle 3: netem limit 1000000 delay 100us 10us reorder 2%")
    (stop,) = commands(change, "stop")
    assert stop.endswith("qdisc replace dev p1 parent 2:1 handle 4: bfifo limit 100000")
    assert [*change.start, *change.stop] == list(change.check)


def test_a_port_of_a_bridge_is_restored_with_its_link(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{port: "sw0:p1", state: down, start: 1, end: 2}')
    assert commands(change, "start") == [f"ip {IN}: link set dev p1 down"]
    assert commands(change, "stop") == [f"ip {IN}: link set dev p1 up"]


def test_a_queue_holds_at_least_one_frame(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{shape: {rate: 10Mbit, queue: 100}, port: "sw0:p1"}')
    (start,) = commands(change, "start")
    assert "limit 1538 " in start  # MTU 1,500, Ethernet header, FCS, preamble, gap


def test_several_ports_of_a_switch_are_changed_in_one_call(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, "{shape: {rate: 50%}}")
    (start,) = change.start
    assert [line.split()[3] for line in start.lines] == ["p0", "p1"]
    assert all("rate 50000000bit" in line for line in start.lines)


def test_a_port_without_a_shaper_is_delayed_at_its_root(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{delay: {time: 2ms}, port: "sw0:p1"}', rate=None)
    (start,) = commands(change, "start")
    assert start.endswith("qdisc replace dev p1 root handle 3: netem limit 1000000 delay 2000us")
    assert commands(change, "stop") == [f"tc {IN}: qdisc del dev p1 root"]
