"""Rates, delays and links of ports as commands, and the commands that undo them."""

from pathlib import Path

import pytest

from emulator.device.lab.design import make_design
from emulator.device.profile.changes import plan_changes
from emulator.device.profile.profile import Schedule
from emulator.errors import TopologyError
from emulator.topology.load import load_topology
from tests.support.profiles import changes, commands, profile_of, two_hosts

LEAF_SPINE = Path(__file__).parents[4] / "topologies" / "leaf-spine-2x2.yaml"


def test_rules_apply_to_the_device_under_test_or_to_the_ports_they_name(tmp_path: Path) -> None:
    design = make_design(load_topology(LEAF_SPINE, ranks=0), "test")

    def where(rule: str) -> list[str]:
        planned = plan_changes(
            Schedule(profile_of(tmp_path, f"  - {rule}\n")), design, ["leaf0", "spine1"], frame_bytes=1250
        )
        return [change.node.name for change in planned]

    assert where("drop: {every: 2}") == ["leaf0", "spine1"]
    assert where('{drop: {every: 2}, port: ["leaf1:p0", "spine0:d1"]}') == ["leaf1", "spine0"]
    assert where('{drop: {every: 2}, arriving: "leaf1:p0"}') == ["leaf1"]


@pytest.mark.parametrize(
    ("rules", "kind", "rate", "problem"),
    [
        (
            ['{drop: {every: 2}, port: "sw1:p0"}'],
            "bridge",
            None,
            "rules[0].port: there is no switch 'sw1'; there are sw0",
        ),
        (['{drop: {every: 2}, port: "h0:eth0"}'], "bridge", None, "rules[0].port: there is no switch 'h0'"),
        (
            ['{drop: {every: 2}, arriving: "sw0:p7"}'],
            "bridge",
            None,
            "rules[0].arriving: switch sw0 has no port 'p7'; it has p0, p1",
        ),
        (
            ["{mark: {above: 95%}}"],
            "bridge",
            None,
            "rules[0].mark.above: is a share of the rate of p0, which has no rate",
        ),
        (["{police: {rate: 95%}}"], "bridge", None, "rules[0].police.rate: is a share"),
        (["{shape: {rate: 95%}}"], "bridge", None, "rules[0].shape.rate: is a share"),
        (
            ['{drop: {every: 2}, arriving: "sw0:p0"}'],
            "ovs",
            None,
            "rules[0].arriving: sw0 (ovs) applies this rule at egress",
        ),
        (
            ['{duplicate: {every: 2}, arriving: "sw0:p0"}'],
            "bridge",
            None,
            "rules[0].arriving: sw0 (bridge) applies this rule",
        ),
        (
            ["{shape: {rate: 90%}, end: 3}", '{shape: {rate: 80%}, port: "sw0:p1", start: 2}'],
            "bridge",
            "1Gbit",
            "rules[1]: 'shape-0' does the same to sw0:p1 at the same time",
        ),
    ],
)
def test_rules_that_a_lab_does_not_support_are_refused_with_file_line_and_key(
    tmp_path: Path, rules: list[str], kind: str, rate: str | None, problem: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        changes(tmp_path, *rules, kind=kind, rate=rate)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/profile.yaml:{1 + len(rules)}, ")


def test_successive_rules_can_change_the_same_port(tmp_path: Path) -> None:
    assert len(changes(tmp_path, "{shape: {rate: 90%}, end: 3}", "{shape: {rate: 80%}, start: 3}")) == 2


IN = "-n charkha-test-sw0"


def test_shaping_a_port_changes_its_token_bucket_and_restores_it(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{shape: {rate: 90%}, port: "sw0:p1"}')
    shaping = two_hosts(tmp_path).node("sw0").port("p1").shaping
    assert shaping is not None
    bucket, rest = f"tc {IN}: qdisc change dev p1 parent 1:1 handle 2: tbf", "limit 100000 overhead 24"
    slow_burst = shaping.burst_bytes * 9 // 8
    assert commands(change, "start") == [f"{bucket} rate 90000000bit burst {slow_burst} {rest}"]
    assert commands(change, "stop") == [f"{bucket} rate 100000000bit burst {shaping.burst_bytes} {rest}"]


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
