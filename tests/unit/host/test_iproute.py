"""What `ip -json` prints, as values; and what it refuses, as one line."""

import json
import subprocess
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from emulator.errors import HostError
from emulator.host import iproute
from emulator.host.iproute import FOREVER_S, HeldAddress
from emulator.host.tools import CommandBatch, CommandHost, on


class Ip:
    """Stands for the `ip` command: answers by its arguments, and notes what it is given."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, ...], Any] = {}
        self.calls: list[CommandBatch] = []
        self.code, self.stderr = 0, ""

    def __call__(self, batch: CommandBatch) -> subprocess.CompletedProcess[str]:
        self.calls.append(batch)
        answer = self.answers.get(tuple(batch.command[2:]), "")
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return subprocess.CompletedProcess(batch.command, self.code, text, self.stderr)


@pytest.fixture
def ip() -> Iterator[Ip]:
    double = Ip()
    with on(CommandHost(double)):
        yield double


@pytest.mark.parametrize(("flags", "is_up"), [(["UP", "LOWER_UP"], True), (["UP"], True), (["BROADCAST"], False)])
def test_an_interface_is_up_if_it_is_switched_on_whatever_its_cable_says(flags: list[str], is_up: bool, ip: Ip) -> None:
    ip.answers["link", "show", "dev", "eth0"] = [{"ifname": "eth0", "flags": flags}]
    assert iproute.is_up("eth0") is is_up


def test_an_interface_that_does_not_exist_is_named(ip: Ip) -> None:
    ip.code = 1
    with pytest.raises(HostError, match="there is no interface eth7 on this host: `ip link` lists"):
        iproute.is_up("eth7")


def test_addresses_have_their_prefix_and_lifetime(ip: Ip) -> None:
    ip.answers["address", "show", "dev", "eth0"] = [
        {},
        {
            "ifname": "eth0",
            "addr_info": [
                {"local": "198.18.1.1", "prefixlen": 24, "valid_life_time": FOREVER_S},
                {"local": "2001:db8::1", "prefixlen": 64, "valid_life_time": 3600},
                {"prefixlen": 0, "valid_life_time": 0},
            ],
        },
    ]
    found = iproute.held_addresses("eth0")
    assert found == {
        "198.18.1.1": HeldAddress("198.18.1.1", 24, FOREVER_S),
        "2001:db8::1": HeldAddress("2001:db8::1", 64, 3600),
    }
    assert [address.is_permanent for address in found.values()] == [True, False]


def test_holders_are_found_among_all_interfaces(ip: Ip) -> None:
    ip.answers["address", "show"] = [
        {"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}]},
        {"ifname": "eth0", "addr_info": [{"local": "198.18.1.1"}, {"local": "198.18.1.2"}]},
        {"ifname": "eth1"},
    ]
    assert iproute.holders() == {"127.0.0.1": "lo", "198.18.1.1": "eth0", "198.18.1.2": "eth0"}


@pytest.mark.parametrize(("family", "is_v6", "default"), [("-4", False, "0.0.0.0/0"), ("-6", True, "::/0")])
def test_routes_of_an_interface_are_prefixes(family: str, is_v6: bool, default: str, ip: Ip) -> None:
    other = "2001:db8::/32" if is_v6 else "198.18.0.0/15"
    ip.answers[family, "route", "show", "dev", "eth0"] = [{"dst": "default"}, {"dst": other}]
    assert iproute.routed_prefixes("eth0", is_v6=is_v6) == [ip_network(default), ip_network(other)]


@pytest.mark.parametrize(
    ("answer", "interface"),
    [([{"dst": "192.0.2.1", "dev": "eth0"}], "eth0"), ([{"dst": "192.0.2.1"}], None), ([], None)],
)
def test_packets_leave_through_the_interface_of_the_route(answer: Any, interface: str | None, ip: Ip) -> None:
    ip.answers["route", "get", "192.0.2.1"] = answer
    assert iproute.egress_interface("192.0.2.1") == interface


def test_changes_go_to_one_process_in_their_order(ip: Ip) -> None:
    iproute.change(["address add 198.18.1.1/24 dev eth0", "link set eth0 up"])
    assert [(one.command, one.lines) for one in ip.calls] == [
        (("ip", "-batch", "-"), ["address add 198.18.1.1/24 dev eth0", "link set eth0 up"])
    ]
    iproute.change([])
    assert len(ip.calls) == 1


@pytest.mark.parametrize(
    ("stderr", "shown"),
    [
        (
            "RTNETLINK answers: Operation not permitted\nCommand failed -:2\n",
            "`ip link set eth0 up` failed (Operation not permitted)",
        ),
        ("Command failed -:9\n", "`ip -batch -` failed (no reason given)"),
        ("", "`ip -batch -` failed (no reason given)"),
    ],
)
def test_the_change_that_fails_is_shown_with_its_reason(stderr: str, shown: str, ip: Ip) -> None:
    ip.code, ip.stderr = 1, stderr
    with pytest.raises(HostError) as refused:
        iproute.change(["address add x", "link set eth0 up"])
    assert str(refused.value) == f"{shown}: run the agent as root or with CAP_NET_ADMIN"


def test_changes_that_may_fail_do_so_silently_and_the_rest_is_carried_out(ip: Ip) -> None:
    ip.code, ip.stderr = 1, "RTNETLINK answers: Cannot assign requested address\nCommand failed -:1\n"
    iproute.change(["address delete 198.18.1.1/24 dev eth0"], goes_on=True)
    assert ip.calls[0].command == ("ip", "-force", "-batch", "-")
