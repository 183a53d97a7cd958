"""The manifest says which network and which device were tested."""

import hashlib
import json
from pathlib import Path

import pytest

from emulator.controller.recording.topology_description import describe_dut, describe_path, describe_topology
from emulator.topology.load import load_topology
from emulator.topology.model import default_loopback
from tests.support.topologies import SHIPPED, shipped_topology


def test_the_network_is_described_with_rates_and_mtu_and_the_files_digest() -> None:
    path = SHIPPED / "two-hosts-switch.yaml"
    described = json.loads(json.dumps(describe_topology(load_topology(path, ranks=2))))
    assert described["digest"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert described["network"]["switches"] == [{"name": "sw0", "kind": "bridge", "queue_bytes": None}]
    (first, _) = described["network"]["links"]
    assert first["ends"] == ["h0:eth0", "sw0:p0"]
    assert first["rate_bps"] == described["hosts"][0]["interfaces"][0]["rate_bps"] > 0
    assert first["mtu"] == 1500
    assert described["addresses"] == ["198.18.1.1", "198.18.2.1"]


def test_a_routing_protocol_of_the_routers_is_described() -> None:
    described = describe_topology(shipped_topology("leaf-spine-bgp", ranks=2))["network"]
    assert described["routing"] == {"protocol": "bgp", "bfd": {"interval_ns": 50_000_000, "multiplier": 3}}
    assert "routing" not in describe_topology(shipped_topology("leaf-spine-2x2", ranks=2))["network"]


def test_the_device_is_described_by_what_the_file_says_and_its_boundary() -> None:
    assert describe_dut(shipped_topology("nic-back-to-back", ranks=2)) == {
        "name": "server",
        "kind": "nic",
        "vendor": "unknown",
        "model": "unknown",
        "firmware": "unknown",
        "nodes": ["server"],
        "ports": ["server:eth1"],
    }


def test_what_the_file_leaves_out_is_null() -> None:
    dut = describe_dut(shipped_topology("leaf-spine-2x2", ranks=8))
    assert dut["name"] == "leaf0, leaf1, spine0, spine1"
    assert [dut[fact] for fact in ("vendor", "model", "firmware")] == [None, None, None]
    assert dut["ports"] == [f"leaf{leaf}:p{port}" for leaf in (0, 1) for port in range(4)]


def test_without_a_file_there_is_neither_a_network_nor_a_device() -> None:
    topology = default_loopback(2)
    assert describe_dut(topology) == {}
    assert (describe_topology(topology)["network"], describe_topology(topology)["digest"]) == (None, None)


def test_a_device_named_by_its_ports_is_named_after_the_topology(tmp_path: Path) -> None:
    text = (SHIPPED / "two-hosts-switch.yaml").read_text()
    path = tmp_path / "lab.yaml"
    path.write_text(text.replace("nodes: [sw0]", 'ports: ["sw0:p0", "sw0:p1"]'))
    dut = describe_dut(load_topology(path, ranks=2))
    assert (dut["name"], dut["nodes"], dut["ports"]) == ("two-hosts-switch", [], ["sw0:p0", "sw0:p1"])


@pytest.mark.parametrize(
    ("topology", "source", "target", "path"),
    [
        ("two-hosts-switch", 0, 1, "h0:eth0 - sw0 (p0 to p1) - h1:eth0"),
        ("leaf-spine-2x2", 0, 1, "h0:eth0 - leaf0 (p0 to p1) - h1:eth0"),
        (
            "leaf-spine-2x2",
            0,
            7,
            "h0:eth0 - leaf0 (p0 to u0, u1) - spine0, spine1 (d0, d0 to d1, d1) - leaf1 (u0, u1 to p3) - h7:eth0",
        ),
        ("nic-back-to-back", 0, 1, "tester:eth1 - server:eth1"),
        ("loopback", 0, 1, None),
    ],
)
def test_the_way_between_two_ranks(topology: str, source: int, target: int, path: str | None) -> None:
    ranks = 8 if topology.startswith("leaf") else 2
    assert describe_path(shipped_topology(topology, ranks=ranks), source, target) == path


def test_the_way_is_one_where_the_links_are_known() -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    chosen = [link for link in topology.network.links if "spine1" in (link.ends[0].node, link.ends[1].node)]
    expected = "h0:eth0 - leaf0 (p0 to u1) - spine1 (d0 to d1) - leaf1 (u1 to p3) - h7:eth0"
    assert describe_path(topology, 0, 7, among=chosen) == expected


def test_ranks_of_one_host_have_no_way() -> None:
    topology = shipped_topology("two-hosts-switch", ranks=4)
    assert describe_path(topology, 0, 1) is None
