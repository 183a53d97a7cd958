"""A leaf-spine network from a few numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.topology.leaf_spine import LeafSpine
from emulator.topology.model import Domain
from emulator.topology.paths import Paths
from tests.support.topologies import topology_error, write_topology

GBIT = 10**9


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
