"""From a topology to namespaces, devices, addresses, routes: as data, without a kernel."""

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from emulator.device.lab.design import LabNextHops, RouteStep, make_design
from emulator.errors import PlanError
from emulator.planner.network.ecmp import hash_seed
from emulator.topology.load import load_topology
from emulator.topology.network import Bfd, End, Link, Network, Routing
from tests.support.topologies import SHIPPED, shipped_topology


def network_of(name: str) -> Network:
    return shipped_topology(name).network


def end(text: str) -> End:
    return End(*text.split(":"))


def test_without_a_path_there_is_no_hop() -> None:
    network = network_of("two-hosts-switch")
    (switch,) = network.switches
    first, second = network.links
    apart = replace(second, ends=(end("h1:eth0"), end("sw1:p0")))
    split = replace(network, switches=[switch, replace(switch, name="sw1")], links=[first, apart])
    assert LabNextHops(split).from_host(end("h0:eth0"), end("h1:eth0")) is None


def test_frames_reach_hosts_through_further_bridges_and_never_turn_back() -> None:
    network = network_of("two-hosts-switch")
    (switch,) = network.switches
    first, second = network.links
    behind = replace(second, ends=(end("h1:eth0"), end("sw1:p1")))
    trunk = replace(second, ends=(end("sw0:p9"), end("sw1:p9")))
    chain = replace(network, switches=[switch, replace(switch, name="sw1")], links=[first, behind, trunk])
    hops = LabNextHops(chain)
    assert list(hops.behind("sw0")) == [
        RouteStep(end("sw0:p0"), end("h0:eth0")),
        RouteStep(end("sw0:p9"), end("h1:eth0")),
    ]
    assert hops.from_host(end("h0:eth0"), end("h1:eth0")) == RouteStep(end("h0:eth0"), end("h1:eth0"))


def test_a_loop_of_bridges_is_refused_with_the_link_that_closes_it() -> None:
    network = network_of("two-hosts-switch")
    (switch,) = network.switches
    others = [replace(switch, name=name) for name in ("sw1", "sw2")]
    ring = ["sw0:a sw1:b", "sw1:a sw2:b", "sw2:a sw0:b"]
    model = network.links[0]
    links: list[Link] = [replace(model, ends=tuple(end(one) for one in text.split())) for text in ring]
    with pytest.raises(
        PlanError, match="closes a loop of bridges, in which frames would circulate forever: use kind router"
    ) as told:
        LabNextHops(replace(network, switches=[switch, *others], links=[*network.links, *links]))
    assert "sw2:a" in str(told.value)
    LabNextHops(replace(network, switches=[switch, *others], links=[*network.links, *links[:2]]))


ROUTER_ADDRESSES = "169.254.0."


def design_of(folder: Path, text: str):
    path = folder / "topology.yaml"
    path.write_text(text)
    return make_design(load_topology(path, ranks=0), "x")


def shipped(name: str):
    return make_design(shipped_topology(name), "x")


def test_every_end_of_a_cable_has_a_mac_of_its_own() -> None:
    macs = [port.mac for node in shipped("rail-4x4").nodes for port in node.ports]
    assert len(set(macs)) == len(macs) == 2 * 20


def test_hops_of_a_router_have_addresses_in_the_order_of_links_by_which_frr_sorts_them(tmp_path: Path) -> None:
    text = (SHIPPED / "leaf-spine-2x4.yaml").read_text()
    spines = [f"  - {{name: spine{number}, kind: router}}\n" for number in range(4)]
    for one in spines:
        text = text.replace(one, "")
    text = text.replace("links:\n", "".join(reversed(spines)) + "links:\n", 1)
    [route] = (route for route in design_of(tmp_path, text).node("leaf0").routes if len(route.hops) > 1)
    addresses = [ip_address(hop.address) for hop in route.hops]
    assert [hop.device for hop in route.hops] == ["u0", "u1", "u2", "u3"]
    assert addresses == sorted(addresses)


def test_routers_with_a_protocol_learn_what_is_behind_other_routers() -> None:
    design = shipped("leaf-spine-bgp")
    learned = {node.name: [route.prefix for route in node.routes if route.is_learned] for node in design.nodes}
    far, all_hosts = {"leaf0": ["198.18.2.0/24"], "leaf1": ["198.18.1.0/24"]}, ["198.18.1.0/24", "198.18.2.0/24"]
    assert learned == far | {"h0": [], "h1": [], "spine0": all_hosts, "spine1": all_hosts}
    assert design.routing == Routing("bgp", Bfd(50_000_000, 3))
    assert not any(route.is_learned for node in shipped("leaf-spine-2x2").nodes for route in node.routes)


