"""Interfaces under test: which rank uses which, and what is refused."""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import pytest

from agents.host.ports import Ports, nics_of
from emulator.control.conversation import RankPlace
from emulator.errors import HostError
from emulator.host.nic_facts import NicFacts


def place(rank: int, host: str, interface: str = "") -> RankPlace:
    return RankPlace(rank, host, nodes=1, window=1, interface=interface)


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose eth1 leads to the controller and whose eth9 is down; addresses resolve to themselves."""
    monkeypatch.setattr("emulator.host.iproute.is_up", lambda interface: interface != "eth9")
    monkeypatch.setattr("emulator.host.iproute.egress_interface", lambda address: "lo" if "127" in address else "eth1")
    monkeypatch.setattr("socket.getaddrinfo", lambda name, *_, **__: [(0, 0, 0, "", (name, 0))])


@pytest.mark.parametrize(
    ("interfaces", "places", "devices"),
    [
        ([], {"127.0.0.1": "", "::1": ""}, ["lo", "lo"]),
        (["enp3s0"], {"192.0.2.1": "eth0", "192.0.2.2": "eth0"}, ["enp3s0", "enp3s0"]),
        (["eth0", "eth1"], {"192.0.2.1": "eth0", "192.0.2.2": "eth1"}, ["eth0", "eth1"]),
    ],
    ids=["loopback", "the only interface for the only name", "by name"],
)
def test_ranks_use_the_interface_that_their_name_stands_for(
    interfaces: list[str], places: dict[str, str], devices: list[str]
) -> None:
    found = Ports(interfaces).devices([place(rank, *one) for rank, one in enumerate(places.items())])
    assert found == dict(zip(places, devices, strict=True))


def test_an_address_off_loopback_needs_an_interface() -> None:
    with pytest.raises(HostError, match=r"rank 1 plays at 192\.0\.2\.1: start the agent with --interface NAME"):
        Ports([]).devices([place(0, "127.0.0.1"), place(1, "192.0.2.1")])


def test_a_name_that_the_agent_does_not_have_is_refused_with_those_it_has() -> None:
    places = [place(0, "192.0.2.1", "eth0"), place(1, "192.0.2.2", "eth2")]
    with pytest.raises(
        HostError, match="rank 1 uses eth2, but the agent has eth0, eth1: start it with --interface eth2"
    ):
        Ports(["eth0", "eth1"]).devices(places)


@pytest.mark.parametrize(
    ("interfaces", "controller", "problem"),
    [
        (["eth0", "eth9"], "unix:/run/control", "interface eth9 is down: ip link set eth9 up"),
        (
            ["eth0", "eth1"],
            "192.0.2.9:4790",
            r"route to the controller \(192\.0\.2\.9\) leaves through eth1, which is under",
        ),
        (["eth1"], "[2001:db8::9]:4790", r"\(2001:db8::9\) leaves through eth1"),
    ],
)
def test_an_interface_that_is_down_or_leads_to_the_controller_is_refused(
    interfaces: list[str], controller: str, problem: str
) -> None:
    with pytest.raises(HostError, match=problem):
        Ports(interfaces).check(controller)


def test_loopback_may_carry_both_the_test_and_the_control_stream() -> None:
    Ports(["eth0"]).check("192.0.2.9:4790")
    Ports(["lo"]).check("127.0.0.1:4790")


def test_a_controller_whose_name_is_unknown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(HostError, match=r"controller's name rack-9 cannot be resolved \(Name or service not known\)"):
        Ports(["eth0"]).check("rack-9:4790")


def nics(
    addresses: Sequence[str],
    devices: Mapping[str, str],
    holders: Callable[[], Mapping[str, str]] = lambda: {"192.0.2.1": "eth0", "192.0.2.2": "eth0"},
) -> list[str]:
    """Names of the interfaces of a host whose eth0 has two addresses."""
    return [one.interface for one in nics_of(addresses, devices, holders=holders, facts=NicFacts)]


def test_each_interface_is_listed_once_and_by_name() -> None:
    assert nics(["192.0.2.2", "127.0.0.1", "192.0.2.1", "192.0.2.7"], {"192.0.2.7": "eth1"}) == ["eth0", "eth1", "lo"]


def test_known_interfaces_come_before_those_that_hold_the_address() -> None:
    assert nics(["192.0.2.1", "127.0.0.1"], {"192.0.2.1": "eth5", "127.0.0.1": "eth6"}) == ["eth5", "eth6"]


def test_an_address_of_no_interface_is_left_out() -> None:
    assert nics(["198.51.100.1"], {}) == []


def test_without_the_ip_command_only_known_interfaces_are_listed() -> None:
    def refusing() -> NoReturn:
        raise HostError("ip is missing on this host: apt-get install iproute2")

    assert nics(["192.0.2.1", "::1", "192.0.2.7"], {"192.0.2.7": "eth1"}, refusing) == ["eth1", "lo"]
