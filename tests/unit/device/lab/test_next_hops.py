"""Next hops of packets through bridges and routers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.device.lab.next_hops import LabNextHops, RouteStep
from emulator.errors import PlanError
from emulator.topology.network import End, Link, Network
from tests.support.topologies import shipped_topology


def network_of(name: str) -> Network:
    return shipped_topology(name).network


def end(text: str) -> End:
    return End(*text.split(":"))


def test_a_bridge_is_not_a_hop() -> None:
    hops = LabNextHops(network_of("two-hosts-switch"))
    found = hops.from_host(end("h0:eth0"), end("h1:eth0"))
    assert found == RouteStep(end("h0:eth0"), end("h1:eth0"))


def test_frames_of_a_bridge_reach_every_host_through_the_port_of_its_cable() -> None:
    network = network_of("eight-hosts-switch")
    steps = list(LabNextHops(network).behind("sw0"))
    assert {step.to for step in steps} == {End(host, "eth0") for host in network.interfaces}
    cables = {frozenset(link.ends) for link in network.links}
    assert all(frozenset((step.out, step.to)) in cables for step in steps)


def test_a_router_has_every_spine_as_a_hop_of_equal_cost() -> None:
    network = network_of("leaf-spine-2x2")
    far = next(
        End(host, "eth0")
        for host in network.interfaces
        if not any({one.node for one in link.ends} == {host, "leaf0"} for link in network.links)
    )
    steps = LabNextHops(network).from_router("leaf0", far)
    assert [step.to.node for step in steps] == ["spine0", "spine1"]
    assert {step.out.node for step in steps} == {"leaf0"}


def test_a_router_hands_packets_to_its_own_host_directly() -> None:
    network = network_of("leaf-spine-2x2")
    own = next(
        one for link in network.links for one in link.ends if one.node != "leaf0" and one.node in network.interfaces
        and link.other(one.node).node == "leaf0"
    )  # fmt: skip
    (step,) = LabNextHops(network).from_router("leaf0", own)
    assert step.to == own


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
