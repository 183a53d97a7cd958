"""Switches, links and routes of a file, and what is reported when they do not fit together."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.topology.links import LeafSpine
from emulator.topology.model import Domain
from emulator.topology.network import Bfd, Route, Routing, Switch
from emulator.topology.paths import Paths
from tests.support.topologies import topology_error, write_topology

GBIT = 10**9
LINK = '  - {endpoints: ["h0:eth0", "s0:p0"], rate: 1Gbit, mtu: 9000, latency: 1.5us}\n'
ROUTING = "routing", "{protocol: bgp}"
TWO = f"""hosts:
  - {{name: h0, address: 10.0.0.1}}
  - {{name: h1, interfaces: [{{name: eth0, address: 10.0.0.2}}, {{name: eth1, addresses: [10.0.0.3, 10.0.0.4]}}]}}
switches:
  - {{name: s0, kind: router}}
links:
{LINK}  - {{endpoints: ["s0:p1", "h1:eth0"], rate: 2Gbit}}
  - {{endpoints: ["h1:eth1", "s0:p2"]}}
"""


def test_facts_of_a_link_apply_to_its_interfaces(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, TWO, ranks=4)
    assert [topology.rate_bps(rank) for rank in range(4)] == [GBIT, GBIT, 2 * GBIT, None]
    assert (topology.interface_of(0).mtu, topology.network.links[0].latency_ns) == (9000, 1500)
    assert [host.rate_bps for host in topology.hosts] == [GBIT, None]


def test_facts_of_an_interface_apply_to_its_link(tmp_path: Path) -> None:
    text = TWO.replace("10.0.0.3, 10.0.0.4]}", "10.0.0.3, 10.0.0.4], rate: 3Gbit, mtu: 1500}")
    link = write_topology(tmp_path, text).network.links[2]
    assert (link.rate_bps, link.mtu) == (3 * GBIT, 1500)


def test_switches_have_a_kind_and_may_have_a_queue(tmp_path: Path) -> None:
    text = TWO.replace("kind: router}", "queue: 1M}\n  - {name: s1, kind: ovs}")
    assert write_topology(tmp_path, text).network.switches == (Switch("s0", "bridge", 1 << 20), Switch("s1", "ovs"))


def test_routes_name_a_host_or_one_of_its_interfaces(tmp_path: Path) -> None:
    routes = "routes:\n- {at: s0, to: h1, via: h1}\n- {at: s0, to: 'h1:eth1', via: [h1, h0]}\necmp: {seed: 7}\n"
    network = write_topology(tmp_path, TWO + routes).network
    assert network.routes == (Route("s0", "h1", ("h1",)), Route("s0", "h1", ("h1", "h0"), "eth1"))
    assert network.ecmp_seed == 7


@pytest.mark.parametrize(
    ("text", "bfd"),
    [
        ("{protocol: bgp}", None),
        ("{protocol: bgp, bfd: {}}", Bfd(50_000_000, 3)),
        ("{protocol: bgp, bfd: {interval: 0.3s, multiplier: 5}}", Bfd(300_000_000, 5)),
    ],
)
def test_routers_may_run_a_routing_protocol(tmp_path: Path, text: str, bfd: Bfd | None) -> None:
    for topology in (TWO, fabric()):
        assert write_topology(tmp_path, f"{topology}routing: {text}\n").network.routing == Routing("bgp", bfd)


def test_without_links_there_is_no_network(tmp_path: Path) -> None:
    assert write_topology(tmp_path, "hosts: [{name: h0, address: 10.0.0.1}]\n").drawn is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TWO.replace("s0:p1", "s7:p1"), "t.yaml:8, links[1].endpoints[0]: there is no node 's7'; there are h0, h1, s0"),
        (TWO.replace("h1:eth1", "h1:eth7"), "t.yaml:9, links[2].endpoints[0]: host h1 has no interface 'eth7'"),
        (TWO.replace("s0:p1", "s0:p0"), "t.yaml:8, links[1].endpoints[0]: s0:p0 already has a link"),
        (TWO.replace('"s0:p0"', '"h0:eth0"'), "t.yaml:7, links[0].endpoints[1]: h0:eth0 already has a link"),
        (TWO.replace("h0:eth0", "s0:p9"), "t.yaml:7, links[0]: connects s0 to itself"),
        (TWO.replace(LINK, ""), "t.yaml:7, links: no link is connected to h0:eth0"),
        (TWO.replace('["s0:p1", "h1:eth0"]', '["s0:p1"]'),
         "t.yaml:8, links[1].endpoints: expected a list of length 2, got 1"),
        *(
            (TWO.replace("s0:p1", text), (f"t.yaml:8, links[1].endpoints[0]: {text!r} is not an end of a link:"
             " write host:interface or switch:port"))
            for text in ("s0", ":p1", "s0:")
        ),
        (TWO.replace("10.0.0.1}", "10.0.0.1, rate: 3Gbit}"),
         "t.yaml:7, links[0]: the link and its interfaces have different values of rate: 1000000000 and 3000000000"),
        (TWO.replace("10.0.0.1}", "10.0.0.1, mtu: 1500}"),
         "t.yaml:7, links[0]: the link and its interfaces have different values of mtu: 1500 and 9000"),
        (TWO.replace("1.5us", "1.5 years"),
         "t.yaml:7, links[0].latency: '1.5 years' is not a time: give a number with a unit, such as 5us or 1.5ms"),
        (TWO.replace("rate: 2Gbit", "rate: 2"),
         "t.yaml:8, links[1].rate: has no unit; if it is a name, put it in quotes"),
        (TWO.replace("rate: 2Gbit", "rate: 2 Gigs"),
         "t.yaml:8, links[1].rate: '2 Gigs' is not a rate: give a number with a unit, such as 100Gbit or 400Mbit"),
        (TWO.replace("name: s0", "name: h1"), "t.yaml:5, switches[0].name: there is already a node named 'h1'"),
        (TWO.replace("router}", "router}\n  - {name: s0}"),
         "t.yaml:6, switches[1].name: there is already a node named 's0'"),
        (TWO.replace("kind: router", "kind: hub"),
         "t.yaml:5, switches[0].kind: 'hub' is not one of bridge, ovs, physical, router"),
        (TWO.replace("kind: router", "queue: deep"),
         ("t.yaml:5, switches[0].queue: 'deep' is not a size: write bytes, or a whole number with K, M, G or T"
         " (1K = 1KiB = 1024, 1KB = 1000)")),
        *(
            (TWO.split("switches")[0] + f"{name}: {value}\n",
             f"t.yaml:4, {name}: has no effect without links: add links, or delete it")
            for name, value in (("switches", "[{name: s0}]"), ("routes", "[]"), ("ecmp", "{seed: 1}"), ROUTING)
        ),
        (TWO.replace("router", "bridge") + "routing: {protocol: bgp}\n",
         "t.yaml:10, routing: has no effect: no switch is of kind router"),
        (TWO + "routing: {protocol: ospf}\n", "t.yaml:10, routing.protocol: 'ospf' is not one of bgp"),
        (TWO + "routes: [{at: s0, to: h1, via: h1}]\nrouting: {protocol: bgp}\n",
         "t.yaml:10, routes: routers find their routes by the routing protocol: delete these, or routing"),
        *(
            (TWO + f"routing: {{protocol: bgp, bfd: {{interval: {text}}}}}\n",
             f"t.yaml:10, routing.bfd.interval: '{text}': BFD takes whole milliseconds, from 10ms to 60s")
            for text in ("9ms", "10.5ms", "61s", "0ms")
        ),
        (TWO + "routes: [{at: h0, to: h1, via: s0}]\n",
         "t.yaml:10, routes[0].at: there is no switch 'h0'; there are s0"),
        (TWO + "routes: [{at: s0, to: h9, via: h1}]\n",
         "t.yaml:10, routes[0].to: there is no host 'h9'; there are h0, h1"),
        (TWO + "routes: [{at: s0, to: 'h1:eth9', via: h1}]\n",
         "t.yaml:10, routes[0].to: host h1 has no interface 'eth9'"),
        (TWO + "routes: [{at: s0, to: h1, via: s9}]\n",
         "t.yaml:10, routes[0].via: there is no neighbour of s0 's9'; there are h0, h1"),
        (TWO + "routes: [{at: s0, to: h1, via: []}]\n", "t.yaml:10, routes[0].via: expected a list of length >= 1"),
        (TWO + "routes: [{at: s0, to: h1}]\n", "t.yaml:10, routes[0]: the key 'via' is missing"),
    ],
)  # fmt: skip
def test_a_wrong_network_is_reported_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    assert topology_error(tmp_path, text) == message


def fabric(**changes: object) -> str:
    numbers = {"leaves": 3, "spines": 2, "hosts_per_leaf": 4, "rate": "1Gbit", **changes}
    return "fabric: {" + ", ".join(f"{name}: {value}" for name, value in numbers.items()) + "}\n"


def test_every_leaf_has_a_link_to_every_spine_and_to_every_interface(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, fabric(interfaces=2, uplink_rate="4Gbit", mtu=9000), ranks=24)
    network = topology.network
    assert (len(topology.hosts), len(network.switches), len(network.links)) == (12, 5, 24 + 6)
    assert topology.addresses == tuple(f"198.18.0.{number}" for number in range(1, 25))
    assert [link.rate_bps for link in network.links] == [GBIT] * 24 + [4 * GBIT] * 6
    assert {link.mtu for link in network.links} == {9000}
    assert {switch.kind for switch in network.switches} == {"router"}
    hops = Paths(network).next_hops("leaf0", "h11", "eth1")
    assert [link.other("leaf0").node for link in hops] == ["spine0", "spine1"]


def test_uplinks_have_the_rate_of_the_hosts_unless_specified(tmp_path: Path) -> None:
    network = write_topology(tmp_path, fabric(kind="physical") + "ecmp: {seed: 5}\n").network
    assert {link.rate_bps for link in network.links} == {GBIT}
    assert {switch.kind for switch in network.switches} == {"physical"}
    assert network.ecmp_seed == 5


def test_with_rails_a_pod_has_a_leaf_for_each_interface(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, fabric(leaves=4, hosts_per_leaf=3, interfaces=2, rails="true"), ranks=0)
    assert len(topology.hosts) == 6
    ends = {str(link.ends[0]): link.ends[1].node for link in topology.network.links}
    assert [ends[port] for port in ("h0:eth0", "h0:eth1", "h2:eth1", "h3:eth0", "h5:eth1")] == [
        "leaf0", "leaf1", "leaf1", "leaf2", "leaf3"
    ]  # fmt: skip


@given(pods=st.integers(1, 4), hosts=st.integers(1, 5), interfaces=st.integers(1, 4), rails=st.booleans())
def test_every_leaf_has_as_many_interfaces_as_any_other(pods: int, hosts: int, interfaces: int, rails: bool) -> None:
    leaves = pods * interfaces if rails else pods
    shape = LeafSpine(leaves, 1, hosts, interfaces, rails, None, None, None, "router")
    places = [shape.leaf_of(host, number) for host in range(shape.hosts) for number in range(interfaces)]
    assert shape.hosts == pods * hosts
    assert {places.count(leaf) for leaf in range(leaves)} == {hosts if rails else hosts * interfaces}
    assert set(places) == set(range(leaves))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fabric: {leaves: 1, spines: 1, hosts_per_leaf: 1}\n", "fabric: the key 'rate' is missing"),
        (fabric(leaves=0), "fabric.leaves: expected int >= 1"),
        (fabric(leaves=100_001), "fabric.leaves: expected int <= 100000"),
        (fabric(rate="slow"),
         "fabric.rate: 'slow' is not a rate: give a number with a unit, such as 100Gbit or 400Mbit"),
        (fabric(uplink_rate="0bit"),
         "fabric.uplink_rate: a port cannot have rate 0; delete the rate if it is unknown"),
        (fabric(interfaces=2, rails="true"),
         "fabric.leaves: 3 leaves cannot form pods of 2, one leaf per host interface"),
        (fabric(addresses="lab"),
         ("fabric.addresses: is not a prefix ('lab' does not appear to be an IPv4 or IPv6 network);"
         " write one such as 10.0.0.0/8")),
        (fabric(hosts_per_leaf=5, addresses="10.0.0.0/28"),
         "fabric.addresses: 10.0.0.0/28 has fewer than 15 addresses; give a larger prefix: 10.0.0.0/8"),
        (fabric(addresses="8.0.0.0/8"),
         ("fabric.addresses: 8.0.0.0/8 is outside loopback, 198.18.0.0/15, documentation and private ranges:"
         " name its prefix with --allow-network")),
        (fabric(kind="bridge"), "fabric.kind: 'bridge' is not one of physical, router"),
    ],
)  # fmt: skip
def test_a_wrong_fabric_is_reported_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    assert topology_error(tmp_path, text) == f"t.yaml:1, {message}"


def test_a_prefix_may_be_just_large_enough(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, fabric(leaves=7, hosts_per_leaf=2, addresses="10.0.0.0/28"), ranks=14)
    assert topology.addresses[-1] == "10.0.0.14"


def test_every_host_has_the_domain_of_the_fabric(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, fabric(domain="{rate: 450GB/s}"), ranks=12)
    assert {host.domain for host in topology.hosts} == {Domain(3_600 * GBIT)}
    assert [topology.domain_of(rank) for rank in (0, 11)] == [0, 11]
