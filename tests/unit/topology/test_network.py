"""The network as a graph."""

import pytest

from emulator.topology.network import End, Interface, Link, Network, Switch, assumed_network

LINK = Link((End("h0", "eth0"), End("s0", "p0")))
NETWORK = Network({"h0": (Interface("eth0"),)}, (Switch("s0"), Switch("s1", "router")), (LINK,))


def test_a_link_knows_its_other_end() -> None:
    assert LINK.other("h0") == End("s0", "p0")
    assert LINK.other("s0") == End("h0", "eth0")
    assert str(LINK) == "h0:eth0 - s0:p0"


def test_switches_are_found_by_name() -> None:
    assert NETWORK.switch("s1").kind == "router"
    with pytest.raises(KeyError, match="s2"):
        NETWORK.switch("s2")


def test_an_assumed_network_has_a_link_for_every_interface() -> None:
    found = assumed_network({"a": (Interface("x", 5, 1500), Interface("y")), "b": (Interface("x", 7),)})
    assert [str(link) for link in found.links] == ["a:x - network:port0", "a:y - network:port1", "b:x - network:port2"]
    assert [(link.rate_bps, link.mtu) for link in found.links] == [(5, 1500), (None, None), (7, None)]
    assert not found.is_drawn
