"""Addresses of ranks that an agent adds to its interfaces for a run, and removes."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network

import pytest

from agents.host.leased_addresses import leased
from agents.host.ports import Ports
from emulator.control.conversation import JobSetup, RankPlace, Setup
from emulator.errors import HostError
from emulator.host.iproute import HeldAddress

FOREVER = (1 << 32) - 1


class Host:
    """In place of `iproute`: records changes.

    `held` and `prefixes` are what its interfaces have, `elsewhere` what others reach.
    """

    def __init__(self) -> None:
        self.held: dict[str, HeldAddress] = {}
        self.prefixes: Collection[str] = []
        self.elsewhere: dict[str, str] = {}
        self.changes: list[tuple[list[str], bool]] = []

    def held_addresses(self, interface: str) -> dict[str, HeldAddress]:
        return self.held

    def routed_prefixes(self, interface: str, *, is_v6: bool) -> list[IPv4Network | IPv6Network]:
        return [ip_network(one) for one in self.prefixes]

    def prefixes_elsewhere(self, interface: str, *, is_v6: bool, protocol: int) -> dict[IPv4Network | IPv6Network, str]:
        return {ip_network(one): name for one, name in self.elsewhere.items()}

    def change(self, commands: Sequence[str], *, goes_on: bool = False) -> None:
        self.changes.append((list(commands), goes_on))


@pytest.fixture
def host() -> Host:
    return Host()


def test_second_addresses_are_leased_at_their_interfaces(host: Host) -> None:
    place = RankPlace(0, "192.0.2.7", 1, 1, "eth0", alternate="198.51.100.7", alternate_interface="eth1")
    setup = Setup({0: JobSetup("run", [place], "roce", 1, 0, settings=None)})

    async def run() -> Mapping[str, str]:
        async with leased(Ports(["eth0", "eth1"]), setup, kernel=host) as devices:
            return dict(devices)

    assert asyncio.run(run()) == {"192.0.2.7": "eth0", "198.51.100.7": "eth1"}
    assert [line.split()[2] for line in host.changes[0][0]] == ["192.0.2.7/32", "198.51.100.7/32"]
    with pytest.raises(HostError, match="rank 0 uses eth1, but the agent has eth0"):
        Ports(["eth0"]).devices(setup.address_users)


@pytest.mark.parametrize("is_there", [False, True])
def test_routes_from_second_addresses_go_through_their_interface(host: Host, *, is_there: bool) -> None:
    place = RankPlace(0, "192.0.2.87", 1, 1, "eth0", alternate="198.51.100.87", alternate_interface="eth1")
    jobs = {0: JobSetup("run", [place], "roce", 1, 0, settings=None)}
    setup = Setup(jobs, ["192.0.2.128/25"], alternate_networks=["198.51.100.128/25"])
    if is_there:  # with the routes that whoever added it wants
        host.held = {"198.51.100.87": HeldAddress("198.51.100.87", 24, FOREVER)}

    async def run() -> None:
        async with leased(Ports(["eth0", "eth1"]), setup, kernel=host):
            pass

    asyncio.run(run())
    routes = [line for line in host.changes[0][0] if line.startswith("route")]
    second = ["route replace 198.51.100.128/25 dev eth1 src 198.51.100.87 proto 196 scope link metric 2048"]
    assert routes == [
        "route replace 192.0.2.128/25 dev eth0 src 192.0.2.87 proto 196 scope link",
        *([] if is_there else second),
    ]
    removed = [line.partition(" ")[0] for line in host.changes[1][0]]
    assert removed == ["route"] * len(routes) + ["address"] * len(routes)
    host.elsewhere = {"198.51.100.0/24": "mgmt0"}
    if not is_there:
        with pytest.raises(HostError, match=r"198\.51\.100\.128/25, which this machine reaches through mgmt0"):
            asyncio.run(run())


def lease(
    host: Host, interfaces: Sequence[str] | None, *addresses: str, networks: Sequence[str] = ()
) -> Mapping[str, str]:
    places = [RankPlace(rank, address, 1, 1, f"eth{rank}") for rank, address in enumerate(addresses)]
    setup = Setup({0: JobSetup("run", places, "roce", 1, 0, settings=None)}, networks)

    async def run() -> Mapping[str, str]:
        async with leased(None if interfaces is None else Ports(interfaces), setup, kernel=host) as devices:
            return dict(devices)

    return asyncio.run(run())


def test_an_agent_without_ports_changes_nothing(host: Host) -> None:
    assert lease(host, None, "192.0.2.1") == {}
    assert host.changes == []


def test_a_missing_address_has_a_lifetime_and_goes_after_the_run(host: Host) -> None:
    assert lease(host, ["eth0"], "192.0.2.1") == {"192.0.2.1": "eth0"}
    (added, stops), (removed, goes_on) = host.changes
    assert added == ["address replace 192.0.2.1/32 dev eth0 label eth0:lease valid_lft 180 preferred_lft 180"]
    assert removed == ["address del 192.0.2.1/32 dev eth0"]
    assert (stops, goes_on) == (False, True), "the first failure counts on the way in; all is removed on the way out"


def test_a_permanent_address_is_left_alone_and_a_leased_one_is_renewed(host: Host) -> None:
    host.held = {"192.0.2.1": HeldAddress("192.0.2.1", 24, FOREVER), "192.0.2.2": HeldAddress("192.0.2.2", 32, 20)}
    lease(host, ["eth0", "eth1"], "192.0.2.1", "192.0.2.2")
    added, removed = (commands for commands, _ in host.changes)
    assert [command.split()[2] for command in added] == ["192.0.2.2/32"]
    assert removed == ["address del 192.0.2.2/32 dev eth1"]


def test_loopback_addresses_are_never_added(host: Host) -> None:
    lease(host, ["lo"], "127.0.0.2")
    assert [commands for commands, _ in host.changes] == [[], []]


def test_routes_to_other_ranks_use_the_leased_address_and_are_removed_before_it(host: Host) -> None:
    host.prefixes = ["198.51.100.0/24"]
    lease(host, ["eth0"], "192.0.2.1", networks=["192.0.2.128/25", "198.51.100.64/26", "127.0.0.0/8"])
    added, removed = (commands for commands, _ in host.changes)
    assert added[1:] == ["route replace 192.0.2.128/25 dev eth0 src 192.0.2.1 proto 196 scope link"]
    assert removed == [
        "route del 192.0.2.128/25 dev eth0 src 192.0.2.1 proto 196 scope link",
        "address del 192.0.2.1/32 dev eth0",
    ]


@pytest.mark.parametrize("network", ["192.0.2.0/24", "192.0.2.128/25", "192.0.2.9/32"])
def test_a_route_takes_nothing_from_another_interface(network: str, host: Host) -> None:
    host.elsewhere = {"192.0.2.0/24": "mgmt0"}
    with pytest.raises(HostError, match=rf"a route to {network}, which this machine reaches through mgmt0"):
        lease(host, ["eth0"], "198.51.100.1", networks=[network])
    assert not host.changes, "nothing is added"


def test_a_route_may_be_wider_than_one_of_another_interface_or_be_there_by_hand(host: Host) -> None:
    host.elsewhere = {"192.0.2.0/26": "mgmt0"}
    lease(host, ["eth0"], "198.51.100.1", networks=["192.0.2.0/24"])
    assert host.changes[0][0][1].startswith("route replace 192.0.2.0/24 dev eth0")
    host.elsewhere = host.prefixes = {"192.0.2.0/24": "mgmt0"}
    lease(host, ["eth0"], "198.51.100.1", networks=["192.0.2.0/24"])
    assert len(host.changes[2][0]) == 1


def test_several_interfaces_get_no_routes(host: Host) -> None:
    lease(host, ["eth0", "eth1"], "192.0.2.1", "192.0.2.2", networks=["192.0.2.128/25"])
    assert not any(command.startswith("route") for commands, _ in host.changes for command in commands)


def test_routes_of_ipv6_expire_as_the_addresses_do(host: Host) -> None:
    lease(host, ["eth0"], "2001:db8::1", networks=["2001:db8:1::/64"])
    added, removed = (commands for commands, _ in host.changes)
    address = "2001:db8::1/128 dev eth0"
    assert added == [
        f"address replace {address} nodad noprefixroute valid_lft 180 preferred_lft 180",
        "route replace 2001:db8:1::/64 dev eth0 src 2001:db8::1 proto 196 expires 180",
    ]
    assert removed == ["route del 2001:db8:1::/64 dev eth0 src 2001:db8::1 proto 196", f"address del {address}"]


def test_a_label_that_would_be_too_long_is_left_out(host: Host) -> None:
    lease(host, ["enp129s0f1np1"], "192.0.2.1")
    assert "label" not in host.changes[0][0][0]


async def test_two_agents_cannot_play_at_one_address_at_once(host: Host) -> None:
    setup = Setup({0: JobSetup("run", [RankPlace(0, "192.0.2.77", 1, 1, "eth0")], "roce", 1, 0, settings=None)})
    async with leased(Ports(["eth0"]), setup, kernel=host):
        changes = len(host.changes)
        with pytest.raises(HostError, match=r"another agent of this host plays a run at 192\.0\.2\.77"):
            async with leased(Ports(["eth0"]), setup, kernel=host):
                pass
        assert len(host.changes) == changes
    async with leased(Ports(["eth0"]), setup, kernel=host):
        pass
