"""From a design to batches of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.device.lab.design import make_design
from emulator.device.lab.recipe import cables, node_batches, restored, shaping_batch
from emulator.device.lab.shaping import shape
from emulator.topology.load import load_topology

TOPOLOGIES = Path(__file__).parents[4] / "topologies"


def shipped(name: str):
    return load_topology(TOPOLOGIES / f"{name}.yaml", ranks=0)


def lines_of(name: str, node: str) -> list[str]:
    design = make_design(shipped(name), "x")
    return [line for batch in node_batches(design.node(node), design) for line in batch.lines]


def test_cables_begin_and_end_in_namespaces() -> None:
    batch = cables(make_design(shipped("two-hosts-switch"), "x"))
    assert batch.lines[:3] == ["netns add charkha-x-h0", "netns add charkha-x-h1", "netns add charkha-x-sw0"]
    assert batch.lines[3].startswith(
        "link add name eth0 mtu 1500 address 02:c4:00:00:00:00 netns charkha-x-h0 type veth"
    )
    assert batch.lines[3].endswith("peer name p0 mtu 1500 address 02:c4:00:00:00:01 netns charkha-x-sw0")


def test_a_bridge_forwards_without_asking_other_filters() -> None:
    design = make_design(shipped("two-hosts-switch"), "x")
    asked = [batch.command for batch in node_batches(design.node("sw0"), design)]
    (command,) = [one for one in asked if "net.bridge.bridge-nf-call-iptables=0" in one]
    assert {"net.bridge.bridge-nf-call-ip6tables=0", "net.bridge.bridge-nf-call-arptables=0"} < set(command)
    assert "-e" in command, "where br_netfilter is not loaded there is no such setting"


@pytest.mark.parametrize(
    ("name", "node", "rate_bps"),
    [("eight-hosts-switch", "h0", 10**8), ("eight-hosts-switch", "sw0", 10**8), ("two-hosts-switch", "sw0", 10**9)],
)
def test_slow_hosts_and_switches_cut_to_frames_before_they_count(name: str, node: str, rate_bps: int) -> None:
    cutter, shaper, *_ = shaping_batch(make_design(shipped(name), "x").node(node)).lines
    assert "root handle 1: tbf" in cutter
    assert "burst 1514 " in cutter
    assert f"parent 1:1 handle 2: tbf rate {rate_bps}bit" in shaper
    assert shaper.endswith("overhead 24")


def test_a_fast_host_counts_what_is_handed_over_as_one_in_proportion() -> None:
    cutter, shaper = shaping_batch(make_design(shipped("two-hosts-switch"), "x").node("h0")).lines
    burst = shape(10**9, mtu=1500, is_host=True).burst_bytes  # type: ignore[union-attr]
    assert f"root handle 1: tbf rate 100000000000bit burst {burst} " in cutter
    assert f"parent 1:1 handle 2: tbf rate {10**9 * 1082 // 1106}bit burst {burst} " in shaper  # of 1,024 B of payload
    assert shaper.endswith("overhead 0")


def test_hosts_with_several_ports_choose_by_source() -> None:
    lines = lines_of("rail-4x4", "h0")
    assert "rule add from 198.18.2.1/32 table 1002" in lines
    routes = [line.split() for line in lines if line.startswith("route replace 198.18.3.4/32")]
    assert [(words[words.index("dev") + 1], words[-1]) for words in routes] == [
        ("eth0", "1000"),
        ("eth1", "1001"),
        ("eth2", "1002"),
        ("eth3", "1003"),
        ("eth0", "onlink"),  # who is bound to no address
    ]


def test_a_router_spreads_by_ports_with_the_seed_of_the_topology() -> None:
    design = make_design(shipped("leaf-spine-2x2"), "x")
    node = design.node("leaf0")
    settings = next(node_batches(node, design)).command
    assert "net.ipv4.fib_multipath_hash_policy=1" in settings
    assert f"net.ipv4.fib_multipath_hash_seed={node.hash_seed}" in settings
    assert "net.ipv6.conf.all.disable_ipv6=1" in settings  # the kernel's own frames would be counted by the DUT
    route = next(line for line in lines_of("leaf-spine-2x2", "leaf0") if line.startswith("route replace 198.18.5.0/24"))
    assert route.count("nexthop via") == 2


def test_a_port_that_was_down_gets_back_what_the_kernel_deleted_with_it() -> None:
    host = make_design(shipped("two-hosts-switch"), "x").node("h0")
    neighbour = host.neighbours[0]
    assert list(restored(host, {"eth0"})) == [
        "address replace 198.18.1.1/32 dev eth0",
        "route replace local 198.18.1.0/24 dev eth0 table local",
        f"neighbour replace 198.18.2.1 lladdr {neighbour.mac} dev eth0 nud permanent",
        "route replace 198.18.2.0/24 via 198.18.2.1 dev eth0 onlink",
    ]
    assert list(restored(host, set())) == []


def test_no_route_leads_through_a_port_that_is_still_down() -> None:
    leaf = make_design(shipped("leaf-spine-2x2"), "x").node("leaf0")
    up = {port.device for port in leaf.ports} - {"u1"}
    lines = list(restored(leaf, up))
    assert "route replace 198.18.5.0/24 via 169.254.0.13 dev u0 onlink" in lines
    assert not any("dev u1" in line for line in lines)


IPV6_ROUTER = """
hosts:
  - {name: h0, per_rank: "2001:db8:1::/64"}
  - {name: h1, per_rank: "2001:db8:2::/64"}
switches: [{name: sw0, kind: router}]
links:
  - {endpoints: ["h0:eth0", "sw0:p0"]}
  - {endpoints: ["h1:eth0", "sw0:p1"]}
"""


def test_a_router_of_ipv6_gets_its_addresses_back(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(IPV6_ROUTER)
    node = make_design(load_topology(path, ranks=0, allow_networks=["2001:db8::/32"]), "test").node("sw0")
    lines = list(restored(node, {"p1"}))
    assert {f"address replace {one} dev p1 nodad" for one in node.port("p1").addresses if ":" in one} < set(lines)
    assert any(line.startswith("-6 neighbour replace") for line in lines)
    assert any(line.startswith("-6 route replace") for line in lines)
    assert not any(" p0" in line for line in lines)