def test_routes_of_the_topology_go_before_equal_cost(tmp_path: Path) -> None:
    text = (SHIPPED / "leaf-spine-2x2.yaml").read_text() + "routes:\n  - {at: leaf0, to: h4, via: spine1}\n"
    hops = {
        route.prefix: [hop.device for hop in route.hops] for route in design_of(tmp_path, text).node("leaf0").routes
    }
    assert (hops["198.18.5.0/24"], hops["198.18.6.0/24"]) == (["u1"], ["u0", "u1"])


def test_a_router_between_bridges_is_the_way_from_one_to_the_other(tmp_path: Path) -> None:
    design = design_of(
        tmp_path,
        """
hosts: [{name: a, address: 198.18.0.1}, {name: b, address: 198.18.0.2}, {name: c, address: 198.18.0.3}]
switches: [{name: left}, {name: right, kind: ovs}, {name: middle, kind: router}]
links:
  - {endpoints: ["a:eth0", "left:1"]}
  - {endpoints: ["b:eth0", "left:2"]}
  - {endpoints: ["c:eth0", "right:1"]}
  - {endpoints: ["left:up", "middle:0"]}
  - {endpoints: ["right:up", "middle:1"]}
""",
    )
    hops = {route.prefix: route.hops[0].address for route in design.node("a").routes}
    assert hops == {"198.18.0.2/32": "198.18.0.2", "198.18.0.3/32": ROUTER_ADDRESSES + "1"}
    macs = {node.name: node.ports[0].mac for node in design.nodes}
    assert {(one.device, one.mac) for one in design.node("left").forwards} == {
        ("1", macs["a"]),
        ("2", macs["b"]),
        ("up", macs["middle"]),
    }


def test_names_that_the_kernel_does_not_take_become_numbers(tmp_path: Path) -> None:
    design = design_of(
        tmp_path,
        """
hosts: [{name: a, address: 198.18.0.1}, {name: b, address: "2001:db8::2"}]
switches: [{name: tor}]
links:
  - {endpoints: ["a:eth0", "tor:Ethernet1/1/very-long"]}
  - {endpoints: ["b:eth0", "tor:port1"]}
""",
    )
    assert [port.device for port in design.node("tor").ports] == ["port0", "port1"]
    assert design.has_ipv6


def test_seeds_differ_between_routers_and_are_never_zero() -> None:
    seeds = {hash_seed(seed, router) for seed in (0, 1) for router in range(1, 100, 2)}
    assert 0 not in seeds
    assert len(seeds) == 2 * 50
    design = shipped("leaf-spine-2x2")
    assert design.node("leaf0").hash_seed == hash_seed(1, 0) != design.node("leaf1").hash_seed
    assert design.node("h0").hash_seed == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts: [{name: a, address: 198.18.0.1}]\n", "needs a network"),
        (
            'hosts: [{name: a, address: 127.1.0.1}]\nswitches: [{name: s}]\nlinks: [{endpoints: ["a:eth0", "s:0"]}]\n',
            "loopback traffic never leaves a host",
        ),
        (
            (
                "hosts: [{name: a, address: 198.18.0.1}]\nswitches: [{name: s, kind: physical}]\n"
                'links: [{endpoints: ["a:eth0", "s:0"]}]\n'
            ),
            "switch s is physical",
        ),
        (
            (
                "hosts: [{name: a, address: 198.18.0.1}]\nswitches: [{name: s}, {name: t}]\n"
                'links: [{endpoints: ["a:eth0", "s:0"]}, {endpoints: ["s:1", "t:1"]}, {endpoints: ["s:2", "t:2"]}]\n'
            ),
            "closes a loop of bridges",
        ),
        (
            (
                'hosts: [{name: "a b", address: 198.18.0.1}, {name: "a-b", address: 198.18.0.2}]\n'
                'links: [{endpoints: ["a b:eth0", "a-b:eth0"]}]\n'
            ),
            "same namespace",
        ),
        (
            (
                "hosts: [{name: a, address: 198.18.0.1}, {name: b, address: 198.18.0.2}]\nrouting: {protocol: bgp}\n"
                "switches: [{name: r, kind: router}, {name: s}, {name: t, kind: router}]\nlinks:\n"
                '  - {endpoints: ["a:eth0", "r:0"]}\n  - {endpoints: ["r:1", "s:0"]}\n'
                '  - {endpoints: ["s:1", "t:0"]}\n  - {endpoints: ["t:1", "b:eth0"]}\n'
            ),
            "r:1 - s:0 leads to router t through a bridge",
        ),
    ],
    ids=["no links", "loopback", "physical", "loop", "names", "bridge between routers"],
)
def test_what_cannot_be_a_lab_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        design_of(tmp_path, text)


def test_latency_is_named_as_missing(tmp_path: Path) -> None:
    text = (SHIPPED / "two-hosts-switch.yaml").read_text().replace("mtu: 1500}", "mtu: 1500, latency: 5us}")
    assert design_of(tmp_path, text).notes == ("the latency of 2 links is ignored: a lab has no latency on its links",)
