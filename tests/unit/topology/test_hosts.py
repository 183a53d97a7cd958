"""Hosts, interfaces and addresses of a file."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import PlanError
from emulator.topology.hosts import (
    UNLIMITED,
    common_rate_bps,
    interface_capacity,
    place_as_mapped,
    place_in_blocks,
    place_on_rails,
    place_round_robin,
)
from emulator.topology.model import Domain, Peer
from emulator.topology.network import Interface
from tests.support.topologies import topology_error, write_topology


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [((9, 9, 9), "0001122"), ((1, 9, 9), "0111222"), ((9, 1, 1), "0000012"), ((7, 9), "0000111"), ((3, 9), "0001111")],
)
def test_blocks_are_as_equal_as_capacities_allow(capacities: Sequence[int], expected: str) -> None:
    assert "".join(map(str, place_in_blocks(7, capacities))) == expected


@pytest.mark.parametrize(
    ("capacities", "expected"), [((9, 9, 9), "0120120"), ((9, 1, 9), "0120202"), ((0, 9), "1111111")]
)
def test_round_robin_skips_full_hosts(capacities: Sequence[int], expected: str) -> None:
    assert "".join(map(str, place_round_robin(7, capacities))) == expected


@pytest.mark.parametrize(
    ("ranks", "capacities", "interfaces", "expected"),
    [
        (3, (9, 9), (4, 4), "000"),
        (6, (9, 9), (4, 4), "000011"),
        (8, (9, 9), (4, 4), "00001111"),
        (9, (9, 9), (4, 4), "000000001"),
        (5, (2, 9), (4, 4), "00111"),
        (7, (2, 9), (4, 4), "0011111"),
        (0, (2, 9), (4, 4), ""),
    ],
)
def test_rails_fill_every_interface_once_before_any_gets_a_second_rank(
    ranks: int, capacities: Sequence[int], interfaces: Sequence[int], expected: str
) -> None:
    assert "".join(map(str, place_on_rails(ranks, capacities, interfaces))) == expected


def test_a_mapping_is_taken_as_written_and_may_name_more_ranks() -> None:
    assert place_as_mapped(3, {2: 0, 0: 1, 1: 1, 7: 0}, (1, 2)) == [1, 1, 0]


def test_a_mapping_must_name_every_rank() -> None:
    with pytest.raises(PlanError, match="rank 1 has no host: the topology's placement covers only 2 of 3 ranks"):
        place_as_mapped(3, {0: 0, 2: 0}, (9,))


def test_a_mapping_cannot_overfill_a_host() -> None:
    with pytest.raises(PlanError, match=r"the placement puts 3 ranks on hosts\[1\], which has room for 2"):
        place_as_mapped(3, {0: 1, 1: 1, 2: 1}, (9, 2))


def on_two_rails(ranks: int, capacities: Sequence[int]) -> list[int]:
    return place_on_rails(ranks, capacities, [2] * len(capacities))


POLICIES = pytest.mark.parametrize("place", [place_in_blocks, place_round_robin, on_two_rails])


@POLICIES
def test_too_many_ranks_are_refused(place: Callable[[int, Sequence[int]], list[int]]) -> None:
    assert sorted(place(5, (2, 3))) == [0, 0, 1, 1, 1]
    message = "the trace has 6 ranks, but the hosts have room for only 5: add hosts or slots"
    with pytest.raises(PlanError, match=message):
        place(6, (2, 3))


@POLICIES
@given(capacities=st.lists(st.integers(0, 9), min_size=1, max_size=6), data=st.data())
def test_every_rank_has_a_host_and_no_host_too_many(
    place: Callable[[int, Sequence[int]], list[int]], capacities: list[int], data: st.DataObject
) -> None:
    ranks = data.draw(st.integers(0, sum(capacities)))
    placed = place(ranks, capacities)
    assert len(placed) == ranks
    assert all(count <= capacities[host] for host, count in Counter(placed).items())


@given(capacities=st.lists(st.integers(0, 9), min_size=1, max_size=6), data=st.data())
def test_blocks_keep_consecutive_ranks_together(capacities: list[int], data: st.DataObject) -> None:
    placed = place_in_blocks(data.draw(st.integers(0, sum(capacities))), capacities)
    assert placed == sorted(placed)


def test_hosts_without_room_do_not_count_in_shares() -> None:
    assert place_in_blocks(6, [UNLIMITED, 0, UNLIMITED, 0, 0]) == [0, 0, 0, 2, 2, 2]
    assert place_on_rails(4, [UNLIMITED, 0, UNLIMITED], [2, 1, 2]) == [0, 0, 2, 2]


GBIT = 10**9
FIRST = "hosts:\n- name: h0\n  address: 10.0.0.1\n"
UNSAFE = "is outside loopback, 198.18.0.0/15, documentation and private ranges: name its prefix with --allow-network"
ONE_OF_FOUR = "needs exactly one of address, addresses, per_rank and interfaces"


def hosts(*entries: str) -> str:
    return "hosts:\n" + "".join(f"- {{name: h{number}, {entry}}}\n" for number, entry in enumerate(entries))


def interfaces(*entries: str) -> str:
    return hosts("interfaces: [" + ", ".join(f"{{{entry}}}" for entry in entries) + "]")


def test_a_host_has_one_interface_unless_it_lists_several(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, hosts("address: 10.0.0.1, rate: 100Gbit, mtu: 9000"))
    assert topology.hosts[0].interfaces == (Interface("eth0", 100 * GBIT, 9000, ("10.0.0.1",), shared=True),)
    assert topology.hosts[0].rate_bps == 100 * GBIT


def test_addresses_are_normalised_and_may_be_of_both_versions(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, hosts("addresses: ['10.0.0.8', 'FD00:0::09']"))
    assert topology.addresses == ("10.0.0.8", "fd00::9")
    assert topology.is_ipv6


def test_interfaces_take_rate_and_mtu_of_their_host_unless_they_have_their_own(tmp_path: Path) -> None:
    text = hosts(
        "rate: 1Gbit, mtu: 9000, interfaces: [{name: a, address: 10.0.0.1},"
        " {name: b, address: 10.0.0.2, rate: 2Gbit, mtu: 1500}]"
    )
    (host,) = write_topology(tmp_path, text).hosts
    assert [(port.rate_bps, port.mtu) for port in host.interfaces] == [(GBIT, 9000), (2 * GBIT, 1500)]
    assert host.rate_bps is None


@pytest.mark.parametrize(
    ("interface", "capacity"),
    [
        (Interface("e", addresses=("10.0.0.1",), shared=True), UNLIMITED),
        (Interface("e", addresses=("10.0.0.1", "10.0.0.2")), 2),
        (Interface("e", prefix="10.0.0.0/24"), 254),
        (Interface("e", prefix="10.0.0.0/30"), 2),
        (Interface("e", prefix="10.0.0.0/31"), 2),
        (Interface("e", prefix="10.0.0.1/32"), 1),
        (Interface("e", prefix="fd00::/126"), 3),
        (Interface("e", prefix="fd00::/127"), 2),
    ],
)
def test_capacity_of_an_interface(interface: Interface, capacity: int) -> None:
    assert interface_capacity(interface) == capacity


@pytest.mark.parametrize(
    ("rates", "common"), [([5, 5], 5), ([5, 6], None), ([5, None], None), ([None], None), ([], None)]
)
def test_a_common_rate_is_one_that_all_have(rates: list[int | None], common: int | None) -> None:
    assert common_rate_bps(Interface("e", rate) for rate in rates) == common


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nhosts:\n- {name: h0}", f"t.yaml:3, hosts[0]: {ONE_OF_FOUR}"),
        (hosts("address: 10.0.0.1, per_rank: 10.0.0.0/8"), f"t.yaml:2, hosts[0]: {ONE_OF_FOUR}"),
        (interfaces("name: e"),
         "t.yaml:2, hosts[0].interfaces[0]: needs exactly one of address, addresses and per_rank"),
        (interfaces("name: e, addres: 10.0.0.1"),
         "t.yaml:2, hosts[0].interfaces[0]: unknown key 'addres'; did you mean 'address'?"),
        (interfaces("name: e, address: 10.0.0.1", "name: e, address: 10.0.0.2"),
         "t.yaml:2, hosts[0].interfaces[1].name: there is already an interface named 'e'"),
        ("hosts:\n- {address: 10.0.0.1}", "t.yaml:2, hosts[0]: the key 'name' is missing"),
        ("hosts:\n- {name: '', address: 10.0.0.1}", "t.yaml:2, hosts[0].name: expected text of length >= 1"),
        ("hosts:\n- {name: h, address: 10.0.0.1}\n- {name: h, address: 10.0.0.2}",
         "t.yaml:3, hosts[1].name: there is already a host named 'h'"),
        (FIRST.replace("10.0.0.1", "lab7"), "t.yaml:3, hosts[0].address: 'lab7' is not a numeric IP address"),
        (FIRST.replace("10.0.0.1", "fc00::1%eth0"),
         "t.yaml:3, hosts[0].address: 'fc00::1%eth0' is not a numeric IP address"),
        ("hosts:\n- name: h0\n  addresses:\n  - 10.0.0.1\n  - x",
         "t.yaml:5, hosts[0].addresses[1]: 'x' is not a numeric IP address"),
        ("hosts:\n- name: h0\n  per_rank: 10.0.0.1/8",
         ("t.yaml:3, hosts[0].per_rank: '10.0.0.1/8' is not a prefix (10.0.0.1/8 has host bits set);"
         " write one such as 127.1.0.0/16")),
        (FIRST + "  rate: fast",
         "t.yaml:4, hosts[0].rate: 'fast' is not a rate: give a number with a unit, such as 100Gbit or 400Mbit"),
        (FIRST + "  rate: 100", "t.yaml:4, hosts[0].rate: has no unit; if it is a name, put it in quotes"),
        (FIRST + "  rate: 0bit",
         "t.yaml:4, hosts[0].rate: a port cannot have rate 0; delete the rate if it is unknown"),
        (FIRST + "  rat: 1Gbit", "t.yaml:2, hosts[0]: unknown key 'rat'; did you mean 'rate'?"),
        (FIRST + "  mtu: 575", "t.yaml:4, hosts[0].mtu: expected int >= 576"),
        (FIRST + "  mtu: 65536", "t.yaml:4, hosts[0].mtu: expected int <= 65535"),
        (FIRST + "  slots: 0", "t.yaml:4, hosts[0].slots: expected int >= 1"),
        (hosts("address: 10.0.0.1", "address: 8.8.8.8"), f"t.yaml:3, hosts[1]: 8.8.8.8 {UNSAFE}"),
        (hosts("per_rank: 8.0.0.0/8"), f"t.yaml:2, hosts[0]: 8.0.0.0/8 {UNSAFE}"),
    ],
)  # fmt: skip
def test_a_wrong_host_is_reported_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    assert topology_error(tmp_path, text) == message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("address: 10.0.0.1", "address: 10.0.0.1"),
        ("per_rank: 10.0.0.0/8", "address: 10.3.0.1"),
        ("address: 10.3.0.1", "per_rank: 10.0.0.0/8"),
        ("per_rank: 10.0.0.0/8", "per_rank: 10.1.0.0/16"),
        ("addresses: [10.0.0.1, 10.0.0.2]", "addresses: [10.0.0.3, 10.0.0.2]"),
    ],
)
def test_two_hosts_cannot_share_an_address(tmp_path: Path, one: str, other: str) -> None:
    message = "t.yaml:3, hosts[1]: host h1 and h0 share addresses"
    assert topology_error(tmp_path, hosts(one, other)) == message


def test_an_allowed_prefix_makes_an_address_usable(tmp_path: Path) -> None:
    assert write_topology(tmp_path, hosts("address: 8.8.8.8"), allow=("8.8.8.0/24",)).addresses == ("8.8.8.8",) * 2


def test_a_peer_has_an_address_and_an_exchange_and_takes_no_ranks(tmp_path: Path) -> None:
    peers = ("address: 10.0.0.9, peer: {}", "address: 10.0.0.8, peer: {port: 7, exchange: 10.2.0.1}")
    topology = write_topology(tmp_path, hosts("per_rank: 10.1.0.0/24", *peers) + "placement: round_robin\n", ranks=3)
    assert [host.peer for host in topology.hosts] == [
        None,
        Peer("10.0.0.9", "10.0.0.9", 18515),
        Peer("10.0.0.8", "10.2.0.1", 7),
    ]
    assert topology.host_index == (0, 0, 0)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("addresses: [10.0.0.1], peer: {}", "a peer has only one address: use the key address"),
        ("address: 10.0.0.1, slots: 2, peer: {}", "a peer has no ranks: delete slots"),
        ("address: 10.0.0.1, peer: {port: 0}", "expected int >= 1"),
        ("address: 10.0.0.1, peer: {exchange: there}", "'there' is not a numeric IP address"),
        ("address: 10.0.0.1, peer: {exchange: 8.8.8.8}", "8.8.8.8 is outside loopback"),
        ("address: 8.8.8.8, peer: {}", "8.8.8.8 is outside loopback"),
    ],
)
def test_a_peer_that_cannot_be_is_refused(tmp_path: Path, entry: str, problem: str) -> None:
    assert problem in str(topology_error(tmp_path, hosts(entry)))


def test_a_host_may_have_a_scale_up_domain(tmp_path: Path) -> None:
    text = hosts("per_rank: 10.0.0.0/24, domain: {rate: 450GB/s, latency: 2us}", "address: 10.0.1.1")
    topology = write_topology(tmp_path, text, ranks=4)
    assert [host.domain for host in topology.hosts] == [Domain(3_600 * GBIT, 2_000), None]
    assert [topology.domain_of(rank) for rank in range(4)] == [0, 0, None, None]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("address: 10.0.0.1, domain: {latency: 2us}", "rate"),
        ("address: 10.0.0.1, domain: {rate: 0Gbit}", "a port cannot have rate 0"),
        ("address: 10.0.0.1, domain: {rate: 1GB}", "is not a rate"),
        ("address: 10.0.0.1, domain: {rate: 1GB/s, latency: 2}", "latency"),
        ("address: 10.0.0.1, storage: true, domain: {rate: 1GB/s}", "delete domain"),
        ("address: 10.0.0.1, peer: {}, domain: {rate: 1GB/s}", "delete domain"),
    ],
)
def test_a_domain_needs_a_rate_and_ranks(tmp_path: Path, entry: str, problem: str) -> None:
    assert problem in topology_error(tmp_path, hosts(entry))
