"""`charkha lab up --between` two ports: rules apply to what passes, frames add up, and the interfaces come back."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emulator.device.lab.state import BOXES, LABS
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
    lab_id: str

    def lab(self, *words: object, command: str = "lab") -> Finished:
        enter = ("nsenter", f"--net=/run/netns/{self.machine.name}", "--")  # `ip netns exec` would hide new namespaces
        return charkha(command, *words, cwd=self.folder, prefix=enter)

    def up(self, rules: str | None = None, *words: object) -> Finished:
        profile: tuple[str, ...] = ()
        if rules is not None:
            (self.folder / "p.yaml").write_text(f"rules:\n{rules}")
            profile = ("--profile", "p.yaml")
        return self.lab("up", "--between", "eth1", "eth2", "--id", self.lab_id, *profile, *words)

    def status(self) -> dict[str, Any]:
        shown = self.lab("status", self.lab_id, "--json")
        assert shown.code == 0, shown.stderr
        (lab,) = json.loads(shown.stdout)
        return dict(lab["between"])

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
        made.lab("down", made.lab_id)


def test_a_rule_drops_one_frame_and_the_frames_add_up(bed: Bed) -> None:
    up = bed.up("  - {name: one, drop: {once: true}, opcode: middle}\n")
    assert up.stdout == f"Lab {bed.lab_id} is up between eth1 and eth2, with profile p\n"
    assert bed.frames(LAST).datagrams == COUNT
    assert bed.frames(MIDDLE).datagrams == COUNT - 1
    status = bed.status()
    came, left = (sum(port["counters"][name] for port in status["ports"]) for name in ("rx_packets", "tx_packets"))
    assert came - left == 1
    assert status["rules"] == [{"name": "one", "action": "drop once", "frames": 1}]
    assert status["totals"] == {"profile_drops": 1, "queue_drops": 0, "unaccounted": 0}
    text = bed.lab("status", bed.lab_id).stdout
    assert "dropped by rules 1 · by full queues 0 · duplicated 0 · not accounted for 0" in " ".join(text.split())


def test_a_direction_is_named_by_its_port(bed: Bed) -> None:
    bed.up('  - {drop: {every: 2}, opcode: last, arriving: "box:eth2"}\n')
    assert bed.frames(LAST).datagrams == COUNT, "they arrive at eth1"
    (bed.folder / "q.yaml").write_text('rules:\n  - {drop: {every: 2}, opcode: last, port: "box:eth2"}\n')
    again = bed.up(None, "--profile", "q.yaml")
    assert again.stdout == f"Lab {bed.lab_id} was up already between eth1 and eth2, with profile q\n"
    assert bed.frames(LAST).datagrams == COUNT // 2


def test_another_profile_replaces_the_rules(bed: Bed) -> None:
    bed.up("  - {drop: {every: 2}, opcode: last}\n")
    assert bed.frames(LAST).datagrams == COUNT // 2
    assert bed.up(None, "--profile", "fw-a").code == 0
    assert bed.frames(LAST).datagrams == COUNT
    status = bed.status()
    assert status["rules"] == []
    assert status["totals"] == {"profile_drops": COUNT // 2, "queue_drops": 0, "unaccounted": 0}, (
        "since the lab came up"
    )


def test_the_interfaces_come_back_as_they_were(bed: Bed) -> None:
    before = bed.links()
    up = bed.up("  - {shape: {rate: 50%}}\n", "--rate", "100Mbit")
    assert up.code == 0, up.stderr
    assert bed.links() == []
    assert bed.status()["rate_bps"] == 100_000_000
    down = bed.lab("down", bed.lab_id)
    assert (down.code, down.stdout) == (0, f"Removed: {bed.lab_id}\n")
    assert bed.links() == before
    assert bed.lab("down", bed.lab_id).code == 2


def test_a_profile_that_does_not_fit_leaves_the_interfaces_alone(bed: Bed) -> None:
    before = bed.links()
    refused = bed.up('  - {drop: {once: true}, port: "sw0:p1"}\n')
    assert (refused.code, refused.error) == (
        2,
        "charkha: p.yaml:2, rules[0].port: there is no switch 'sw0'; there are box",
    )
    assert (
        "counts from the start of a run, which a lab between two ports does not have"
        in bed.up("  - {drop: {every: 2}, start: 1}\n").error
    )
    assert "is a share of the rate of eth1, which has no rate" in bed.up("  - {shape: {rate: 50%}}\n").error
    assert bed.links() == before
    assert bed.lab("down", bed.lab_id).code == 2


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


def test_a_lab_of_that_name_is_left_alone(bed: Bed) -> None:
    assert bed.up().code == 0
    bed.machine.run("ip", "link", "add", "eth3", "type", "veth", "peer", "name", "eth4")
    again = bed.lab("up", "--between", "eth3", "eth4", "--id", bed.lab_id)
    assert (again.code, f"lab {bed.lab_id} is already up" in again.error) == (2, True)
    assert bed.frames(LAST).datagrams == COUNT


def test_the_old_words_do_the_same(bed: Bed) -> None:
    before = bed.links()
    (bed.folder / "p.yaml").write_text("rules:\n  - {name: one, drop: {once: true}, opcode: last}\n")
    words = ("up", "eth1", "eth2", "--id", bed.lab_id, "--profile", "fw-a", "--rate", "1Gbit")
    assert bed.lab(*words, command="box").stdout == f"Lab {bed.lab_id} is up between eth1 and eth2, with profile fw-a\n"
    applied = bed.lab("apply", "p.yaml", "--id", bed.lab_id, command="box")
    assert applied.stdout == f"Box {bed.lab_id}, with profile p\n"
    assert bed.frames(LAST).datagrams == COUNT - 1
    status = json.loads(bed.lab("status", bed.lab_id, "--json", command="box").stdout)
    keys = ["id", "namespace", "created", "rate_bps", "profile", "ports", "rules", "totals"]
    assert (list(status), status["id"], status["rate_bps"]) == (keys, bed.lab_id, 10**9)
    assert status["rules"] == [{"name": "one", "action": "drop once", "frames": 1}]
    assert f"box {bed.lab_id}, with profile p" in bed.lab("status", bed.lab_id, command="box").stdout
    assert bed.lab("down", bed.lab_id, command="box").stdout == f"Removed: {bed.lab_id}\n"
    assert bed.links() == before


def test_a_box_of_an_older_version_is_removed(bed: Bed) -> None:
    before = bed.links()
    assert bed.up().code == 0
    state = LABS / bed.lab_id / "state.json"
    document = json.loads(state.read_text())
    older = LABS.parent / BOXES / bed.lab_id
    older.mkdir(parents=True)
    box = {"box_id": bed.lab_id, "created": document["created"], **document["between"]}
    (older / "box.json").write_text(json.dumps(box))
    shutil.rmtree(state.parent)
    assert bed.status()["totals"]["unaccounted"] == 0
    assert bed.lab("down", bed.lab_id).stdout == f"Removed: {bed.lab_id}\n"
    assert (bed.links(), older.exists()) == (before, False)
