"""Interfaces that serve something else are no ports of a lab, and what is taken from a machine is given back."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from emulator.device.lab.between import PortPair, RealPort, find_ports, given_back, joined
from emulator.errors import PlanError
from emulator.host.tools import CommandBatch
from tests.support.labs import pretended

PORTS = (RealPort("eth1", "m", 1500), RealPort("eth2", "m", 1500, is_up=False, merged=False))


def link(name: str, **other: Any) -> dict[str, Any]:
    usual = {"link_type": "ether", "address": "02:00:00:00:00:01", "mtu": 1500, "flags": ["UP"], "addr_info": []}
    return {"ifname": name, **usual, **other}


def address(local: str, prefixlen: int, scope: str) -> dict[str, Any]:
    return {"local": local, "prefixlen": prefixlen, "scope": scope}


@pytest.fixture
def host() -> Iterator[list[dict[str, Any]]]:
    """What `ip` shows of this host."""
    links: list[dict[str, Any]] = []
    printed = {"ip": lambda: json.dumps(links), "ethtool": lambda: "generic-receive-offload: off\n"}
    with pretended(lambda batch: printed[batch.command[0]]()):
        yield links


def test_a_port_is_remembered_as_it_was(host: list[dict[str, Any]]) -> None:
    host += [link("a", flags=[]), link("b", addr_info=[address("fe80::1", 64, "link")])]
    assert find_ports(["a", "b"]) == [
        RealPort("a", "02:00:00:00:00:01", 1500, is_up=False, merged=False),
        RealPort("b", "02:00:00:00:00:01", 1500, is_up=True, merged=False),
    ]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("a", "a"), "a is given twice"),
        (("a", "z"), "there is no interface 'z' on this machine; there are a, addressed, bridged, jumbo, lo"),
        (("a", "lo"), "lo is no Ethernet interface (loopback)"),
        (("a", "bridged"), "bridged belongs to br0: `ip link set dev bridged nomaster` releases it"),
        (("a", "addressed"), "addressed has address 192.0.2.1/24, which this machine would lose"),
        (("a", "jumbo"), "a has MTU 1500, jumbo has 9000: frames would be lost between them"),
    ],
)
def test_what_serves_something_else_is_refused(
    host: list[dict[str, Any]], names: tuple[str, str], problem: str
) -> None:
    host += [
        link("a"),
        link("lo", link_type="loopback"),
        link("bridged", master="br0"),
        link("addressed", addr_info=[address("192.0.2.1", 24, "global")]),
        link("jumbo", mtu=9000),
    ]
    with pytest.raises(PlanError) as caught:
        find_ports(names)
    assert problem in str(caught.value)


def text(batches: Iterable[CommandBatch]) -> list[str]:
    return [" ".join([*batch.command, *batch.lines]) for batch in batches]


def test_ports_move_into_a_namespace_before_they_are_bridged() -> None:
    (node,) = PortPair(PORTS, 1).design("a").nodes
    assert (node.name, node.kind) == ("box", "bridge")
    lines = text(joined(node))
    assert lines[0] == "ip netns add charkha-box-a"
    moved = next(number for number, line in enumerate(lines) if "link set dev eth1 netns charkha-box-a" in line)
    bridged = next(number for number, line in enumerate(lines) if "link set dev eth2 master br0 up" in line)
    assert moved < bridged == len(lines) - 1
    assert any(line.endswith("ethtool -K eth2 gro off") for line in lines)


def test_a_rate_shapes_both_ports() -> None:
    (node,) = PortPair(PORTS, 1, rate_bps=10**9).design("a").nodes
    assert text(joined(node))[-1].count("tbf rate 1000000000bit") == 2


def test_a_port_is_left_down_if_it_was_down() -> None:
    lines = text(given_back(PortPair(PORTS, 1), "charkha-box-a"))
    assert "ip link set dev eth1 up" in lines
    assert "ethtool -K eth1 gro on" in lines
    assert not any(line.startswith(("ip link set dev eth2", "ethtool -K eth2")) for line in lines)
