"""`charkha lab`: every kind of switch carries a trace, and nothing is left when a lab is down."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agents.transports.roce.endpoint import folded_port
from tests.support.command import EXAMPLE, ROOT, wait_for
from tests.support.machine import Machine
from tests.support.namespaces import need_switch

LEAF_SPINE = ROOT / "topologies" / "leaf-spine-2x2.yaml"
TWO_HOSTS = ROOT / "topologies" / "two-hosts-switch.yaml"
QUICK = ("--transport", "roce", "--iterations", 1, "--warmup", 0)


def two_hosts(host: Machine, kind: str) -> Path:
    path = host.folder / f"{kind}.yaml"
    path.write_text(TWO_HOSTS.read_text().replace("kind: bridge", f"kind: {kind}"))
    return path


def status(host: Machine) -> list[dict[str, Any]]:
    return json.loads(host.charkha("lab", "status", "--json").stdout)


def bench(topology: Path, *options: object) -> tuple[object, ...]:
    return ("bench", "all_reduce", "-n", 4, "-b", "64K", "-e", "64K", "--topology", topology, *QUICK, *options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bridge", "ovs", "router"])
def test_every_kind_of_switch_carries_the_example_and_leaves_nothing(host: Machine, kind: str) -> None:
    need_switch(kind)
    before = host.traces()
    topology = two_hosts(host, kind)
    host.raise_lab(topology, "--id", "carrier")
    run = ("run", EXAMPLE, "--topology", topology, *QUICK, "--compute", "skip", "--scale-bytes", "1/16", "--out", "run")
    host.succeed(*run)

    manifest = json.loads((host.folder / "run" / "manifest.json").read_text())
    lab = manifest["topology"]["lab"]
    assert (lab["id"], [node["kind"] for node in lab["nodes"]]) == ("carrier", ["host", "host", kind])
    assert [agent["agent"] for agent in manifest["hosts"]] == ["h0", "h1"]
    assert {port["rate_bps"] for port in lab["ports"]} == {10**9}
    assert 0 < manifest["parameters"]["roce.call_bytes"]["value"] < 64 << 10  # its hosts let that pass as one piece
    switch = status(host)[0]["nodes"][2]
    payload = 2 * 4 * (1 << 20) // 16  # at least: of the data-parallel gradients alone
    assert all(port["counters"]["rx_bytes"] > payload for port in switch["ports"])
    assert all(port["counters"]["qdisc_drops"] == 0 for port in switch["ports"])

    host.succeed("lab", "down")
    assert host.traces() == before


def test_a_lab_is_there_and_gone(host: Machine) -> None:
    before = host.traces()
    host.raise_lab(TWO_HOSTS)
    assert host.charkha("lab", "exec", "h0", "sh", "-c", "exit 7").code == 7
    host.succeed(*bench(TWO_HOSTS, "--out", "run"))
    assert status(host)[0]["processes"] == 0
    assert host.charkha("lab", "down", TWO_HOSTS).stdout == "Removed: two-hosts-switch\n"
    assert host.traces() == before
    assert host.charkha("lab", "down", TWO_HOSTS).code == 2
    host.succeed("lab", "down", TWO_HOSTS, "--if-exists")


def test_pinned_and_hashed_routes_lead_where_the_topology_says(host: Machine) -> None:
    pinned = host.folder / "pinned.yaml"
    pinned.write_text(LEAF_SPINE.read_text() + "routes:\n  - {at: leaf0, to: h4, via: spine1}\n")
    host.raise_lab(pinned, "--id", "pins")
    routes = host.charkha("lab", "exec", "leaf0", "ip", "route", "show", "198.18.5.0/24").stdout
    assert routes.split() == ["198.18.5.0/24", "via", "169.254.0.12", "dev", "u1", "onlink"]
    hashed = host.charkha("lab", "exec", "leaf0", "ip", "route", "show", "198.18.6.0/24").stdout
    assert hashed.count("nexthop") == 2
    settings = "net.ipv4.fib_multipath_hash_policy", "net.ipv4.fib_multipath_hash_seed"
    values = host.charkha("lab", "exec", "leaf0", "sysctl", "-n", *settings).stdout.split()
    assert values == ["1", str(status(host)[0]["nodes"][8]["hash_seed"])]


def test_flows_take_the_paths_that_the_plan_says(host: Machine) -> None:
    host.raise_lab(LEAF_SPINE)
    asked = ("plan", "--collective", "all_to_all", "-n", "8", "-b", "8", "--topology", LEAF_SPINE, "--json")
    planned = json.loads(host.charkha(*asked).stdout)
    assert planned["hash"] == "linux"
    loads = {link["link"].split(" > ")[0]: link["hashed_bytes"] for link in planned["links"]}
    chosen: Counter[str] = Counter()
    for leaf in (0, 1):
        pairs = [(a, b) for a in range(8) for b in range(8) if a // 4 == leaf != b // 4]
        script = "\n".join(route_question(sender, receiver) for sender, receiver in pairs)
        answers = host.charkha("lab", "exec", f"leaf{leaf}", "sh", "-c", script).stdout.split()
        devices = [after for word, after in pairwise(answers) if word == "dev"]
        assert len(devices) == len(pairs)
        chosen.update(f"leaf{leaf}:{device}" for device in devices)  # each flow is a byte
    uplinks = [f"leaf{leaf}:u{spine}" for leaf in (0, 1) for spine in (0, 1)]
    assert [loads[uplink] for uplink in uplinks] == [chosen[uplink] for uplink in uplinks]


def route_question(sender: int, receiver: int) -> str:
    """The command that says where the sender's leaf sends the flow to the receiver."""
    port = folded_port(16 + 2 * receiver + 1, 16 + 2 * sender + 1)
    flow = f"from 198.18.{sender + 1}.1 iif p{sender % 4} ipproto udp sport {port} dport 4791"
    return f"ip route get 198.18.{receiver + 1}.1 {flow}"


