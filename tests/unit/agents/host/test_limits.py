"""What the owner of a machine allows, a controller cannot widen."""

import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_network

import pytest

from agents.host.limits import Limits
from agents.host.ports import Ports
from emulator.control import conversation as control
from emulator.control.flows import FlowTask
from emulator.errors import HostError
from emulator.planner.network.port_shares import PortShare
from emulator.planner.rank_program import PlaySettings

SETTINGS = PlaySettings(credits=True, instances=1, algorithms=(), groups=())


def setup(*places: control.RankPlace, networks: Sequence[str] = (), flows: Sequence[FlowTask] = ()) -> control.Setup:
    return control.Setup({0: control.JobSetup("r", places, "roce", 1, 0, SETTINGS)}, networks, flows)


def rank(host: str, *, cap_bps: int = 0, port: int = 0) -> control.RankPlace:
    return control.RankPlace(0, host, 1, 1, f"eth{port}", PortShare(port, 0, cap_bps))


@pytest.mark.parametrize("host", ["127.0.0.1", "198.18.3.4", "10.1.2.3", "2001:db8::1"])
def test_addresses_for_tests_are_allowed(host: str) -> None:
    Limits().check(setup(rank(host)))
    Limits().check_places({3: control.Address(host, 4791)})


@pytest.mark.parametrize("host", ["1.1.1.1", "224.0.0.1", "0.0.0.0", "2606:4700::1111", "255.255.255.255", "ff02::1"])
def test_no_rank_plays_at_or_sends_to_another_address(host: str) -> None:
    with pytest.raises(HostError, match=re.escape(f"rank 0 is at {host}, but this agent may use only loopback")):
        Limits().check(setup(rank(host)))
    with pytest.raises(HostError, match=re.escape(f"rank 3 is at {host}")):
        Limits().check_places({0: control.Address("127.0.0.1", 1), 3: control.Address(host, 1)})
    with pytest.raises(HostError, match=re.escape(f"rank 0 is at {host}")):
        Limits().check(setup(replace(rank("127.0.0.1"), alternate=host)))
    with pytest.raises(HostError, match=re.escape(f"rank 3 is at {host}")):
        Limits().check_places({3: control.Address("127.0.0.1", 1, host)})


def test_routes_and_flows_are_addresses_too() -> None:
    flow = FlowTask(0, "perftest", "flow 0 (perftest, h0 to nic-a)", "8.8.8.8", "", "{}")
    with pytest.raises(HostError, match=r"flow 0 \(perftest, h0 to nic-a\) is at 8\.8\.8\.8"):
        Limits().check(setup(flows=[flow]))
    with pytest.raises(HostError, match=r"a route of the run is at 0\.0\.0\.0/0"):
        Limits().check(setup(networks=["0.0.0.0/0"]))


def test_where_a_topology_names_addresses_routes_lead_to_them_and_nowhere_else() -> None:
    limits = Limits(addresses=frozenset({"10.99.0.2", "10.99.0.3"}))
    limits.check(setup(rank("10.99.0.2"), networks=["10.99.0.3/32", "10.99.0.0/24"]))
    for host, networks in (("10.99.0.4", ()), ("10.99.0.2", ["10.99.0.4/32"]), ("10.99.0.2", ["10.99.1.0/24"])):
        with pytest.raises(HostError, match="which the topology does not name"):
            limits.check(setup(rank(host), networks=networks))


def test_networks_of_the_owner_take_the_place_of_the_default() -> None:
    limits = Limits([ip_network("203.0.112.0/20")])
    limits.check(setup(rank("203.0.119.1")))
    with pytest.raises(HostError, match=r"may use only 203\.0\.112\.0/20"):
        limits.check(setup(rank("10.0.0.1")))


TWO = Ports(("eth0", "eth1"))


def test_an_interface_sends_no_more_than_its_owner_allows() -> None:
    limits = Limits(rate_bps=10**10)
    limits.check(setup(rank("127.0.0.1", cap_bps=10**10), rank("127.0.0.2", cap_bps=10**9, port=1)), TWO)
    with pytest.raises(HostError, match=r"may send 25 Gbit/s at a port, but this agent allows 10 Gbit/s"):
        limits.check(setup(rank("127.0.0.1", cap_bps=10**9), rank("127.0.0.2", cap_bps=25 * 10**9, port=1)), TWO)
    with pytest.raises(HostError, match="flow 0 has no rate limit"):
        limits.check(setup(flows=[FlowTask(0, "perftest", "flow 0", "127.0.0.1", "", "{}")]))


def test_every_rank_has_a_cap_and_the_highest_of_a_port_counts() -> None:
    limits, capped = Limits(rate_bps=10**7), rank("127.0.0.1", cap_bps=1000)
    limits.check(setup(capped, capped))
    with pytest.raises(HostError, match="rank 0 has no rate cap"):
        limits.check(setup(rank("127.0.0.2"), capped))
    with pytest.raises(HostError, match="may send 100 Gbit/s at a port"):
        limits.check(setup(rank("127.0.0.2", cap_bps=10**11), capped))


@pytest.mark.parametrize("ports", [Ports(("eth0",)), Ports(())])
def test_names_of_the_topology_do_not_split_an_interface(ports: Ports) -> None:
    places = [rank("127.0.0.1", cap_bps=6 * 10**6), rank("127.0.0.2", cap_bps=6 * 10**6, port=1)]
    if ports.interfaces:
        places = [replace(place, interface="") for place in places]
    with pytest.raises(HostError, match=r"may send 0\.012 Gbit/s at a port"):
        Limits(rate_bps=10**7).check(setup(*places), ports)


@pytest.mark.parametrize("transport", ["zmq", "verbs"])
def test_a_transport_that_does_not_limit_its_rate_is_refused_where_the_owner_does(transport: str) -> None:
    asked = setup(rank("127.0.0.1", cap_bps=1000))
    asked = replace(asked, jobs={0: replace(asked.jobs[0], transport=transport)})
    Limits().check(asked)
    with pytest.raises(HostError, match=f"the transport {transport} does not limit its rate.*: use roce"):
        Limits(rate_bps=10**7).check(asked)


@pytest.mark.parametrize("wide", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/23", "fd00::/48"])
def test_routes_are_narrow_unless_the_owner_names_their_network(wide: str) -> None:
    Limits().check(setup(networks=["198.18.7.0/24", "fd00::/64", "127.2.0.0/16"]))
    with pytest.raises(HostError, match=rf"a route to {wide}, but this agent adds none wider .*--route-network {wide}"):
        Limits().check(setup(networks=[wide]))
    with pytest.raises(HostError, match="adds none wider"):
        Limits().check(replace(setup(), alternate_networks=[wide]))
    Limits(routes=[ip_network(wide)]).check(setup(networks=[wide]))


def test_routes_lead_to_ranks() -> None:
    routes = ["198.18.7.0/24", "fd00::/64", "198.18.9.9/32", "127.2.0.0/16"]
    Limits().check_routes(routes, ["198.18.7.200", "fd00::7", "127.0.0.1"])
    with pytest.raises(HostError, match=r"a route to 198\.18\.7\.0/24, where none of its ranks is"):
        Limits().check_routes(routes, ["198.18.6.200", "fd00::7"])
