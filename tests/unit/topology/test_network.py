"""Drawn networks: interfaces, links, routes, the device under test, and the next hops that follow from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import PlanError, TopologyError
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback
from emulator.topology.network import ASSUMED_SWITCH, End
from emulator.topology.paths import Paths

TOPOLOGIES = Path(__file__).parents[3] / "topologies"
GBIT = 10**9
TWO = """hosts:
  - {name: h0, address: 10.0.0.1}
  - {name: h1, interfaces: [{name: eth0, address: 10.0.0.2}, {name: eth1, addresses: [10.0.0.3, 10.0.0.4]}]}
switches:
  - {name: s0, kind: router}
links:
  - {endpoints: ["h0:eth0", "s0:p0"], rate: 1Gbit, mtu: 9000, latency: 1.5us}
  - {endpoints: ["s0:p1", "h1:eth0"], rate: 2Gbit}
  - {endpoints: ["h1:eth1", "s0:p2"]}
"""


def load(tmp_path: Path, text: str, *, ranks: int = 3) -> Topology:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return load_topology(path, ranks=ranks)


def places(topology: Topology) -> list[str]:
    return [f"{topology.host_of(rank).name}:{topology.interface_of(rank).name}" for rank in range(topology.ranks)]


def vias(paths: Paths, switch: str, host: str, interface: str | None = None) -> list[str]:
    return [link.other(switch).node for link in paths.next_hops(switch, host, interface)]


def test_what_a_link_says_its_interfaces_know(tmp_path: Path) -> None:
    topology = load(tmp_path, TWO, ranks=4)
    assert [topology.rate_bps(rank) for rank in range(4)] == [GBIT, GBIT, 2 * GBIT, None]
    assert (topology.interface_of(0).mtu, topology.network.links[0].latency_ns) == (9000, 1500)
    assert [host.rate_bps for host in topology.hosts] == [GBIT, None]
    assert topology.network.switch("s0").kind == "router"


def test_ranks_of_a_host_take_its_interfaces_in_turn(tmp_path: Path) -> None:
    topology = load(tmp_path, TWO.replace("10.0.0.1}", "10.0.0.1, slots: 1}"), ranks=6)
    assert places(topology) == ["h0:eth0", "h1:eth0", "h1:eth1", "h1:eth0", "h1:eth1", "h1:eth0"]
    assert topology.addresses == ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.2", "10.0.0.4", "10.0.0.2")
    assert topology.port_of(4) == (1, 1)


def test_a_map_may_name_the_interface(tmp_path: Path) -> None:
    topology = load(tmp_path, TWO + "placement: {0: 'h1:eth1', 1: h1, 2: 'h1:eth1'}\n")
    assert places(topology) == ["h1:eth1", "h1:eth0", "h1:eth1"]
    with pytest.raises(PlanError, match="h1:eth1 has addresses for 2 ranks only"):
        load(tmp_path, TWO + "placement: {0: 'h1:eth1', 1: 'h1:eth1', 2: 'h1:eth1'}\n")


@pytest.mark.parametrize(("ranks", "first_of_h1"), [(3, None), (6, 4), (16, 4), (24, 8)])
def test_on_rails_a_rank_modulo_interfaces_is_its_rail(ranks: int, first_of_h1: int | None) -> None:
    topology = load_topology(TOPOLOGIES / "rail-4x4.yaml", ranks=ranks)
    assert [topology.port_of(rank)[1] for rank in range(ranks)] == [rank % 4 for rank in range(ranks)]
    hosts = [topology.host_of(rank).name for rank in range(ranks)]
    assert (hosts.index("h1") if "h1" in hosts else None) == first_of_h1
    assert hosts == sorted(hosts)


def test_without_links_all_hosts_are_at_one_switch() -> None:
    network = load_topology(TOPOLOGIES / "two-hosts.yaml", ranks=2).network
    assert not network.is_drawn
    assert [link.ends[1].node for link in network.links] == [ASSUMED_SWITCH] * 2
    assert [link.rate_bps for link in network.links] == [100 * GBIT] * 2
    assert len(default_loopback(3).network.links) == 1


def test_the_boundary_of_a_device_is_where_links_leave_it() -> None:
    leaf_spine = load_topology(TOPOLOGIES / "leaf-spine-2x2.yaml", ranks=0).dut
    nic = load_topology(TOPOLOGIES / "nic-back-to-back.yaml", ranks=0).dut
    assert leaf_spine is not None
    assert nic is not None
    assert [str(port) for port in leaf_spine.ports] == [f"leaf{h // 4}:p{h % 4}" for h in range(8)]
    assert nic.ports == (End("server", "eth1"),)


def test_agents_transport_and_device_are_as_written(tmp_path: Path) -> None:
    more = "agents: {h0: west}\ntransport: {name: roce, mtu: 1024}\ndut: {kind: switch, vendor: V, ports: ['s0:p1']}\n"
    topology = load(tmp_path, TWO + more)
    assert topology.agents == {"h0": "west"}
    assert topology.transport == {"name": "roce", "mtu": 1024}
    assert topology.dut is not None
    assert (topology.dut.vendor, topology.dut.firmware, topology.dut.ports) == ("V", None, (End("s0", "p1"),))


def test_equal_cost_next_hops_lie_on_shortest_paths() -> None:
    paths = Paths(load_topology(TOPOLOGIES / "leaf-spine-2x2.yaml", ranks=0).network)
    assert vias(paths, "leaf0", "h5") == ["spine0", "spine1"]
    assert vias(paths, "leaf0", "h3") == ["h3"]
    assert vias(paths, "spine1", "h5") == ["leaf1"]


def test_interfaces_of_a_host_have_paths_of_their_own() -> None:
    paths = Paths(load_topology(TOPOLOGIES / "rail-4x4.yaml", ranks=0).network)
    assert vias(paths, "rail0", "h2", "eth0") == ["h2"]
    assert vias(paths, "rail0", "h2", "eth3") == ["spine0"]


def test_routes_go_before_equal_cost_paths(tmp_path: Path) -> None:
    text = (TOPOLOGIES / "leaf-spine-2x2.yaml").read_text()
    routes = "routes:\n  - {at: leaf0, to: h4, via: spine1}\n  - {at: leaf0, to: 'h5:eth0', via: [spine0]}\n"
    paths = Paths(load(tmp_path, text + routes, ranks=0).network)
    assert [vias(paths, "leaf0", host) for host in ("h4", "h5", "h6")] == [["spine1"], ["spine0"], ["spine0", "spine1"]]


def test_parallel_links_are_as_many_next_hops_and_islands_have_none(tmp_path: Path) -> None:
    text = """hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}, {name: c, address: 10.0.0.3}]
