"""Rates, delays and links of ports as commands, and the commands that undo them."""

from pathlib import Path

import pytest

from emulator.device.lab.design import make_design
from emulator.device.profile.changes import plan_changes
from emulator.device.profile.profile import Schedule
from emulator.errors import TopologyError
from emulator.topology.load import load_topology
from tests.support.approved import approved
from tests.support.profiles import changes, commands, profile_of

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


ON_PORTS = (
    ("100Mbit", '{shape: {rate: 90%}, port: "sw0:p1"}'),
    ("100Mbit", "{shape: {rate: 50%}}"),  # several ports in one call
    ("100Mbit", '{shape: {rate: 10Mbit, queue: 100}, port: "sw0:p1"}'),  # one frame: MTU, Ethernet, FCS, preamble, gap
    ("100Mbit", '{delay: {time: 100us, jitter: 10us, reorder: 2%}, port: "sw0:p1"}'),
    (None, '{shape: {rate: 10Mbit, queue: 50K}, port: "sw0:p1"}'),
    (None, '{delay: {time: 2ms}, port: "sw0:p1"}'),
    ("100Mbit", '{port: "sw0:p1", state: down, start: 1, end: 2}'),
)


def test_commands_of_rules_on_ports_are_what_was_approved(tmp_path: Path) -> None:
    lines = []
    for rate, rule in ON_PORTS:
        (change,) = changes(tmp_path, rule, rate=rate)
        lines += [f"== {rate or 'no rate'}: {rule}"]
        lines += [line for which in ("check", "start", "stop") for line in (f"-- {which}", *commands(change, which))]
    approved("port-commands", "\n".join(lines) + "\n")
