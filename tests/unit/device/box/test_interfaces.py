"""Interfaces that cannot become ports of a box are refused, and the error says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.device.box import interfaces
from emulator.device.box.interfaces import find_ports
from emulator.device.box.model import BoxPort
from emulator.device.lab.recipe import Batch
from emulator.errors import PlanError


def link(name: str, **other: Any) -> dict[str, Any]:
    usual = {"link_type": "ether", "address": "02:00:00:00:00:01", "mtu": 1500, "flags": ["UP"], "addr_info": []}
    return {"ifname": name, **usual, **other}


def address(local: str, prefixlen: int, scope: str) -> dict[str, Any]:
    return {"local": local, "prefixlen": prefixlen, "scope": scope}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `ip` shows of this host."""
    links: list[dict[str, Any]] = []
    printed = {"ip": lambda: json.dumps(links), "ethtool": lambda: "generic-receive-offload: off\n"}
    monkeypatch.setattr(interfaces, "attempt", lambda batch: printed[Batch(batch.command).command[0]]())
    return links


def test_a_port_is_remembered_as_it_was(host: list[dict[str, Any]]) -> None:
    host += [link("a", flags=[]), link("b", addr_info=[address("fe80::1", 64, "link")])]
    assert find_ports(["a", "b"]) == [
        BoxPort("a", "02:00:00:00:00:01", 1500, is_up=False, merged=False),
        BoxPort("b", "02:00:00:00:00:01", 1500, is_up=True, merged=False),
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