switches: [{name: s}, {name: t}, {name: u}]
links:
  - endpoints: ["a:eth0", "s:0"]
  - endpoints: ["s:1", "t:1"]
  - endpoints: ["t:2", "s:2"]
  - endpoints: ["t:0", "b:eth0"]
  - endpoints: ["c:eth0", "u:0"]
"""
    paths = Paths(load(tmp_path, text).network)
    assert vias(paths, "s", "b") == ["t", "t"]
    assert vias(paths, "s", "c") == []


def test_a_longer_way_is_no_next_hop(tmp_path: Path) -> None:
    text = """hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]
switches: [{name: s}, {name: t}, {name: u}]
links:
  - endpoints: ["a:eth0", "s:0"]
  - endpoints: ["b:eth0", "t:0"]
  - endpoints: ["s:1", "t:1"]
  - endpoints: ["s:2", "u:1"]
  - endpoints: ["t:2", "u:2"]
  - endpoints: ["s:3", "u:3"]
"""
    paths = Paths(load(tmp_path, text).network)
    assert vias(paths, "s", "b") == ["t"]
    assert vias(paths, "u", "a") == ["s", "s"]


def test_a_fabric_is_drawn_from_a_few_numbers(tmp_path: Path) -> None:
    text = "fabric: {leaves: 3, spines: 2, hosts_per_leaf: 4, interfaces: 2, rate: 1Gbit, uplink_rate: 4Gbit}"
    topology = load(tmp_path, text, ranks=24)
    network = topology.network
    assert (len(topology.hosts), len(network.switches), len(network.links)) == (12, 5, 24 + 6)
    assert len(set(topology.addresses)) == 24
    assert vias(Paths(network), "leaf0", "h11", "eth1") == ["spine0", "spine1"]
    assert network.links[-1].rate_bps == 4 * GBIT


def test_a_fabric_with_rails_has_a_leaf_per_interface(tmp_path: Path) -> None:
    text = "fabric: {leaves: 4, spines: 1, hosts_per_leaf: 3, interfaces: 2, rails: true, rate: 1Gbit}"
    topology = load(tmp_path, text, ranks=0)
    assert len(topology.hosts) == 6
    ends = {str(link.ends[0]): link.ends[1].node for link in topology.network.links}
    assert [ends[port] for port in ("h0:eth0", "h0:eth1", "h2:eth1", "h3:eth0", "h5:eth1")] == [
        "leaf0", "leaf1", "leaf1", "leaf2", "leaf3"
    ]  # fmt: skip


LINK = '  - {endpoints: ["h0:eth0", "s0:p0"], rate: 1Gbit, mtu: 9000, latency: 1.5us}\n'


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        (TWO.replace("s0:p1", "s7:p1"), "links[1].endpoints[0]", "no node 's7'; there are h0, h1, s0"),
        (TWO.replace("h1:eth1", "h1:eth7"), "links[2].endpoints[0]", "host h1 has no interface 'eth7'"),
        (TWO.replace("s0:p1", "s0:p0"), "links[1].endpoints[0]", "a link is plugged into s0:p0 already"),
        (TWO.replace("s0:p1", "s0"), "links[1].endpoints[0]", "'s0' is not an end of a link"),
        (TWO.replace('"s0:p0"', '"h0:eth0"'), "links[0].endpoints[1]", "plugged into h0:eth0 already"),
        (TWO.replace(LINK, ""), "links", "no link is plugged into h0:eth0"),
        (TWO.replace("10.0.0.1}", "10.0.0.1, rate: 3Gbit}"), "links[0]", "differ in their rate: 1000000000 and 30"),
        (TWO.replace("1.5us", "1.5 years"), "links[0].latency", "'1.5 years' is not a time"),
        (TWO.replace("rate: 2Gbit", "rate: 2"), "links[1].rate", "not of type 'string'"),
        (TWO.replace("rate: 2Gbit", "rate: 2 Gigs"), "links[1].rate", "not a rate"),
        (TWO.replace("name: s0", "name: h1"), "switches[0].name", "a node named 'h1' is there already"),
        (TWO.replace("name: eth1", "name: eth0"), "hosts[1].interfaces[1].name", "named 'eth0' is there already"),
        (TWO.replace("{name: eth0, address", "{name: eth0, addres"), "hosts[1].interfaces[0]", "'addres' was unex"),
        (TWO.split("switches")[0] + "switches: [{name: s0}]\n", "switches", "means nothing without links"),
        (TWO + "routes: [{at: h0, to: h1, via: s0}]\n", "routes[0].at", "no switch 'h0'"),
        (TWO + "routes: [{at: s0, to: h9, via: h1}]\n", "routes[0].to", "no host 'h9'"),
        (TWO + "routes: [{at: s0, to: 'h1:eth9', via: h1}]\n", "routes[0].to", "has no interface 'eth9'"),
        (TWO + "routes: [{at: s0, to: h1, via: s9}]\n", "routes[0].via", "no neighbour of s0 's9'; there are h0, h1"),
        (TWO + "dut: {kind: switch, nodes: [s1]}\n", "dut.nodes[0]", "no node 's1'"),
        (TWO + "dut: {kind: switch, ports: ['s0:p9']}\n", "dut.ports[0]", "no link is plugged into s0:p9"),
        (TWO + "dut: {kind: toaster}\n", "dut.kind", "'toaster' is not one of"),
        (TWO + "agents: {h9: x}\n", "agents.h9", "no host 'h9'"),
        (TWO + "transport: {name: carrier-pigeon}\n", "transport.name", "'carrier-pigeon' is not one of"),
        (TWO + "placement: {0: 'h1:eth9'}\n", "placement.0", "host h1 has no interface 'eth9'"),
        (TWO + "fabric: {leaves: 1, spines: 1, hosts_per_leaf: 1, rate: 1Gbit}\n", None, "either hosts or a fabric"),
        ("name: x\n", None, "either hosts or a fabric"),
        ("fabric: {leaves: 1, spines: 1, hosts_per_leaf: 1}\n", "fabric", "'rate' is a required property"),
        ("fabric: {leaves: 2, spines: 1, hosts_per_leaf: 9, rate: 1Gbit, addresses: 10.0.0.0/28}\n",
         "fabric.addresses", "10.0.0.0/28 has no 18 addresses"),
        ("fabric: {leaves: 2, spines: 1, hosts_per_leaf: 9, rate: 1Gbit, addresses: 8.0.0.0/8}\n",
         "fabric.addresses", "--allow-network"),
        ("fabric: {leaves: 3, spines: 1, hosts_per_leaf: 9, interfaces: 2, rails: true, rate: 1Gbit}\n",
         "fabric.leaves", "pods of 2"),
        ("fabric: {leaves: 3, spines: 1, hosts_per_leaf: 9, rate: 1Gbit}\nlinks: [{endpoints: ['a:b', 'c:d']}]\n",
         "links", "cannot be written beside it"),
    ],
)  # fmt: skip
def test_a_wrong_drawing_is_named_with_line_and_key(tmp_path: Path, text: str, key: str | None, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load(tmp_path, text)
    assert problem in str(caught.value)
    assert (caught.value.key, caught.value.path) == (key, tmp_path / "t.yaml")
    assert caught.value.line
