"""Switches, links and routes of a file, and what is reported when they do not fit together."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.topology.network import Route, Switch
from tests.support.topologies import topology_error, write_topology

GBIT = 10**9
LINK = '  - {endpoints: ["h0:eth0", "s0:p0"], rate: 1Gbit, mtu: 9000, latency: 1.5us}\n'
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
            for name, value in (("switches", "[{name: s0}]"), ("routes", "[]"), ("ecmp", "{seed: 1}"))
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