def kill_up(host: Machine, *, namespaces: int) -> None:
    """Begin to raise a lab, and kill that when so many namespaces are there."""
    with host.started("lab", "up", LEAF_SPINE) as command:
        wait_for(lambda: len(host.namespaces()) >= namespaces or None)
        host.kill(command)


@pytest.mark.slow
@pytest.mark.parametrize("namespaces", [1, 12])
def test_of_a_killed_up_nothing_is_left_after_down(host: Machine, namespaces: int) -> None:
    before = host.traces()
    kill_up(host, namespaces=namespaces)
    assert len(host.namespaces()) >= namespaces
    host.succeed("lab", "down")
    assert host.traces() == before


@pytest.mark.slow
def test_what_a_killed_up_left_makes_way_for_the_next(host: Machine) -> None:
    before = host.traces()
    kill_up(host, namespaces=3)
    assert "incomplete" in host.charkha("lab", "exec", "h0", "true").error
    host.raise_lab(LEAF_SPINE)
    host.succeed("lab", "exec", "h0", "true")
    host.succeed("lab", "down")
    assert host.traces() == before


@pytest.mark.slow
def test_two_labs_of_one_file_stand_beside_each_other(host: Machine) -> None:
    before = host.traces()
    host.raise_lab(TWO_HOSTS, "--id", "one")
    host.raise_lab(TWO_HOSTS, "--id", "two")
    assert "--id" in host.charkha("lab", "up", LEAF_SPINE, "--id", "two").error
    undecided = host.charkha(*bench(TWO_HOSTS, "--out", "run"))
    assert (undecided.code, "one, two" in undecided.error) == (2, True)
    host.succeed(*bench(TWO_HOSTS, "--out", "run", "--lab", "two"))
    carried = {
        lab["id"]: sum(port["counters"]["rx_packets"] for port in lab["nodes"][2]["ports"]) for lab in status(host)
    }
    assert carried["one"] == 0
    assert carried["two"] > 0
    assert host.charkha("lab", "down").code == 2
    host.succeed("lab", "down", "one")
    assert [lab["id"] for lab in status(host)] == ["two"]
    host.succeed("lab", "down", "--all")
    assert host.traces() == before


def test_a_topology_without_its_lab_is_refused_at_once(host: Machine) -> None:
    finished = host.charkha(*bench(TWO_HOSTS, "--out", "run"))
    assert finished.code == 3
    assert f"`charkha lab up {TWO_HOSTS}`" in finished.error


def test_traffic_that_would_leave_elsewhere_is_refused(host: Machine) -> None:
    host.raise_lab(TWO_HOSTS)
    host.succeed("lab", "exec", "h0", "ip", "route", "replace", "local", "198.18.2.0/24", "dev", "lo")
    finished = host.charkha(*bench(TWO_HOSTS, "--out", "run"))
    assert finished.code == 2
    assert "would leave through lo, not through eth0" in finished.error


@pytest.mark.slow
def test_a_killed_run_leaves_no_process_in_the_lab(host: Machine) -> None:
    host.raise_lab(TWO_HOSTS)
    with host.started(*bench(TWO_HOSTS, "--out", "run", "--iterations", 1_000_000)) as command:
        wait_for(lambda: status(host)[0]["processes"] == 2 or None)
        host.kill(command)
        wait_for(lambda: status(host)[0]["processes"] == 0 or None)


def test_what_two_cores_cannot_carry_is_refused_unless_forced(host: Machine) -> None:
    refused = host.charkha("lab", "up", ROOT / "topologies" / "rail-4x4.yaml")
    assert refused.code == 3
    assert "--force" in refused.error
    assert host.namespaces() == []
    host.succeed("lab", "up", ROOT / "topologies" / "rail-4x4.yaml", "--force")
    assert status(host)[0]["tester_limited"]
    assert host.charkha("lab", "exec", "h0", "ip", "route", "get", "198.18.2.4", "from", "198.18.2.1").stdout.split()[
        :6
    ] == ["198.18.2.4", "from", "198.18.2.1", "via", "169.254.0.9", "dev"]
