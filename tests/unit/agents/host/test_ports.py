"""Interfaces under test: which rank uses which, and what is refused."""

from __future__ import annotations

import socket

import pytest

from agents.host.ports import Ports
from emulator.control.conversation import RankPlace
from emulator.errors import HostError


def place(rank: int, host: str, interface: str = "") -> RankPlace:
    return RankPlace(rank, host, nodes=1, window=1, interface=interface)


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose eth1 leads to the controller and whose eth9 is down; addresses resolve to themselves."""
    monkeypatch.setattr("emulator.host.iproute.is_up", lambda interface: interface != "eth9")
    monkeypatch.setattr("emulator.host.iproute.egress_interface", lambda address: "lo" if "127" in address else "eth1")
    monkeypatch.setattr("socket.getaddrinfo", lambda name, *_, **__: [(0, 0, 0, "", (name, 0))])


def test_without_interfaces_ranks_play_over_loopback() -> None:
    assert Ports([]).devices([place(0, "127.0.0.1"), place(1, "::1")]) == {"127.0.0.1": "lo", "::1": "lo"}


def test_an_address_off_loopback_needs_an_interface() -> None:
    with pytest.raises(HostError, match=r"rank 1 plays at 192\.0\.2\.1: start the agent with --interface NAME"):
        Ports([]).devices([place(0, "127.0.0.1"), place(1, "192.0.2.1")])


def test_the_only_interface_stands_for_the_only_name_of_the_topology() -> None:
    places = [place(0, "192.0.2.1", "eth0"), place(1, "192.0.2.2", "eth0")]
    assert Ports(["enp3s0"]).devices(places) == {"192.0.2.1": "enp3s0", "192.0.2.2": "enp3s0"}


def test_several_interfaces_are_used_by_name() -> None:
    places = [place(0, "192.0.2.1", "eth0"), place(1, "192.0.2.2", "eth1")]
    assert Ports(["eth0", "eth1"]).devices(places) == {"192.0.2.1": "eth0", "192.0.2.2": "eth1"}


def test_a_name_that_the_agent_does_not_have_is_refused_with_those_it_has() -> None:
    places = [place(0, "192.0.2.1", "eth0"), place(1, "192.0.2.2", "eth2")]
    with pytest.raises(
        HostError, match="rank 1 uses eth2, but the agent has eth0, eth1: start it with --interface eth2"
    ):
        Ports(["eth0", "eth1"]).devices(places)


def test_an_interface_that_is_down_is_refused_with_the_command_that_raises_it() -> None:
    with pytest.raises(HostError, match="interface eth9 is down: ip link set eth9 up"):
        Ports(["eth0", "eth9"]).check("unix:/run/control")


def test_the_control_stream_must_not_leave_through_an_interface_under_test() -> None:
    with pytest.raises(
        HostError, match=r"route to the controller \(192\.0\.2\.9\) leaves through eth1, which is under"
    ):
        Ports(["eth0", "eth1"]).check("192.0.2.9:4790")
    Ports(["eth0"]).check("192.0.2.9:4790")


def test_loopback_may_carry_both_the_test_and_the_control_stream() -> None:
    Ports(["lo"]).check("127.0.0.1:4790")


def test_brackets_around_an_ipv6_controller_are_removed() -> None:
    with pytest.raises(HostError, match=r"\(2001:db8::9\) leaves through eth1"):
        Ports(["eth1"]).check("[2001:db8::9]:4790")


def test_a_controller_whose_name_is_unknown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(HostError, match=r"controller's name rack-9 cannot be resolved \(Name or service not known\)"):
        Ports(["eth0"]).check("rack-9:4790")
