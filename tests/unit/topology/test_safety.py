"""Traffic goes to safe addresses, and anywhere else only if the user allows it."""

from ipaddress import ip_network

import pytest

from emulator.errors import InputError
from emulator.topology.safety import is_safe, parse_networks, unsafe_problem

EVERYWHERE = parse_networks(["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.0/8", "127.9.9.9", "::1", "198.18.0.0/15", "198.18.0.1", "198.19.255.255", "192.0.2.7", "198.51.100.9",
        "203.0.113.255", "2001:db8::1", "3fff::1", "10.0.0.0/8", "172.16.0.0/12", "172.31.255.255", "192.168.0.0/16",
        "fdab::1",
    ],
)  # fmt: skip
def test_loopback_benchmark_documentation_and_private_addresses_are_safe(text: str) -> None:
    assert is_safe(ip_network(text))


@pytest.mark.parametrize(
    "text",
    [
        "8.8.8.8", "126.255.255.255", "128.0.0.0", "198.17.255.255", "198.20.0.0", "100.64.0.1", "169.254.0.1",
        "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "2a00::1", "::2", "fe80::1",
    ],
)  # fmt: skip
def test_all_other_addresses_are_safe_only_if_allowed(text: str) -> None:
    assert not is_safe(ip_network(text))
    assert not is_safe(ip_network(text), parse_networks(["9.9.9.0/24", "2a01::/32"]))
    assert is_safe(ip_network(text), EVERYWHERE)


@pytest.mark.parametrize("text", ["126.0.0.0/7", "172.0.0.0/11", "198.16.0.0/14", "fc00::/6", "0.0.0.0/1"])
def test_a_prefix_is_safe_only_as_a_whole(text: str) -> None:
    assert not is_safe(ip_network(text))


@pytest.mark.parametrize("text", ["224.0.0.1", "239.1.1.1", "ff02::1", "0.0.0.0", "::"])
def test_multicast_and_unspecified_addresses_are_never_safe(text: str) -> None:
    assert not is_safe(ip_network(text), EVERYWHERE)


def test_the_problem_names_an_address_or_a_prefix() -> None:
    rest = "is outside loopback, 198.18.0.0/15, documentation and private ranges: name its prefix with --allow-network"
    assert unsafe_problem(ip_network("8.8.8.8")) == f"8.8.8.8 {rest}"
    assert unsafe_problem(ip_network("8.8.8.0/24")) == f"8.8.8.0/24 {rest}"


@pytest.mark.parametrize("text", ["lab", "10.0.0.1/8", "10.0.0.0/33", ""])
def test_what_is_not_a_prefix_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--allow-network"):
        parse_networks(["10.0.0.0/8", text])


@pytest.mark.parametrize("text", ["fc00::%eth0/64", "fc00::1%8.8.8.8", "10.0.0.1/8", "x"])
def test_a_prefix_has_neither_a_zone_nor_bits_beyond_it(text: str) -> None:
    with pytest.raises(InputError, match="write a prefix such as"):
        parse_networks([text])
