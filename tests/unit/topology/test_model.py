"""A topology without a file: loopback, and hosts with one port each."""

import pytest

from emulator.errors import PlanError
from emulator.topology.model import LOOPBACK_BLOCKS, Host, Topology, default_loopback
from emulator.topology.network import ASSUMED_SWITCH, Interface
from tests.support.topologies import shipped_topology

GBIT = 10**9


@pytest.mark.parametrize("ranks", [1, 8, 1024, 70_000])
def test_loopback_gives_every_rank_its_own_address(ranks: int) -> None:
    topology = default_loopback(ranks)
    addresses = {topology.address_of(rank) for rank in range(ranks)}
    assert len(addresses) == ranks
    assert all(address.startswith("127.") for address in addresses)
    assert topology.rate_bps(ranks - 1) is None


def test_blocks_of_loopback_do_not_overlap() -> None:
    blocks = [set(default_loopback(1024, block=block).addresses) for block in range(LOOPBACK_BLOCKS)]
    assert len(set.union(*blocks)) == 1024 * LOOPBACK_BLOCKS
    assert all(address.startswith("127.") for addresses in blocks for address in addresses)
    assert default_loopback(8, block=LOOPBACK_BLOCKS) == default_loopback(8)


def test_more_ranks_than_a_block_start_at_the_first() -> None:
    assert default_loopback(65_535, block=1).addresses[0] == "127.2.0.1"
    assert default_loopback(65_536, block=1).addresses[0] == "127.1.0.1"


def test_loopback_has_an_end() -> None:
    most = (255 << 16 | 255 << 8 | 255) - (1 << 16 | 1)
    with pytest.raises(PlanError, match=f"loopback has too few addresses for {most + 1} ranks; give a --topology"):
        default_loopback(most + 1)


def test_a_host_without_interfaces_has_one_port() -> None:
    topology = Topology("t", (Host("a", GBIT), Host("b")), (1, 0, 1), ("10.0.0.1", "10.0.0.2", "10.0.0.3"))
    assert topology.interface_of(1) == Interface("eth0", GBIT)
    assert [topology.port_of(rank) for rank in range(3)] == [(1, 0), (0, 0), (1, 0)]
    assert [topology.rate_bps(rank) for rank in range(3)] == [None, GBIT, None]
    assert not topology.is_ipv6


def test_without_links_all_hosts_are_at_one_switch_without_limits() -> None:
    network = shipped_topology("two-hosts", ranks=2).network
    assert not network.is_drawn
    assert [link.ends[1].node for link in network.links] == [ASSUMED_SWITCH] * 2
    assert [link.rate_bps for link in network.links] == [100 * GBIT] * 2
    assert len(default_loopback(3).network.links) == 1


def test_the_link_mtu_is_the_smallest_that_a_link_has() -> None:
    assert shipped_topology("two-hosts", ranks=2).link_mtu is None
    ports = (Interface("e0", mtu=9000), Interface("e1", mtu=1500), Interface("e2"))
    assert Topology("t", (Host("a", interfaces=ports),), (), ()).link_mtu == 1500
