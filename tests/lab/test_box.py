"""`charkha box` between two namespaces: rules apply to what passes, frames add up, and the interfaces come back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Finished, charkha
from tests.support.datagrams import Arrived, exchange
from tests.support.namespaces import Namespace, namespace

ENDS = ("198.18.1.1", "198.18.1.2")
COUNT, MIDDLE, LAST = 400, 0x07, 0x08


@dataclass
class Bed:
    """A machine with eth1 and eth2, a device behind each."""

    machine: Namespace
    devices: tuple[Namespace, Namespace]
    folder: Path
    box_id: str

    def box(self, *words: object) -> Finished:
        enter = ("nsenter", f"--net=/run/netns/{self.machine.name}", "--")  # `ip netns exec` would hide new namespaces
        return charkha("box", *words, cwd=self.folder, prefix=enter)

    def up(self, rules: str | None = None, *words: object) -> Finished:
        if rules is None:
            return self.box("up", "eth1", "eth2", "--id", self.box_id, *words)
        (self.folder / "p.yaml").write_text(f"rules:\n{rules}")
        return self.box("up", "eth1", "eth2", "--id", self.box_id, "--profile", "p.yaml", *words)

    def status(self) -> dict[str, Any]:
        shown = self.box("status", self.box_id, "--json")
        assert shown.code == 0, shown.stderr
        return dict(json.loads(shown.stdout))

    def frames(self, opcode: int) -> Arrived:
        one, other = self.devices
        return exchange(one.prefix, other.prefix, ENDS, count=COUNT, opcode=opcode)

    def links(self) -> list[tuple[str, int, bool, str | None, str]]:
        """What an interface of the machine is: name, MTU, whether it is up, its bridge, its queueing discipline."""
        links = json.loads(self.machine.run("ip", "-d", "-j", "link"))
        return sorted(
            (one["ifname"], one["mtu"], "UP" in one["flags"], one.get("master"), one["qdisc"])
            for one in links
            if one["ifname"].startswith("eth")
        )


@pytest.fixture
def bed(place: Namespace, tmp_path: Path) -> Iterator[Bed]:
    with namespace() as one, namespace() as other:
        for number, device in ((1, one), (2, other)):
            place.run("ip", "link", "add", f"eth{number}", "type", "veth", "peer", "name", "eth0", "netns", device.name)
            device.run("ip", "address", "add", f"{ENDS[number - 1]}/24", "dev", "eth0")
            device.run("ip", "link", "set", "dev", "eth0", "up")
        place.run("ip", "link", "set", "dev", "eth1", "up")
        made = Bed(place, (one, other), tmp_path, f"t{os.getpid()}")
        yield made
        made.box("down", made.box_id)


def test_a_rule_drops_one_frame_and_the_frames_add_up(bed: Bed) -> None:
    up = bed.up("  - {name: one, drop: {once: true}, opcode: middle}\n")
    assert up.stdout == f"Box {bed.box_id} is up between eth1 and eth2, with profile p\n"
    assert bed.frames(LAST).datagrams == COUNT
    assert bed.frames(MIDDLE).datagrams == COUNT - 1
    status = bed.status()
    came, left = (sum(port["counters"][name] for port in status["ports"]) for name in ("rx_packets", "tx_packets"))
    assert came - left == 1
    assert status["rules"] == [{"name": "one", "action": "drop once", "frames": 1}]
    assert status["totals"] == {"profile_drops": 1, "queue_drops": 0, "unaccounted": 0}
    text = bed.box("status", bed.box_id).stdout
    assert "dropped by rules 1 · by full queues 0 · duplicated 0 · not accounted for 0" in " ".join(text.split())


def test_a_direction_is_named_by_its_port(bed: Bed) -> None:
    bed.up('  - {drop: {every: 2}, opcode: last, arriving: "box:eth2"}\n')
    assert bed.frames(LAST).datagrams == COUNT, "they arrive at eth1"
    assert bed.box("apply", "p.yaml", "--id", bed.box_id).code == 0
    (bed.folder / "q.yaml").write_text('rules:\n  - {drop: {every: 2}, opcode: last, port: "box:eth2"}\n')
    assert bed.box("apply", "q.yaml", "--id", bed.box_id).stdout == f"Box {bed.box_id}, with profile q\n"
    assert bed.frames(LAST).datagrams == COUNT // 2


def test_another_profile_replaces_the_rules(bed: Bed) -> None:
    bed.up("  - {drop: {every: 2}, opcode: last}\n")
    assert bed.frames(LAST).datagrams == COUNT // 2
    assert bed.box("apply", "fw-a", "--id", bed.box_id).code == 0
    assert bed.frames(LAST).datagrams == COUNT
    status = bed.status()
    assert status["rules"] == []
    assert status["totals"] == {"profile_drops": COUNT // 2, "queue_drops": 0, "unaccounted": 0}, (
        "since the box came up"
    )


def test_the_interfaces_come_back_as_they_were(bed: Bed) -> None:
    before = bed.links()
    up = bed.up("  - {shape: {rate: 50%}}\n", "--rate", "100Mbit")
    assert up.code == 0, up.stderr
    assert bed.links() == []
    assert bed.status()["rate_bps"] == 100_000_000
    down = bed.box("down", bed.box_id)
    assert (down.code, down.stdout) == (0, f"Removed: {bed.box_id}\n")
    assert bed.links() == before
    assert bed.box("down", bed.box_id).code == 2


def test_a_profile_that_does_not_fit_leaves_the_interfaces_alone(bed: Bed) -> None:
    before = bed.links()
    refused = bed.up('  - {drop: {once: true}, port: "sw0:p1"}\n')
    assert (refused.code, refused.error) == (
        2,
        "charkha: p.yaml:2, rules[0].port: there is no switch 'sw0'; there are box",
    )
    assert (
        "counts from the start of a run, which a box does not have"
        in bed.up("  - {drop: {every: 2}, start: 1}\n").error
    )
    assert "is a share of the rate of eth1, which has no rate" in bed.up("  - {shape: {rate: 50%}}\n").error
    assert bed.links() == before
    assert bed.box("down", bed.box_id).code == 2


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("ip address add 198.18.9.1/24 dev eth1", "eth1 has address 198.18.9.1/24, which this machine would lose"),
        ("ip link set dev eth2 mtu 9000", "eth1 has MTU 1500, eth2 has 9000"),
        ("ip link delete eth2", "there is no interface 'eth2' on this machine; there are eth1"),
    ],
)
def test_an_interface_in_use_is_refused(bed: Bed, command: str, problem: str) -> None:
    bed.machine.run(*command.split())
    refused = bed.up()
    assert refused.code == 2
    assert problem in refused.error


def test_a_port_of_a_bridge_is_refused(bed: Bed) -> None:
    bed.machine.run("ip", "link", "add", "br7", "type", "bridge")
    bed.machine.run("ip", "link", "set", "dev", "eth1", "master", "br7")
    assert "eth1 belongs to br7" in bed.up().error


def test_a_box_of_that_name_is_left_alone(bed: Bed) -> None:
    assert bed.up().code == 0
    bed.machine.run("ip", "link", "add", "eth3", "type", "veth", "peer", "name", "eth4")
    again = bed.box("up", "eth3", "eth4", "--id", bed.box_id)
    assert (again.code, f"there is a box {bed.box_id} already" in again.error) == (2, True)
    assert bed.frames(LAST).datagrams == COUNT
