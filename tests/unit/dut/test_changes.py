from pathlib import Path

import pytest

from emulator.dut.changes import Change, plan_changes
from emulator.errors import TopologyError
from emulator.lab.design import make_design
from emulator.topology.load import load_topology
from tests.support.profiles import profile_of, two_hosts

LEAF_SPINE = Path(__file__).parents[3] / "topologies" / "leaf-spine-2x2.yaml"


def changes(folder: Path, *rules: str, kind: str = "bridge", rate: str | None = "100Mbit") -> list[Change]:
    profile = profile_of(folder, "".join(f"  - {rule}\n" for rule in rules))
    return plan_changes(profile, two_hosts(folder, kind=kind, rate=rate), ["sw0"], frame_bytes=1250)


def commands(change: Change, which: str) -> list[str]:
    batches = getattr(change, which)
    return [f"{' '.join(batch.command[:3])}: {line}" for batch in batches for line in batch.lines]


IN = "-n charkha-test-sw0"


def test_a_port_is_shaped_by_changing_its_bucket_and_back(tmp_path: Path) -> None:
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


def test_a_port_without_a_rate_gets_a_bucket_and_loses_it(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{shape: {rate: 10Mbit, queue: 50K}, port: "sw0:p1"}', rate=None)
    (start,) = commands(change, "start")
    assert "qdisc add dev p1 root handle 2: tbf rate 10000000bit" in start
    assert "limit 51200" in start
    assert commands(change, "stop") == [f"tc {IN}: qdisc del dev p1 root"]


def test_frames_wait_behind_the_shaper_and_its_queue_comes_back(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{delay: {time: 100us, jitter: 10us, reorder: 2%}, port: "sw0:p1"}')
    (start,) = commands(change, "start")
    assert start.endswith("qdisc replace dev p1 parent 2:1 handle 3: netem limit 1000000 delay 100us 10us reorder 2%")
    (stop,) = commands(change, "stop")
    assert stop.endswith("qdisc replace dev p1 parent 2:1 handle 4: bfifo limit 100000")
    assert [*change.start, *change.stop] == list(change.check)


def test_a_port_of_a_bridge_comes_back_with_its_link(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{port: "sw0:p1", state: down, start: 1, end: 2}')
    assert commands(change, "start") == [f"ip {IN}: link set dev p1 down"]
    assert commands(change, "stop") == [f"ip {IN}: link set dev p1 up"]


def test_a_router_gets_back_the_routes_that_the_kernel_forgot(tmp_path: Path) -> None:
    (change,) = changes(tmp_path, '{port: "sw0:p1", state: down}', kind="router")
    up, *rest = commands(change, "stop")
    assert up == f"ip {IN}: link set dev p1 up"
    assert any("neighbour replace 198.18.2.1 lladdr" in line and "dev p1 nud permanent" in line for line in rest)
    assert any("route replace 198.18.2.0/24 via 198.18.2.1 dev p1 onlink" in line for line in rest)
    assert not any("p0" in line for line in rest)


def test_rules_hold_for_the_device_under_test_or_for_the_ports_they_name(tmp_path: Path) -> None:
    design = make_design(load_topology(LEAF_SPINE, ranks=0), "test")

    def where(rule: str) -> list[str]:
        planned = plan_changes(profile_of(tmp_path, f"  - {rule}\n"), design, ["leaf0", "spine1"], frame_bytes=1250)
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
            "rules[0].mark.above: is a share of the rate of p0, which has none",
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
def test_what_a_lab_cannot_do_is_refused_by_file_line_and_key(
    tmp_path: Path, rules: list[str], kind: str, rate: str | None, problem: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        changes(tmp_path, *rules, kind=kind, rate=rate)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/profile.yaml:{1 + len(rules)}, ")


def test_rules_that_follow_each_other_may_change_the_same_port(tmp_path: Path) -> None:
    assert len(changes(tmp_path, "{shape: {rate: 90%}, end: 3}", "{shape: {rate: 80%}, start: 3}")) == 2
