"""What an agent may do, whatever its controller says: networks, and the rate of a port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from agents.host.ports import AddressUser, Ports
from emulator.control import conversation as control
from emulator.errors import HostError
from emulator.topology.safety import SAFE_NETWORKS, SAFE_NETWORKS_IN_WORDS, Network, contains
from emulator.transports.registry import PACED, transport_named

WIDEST_ROUTE: Mapping[int, int] = {4: 24, 6: 64}
"""Version of IP → length of the shortest prefix that an agent adds a route to."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that the owner of a machine sets, checked before an address is added or a packet sent.

    Attributes:
        networks: that the agent plays at and sends to.
        routes: networks that may have wider routes than WIDEST_ROUTE.
        addresses: the only ones, where a topology names them; None: all of the networks.
        rate_bps: most that leaves through an interface, of all ranks and runs together, bit/s, headers included; None:
            no limit. Transports pace to it themselves, see agents/nic/port.py; what the controller says is only
            checked, so that a run is not slower than it says.
    """

    networks: Sequence[Network] = SAFE_NETWORKS
    rate_bps: int | None = None
    routes: Sequence[Network] = ()
    addresses: frozenset[str] | None = None

    def check(self, setup: control.Setup, ports: Ports | None = None) -> None:
        """Check what a run asks of this agent.

        Args:
            setup: of the run.
            ports: of the agent; None: all interfaces count as one.

        Raises:
            HostError: an address or prefix is outside the networks, or a rate above the limit or not known.
        """
        places: Sequence[AddressUser] = setup.address_users
        for place in places:
            self.check_address(place.host, place.title)
        for prefix in (*setup.networks, *setup.alternate_networks):
            self.check_address(prefix, "a route of the run")
            self._check_route(ip_network(prefix))
        if self.rate_bps is not None:
            self._check_rates(setup, self.rate_bps, {} if ports is None else ports.devices(places))

    def check_places(self, places: control.Places) -> None:
        """Check where all ranks of a job are.

        Raises:
            HostError: one is outside the networks.
        """
        for rank, (host, _, alternate) in places.items():
            self.check_address(host, f"rank {rank}")
            if alternate is not None:
                self.check_address(alternate, f"rank {rank}")

    @staticmethod
    def check_routes(routes: Sequence[str], hosts: Sequence[str]) -> None:
        """Check that routes lead to ranks; those to single addresses may be for peers of flows.

        Args:
            routes: prefixes.
            hosts: addresses of the ranks of all jobs.

        Raises:
            HostError: there is no rank in one.
        """
        prefixes = [one for one in map(ip_network, routes) if one.num_addresses > 1 and not one.is_loopback]
        lengths = {(one.version, one.prefixlen) for one in prefixes}
        addresses = [ip_address(host) for host in hosts] if prefixes else []
        held = {
            ip_network((one, length), strict=False)
            for version, length in lengths
            for one in addresses
            if one.version == version
        }
        for prefix in prefixes:
            if prefix not in held:
                raise HostError(f"the run has a route to {prefix}, where none of its ranks is")

    def _check_route(self, prefix: Network) -> None:
        is_wide = prefix.prefixlen < WIDEST_ROUTE[prefix.version] and not prefix.is_loopback
        if is_wide and not any(contains(one, prefix) for one in self.routes):
            raise HostError(
                f"the run has a route to {prefix}, but this agent adds none wider than /{WIDEST_ROUTE[prefix.version]}:"
                f" start it with --route-network {prefix} to allow this"
            )

    def check_address(self, address: str, who: str) -> None:
        """Check an address or prefix of `who`.

        Raises:
            HostError: it is outside the networks.
        """
        network = ip_network(address)
        if self.addresses is not None:
            is_single = network.num_addresses == 1 and str(network.network_address) in self.addresses
            if not is_single and not any(ip_address(one) in network for one in self.addresses):
                raise HostError(f"{who} is at {address}, which the topology does not name")
            return
        if network.is_multicast or network.is_unspecified or not any(contains(one, network) for one in self.networks):
            raise HostError(
                f"{who} is at {address}, but this agent may use only {_listed(self.networks)}: start it with "
                f"--only-network {network} to allow this"
            )

    def _check_rates(self, setup: control.Setup, most_bps: int, devices: Mapping[str, str]) -> None:
        for flow in setup.flows:
            raise HostError(f"{flow.title} has no rate limit, but this agent has --max-rate")
        caps: dict[tuple[int, int, str], int] = {}
        for number, job in setup.jobs.items():
            if not transport_named(job.transport).is_paced:
                raise HostError(
                    f"the transport {job.transport} does not limit its rate, but this agent has --max-rate: use "
                    f"{' or '.join(PACED)}"
                )
            for place in job.ranks:
                if not place.port.cap_bps:
                    raise HostError(
                        f"{place.title} has no rate cap, but this agent has --max-rate: give the run a --rate-cap"
                    )
                key = number, place.port.number, devices.get(place.host, "")
                caps[key] = max(caps.get(key, 0), place.port.cap_bps)
        together = Counter[str]()
        for (_, _, device), cap_bps in caps.items():
            together[device] += cap_bps
        for cap_bps in together.values():
            if cap_bps > most_bps:
                raise HostError(
                    f"the run may send {cap_bps / 1e9:g} Gbit/s at a port, but this agent allows "
                    f"{most_bps / 1e9:g} Gbit/s (--max-rate)"
                )


def _listed(networks: Sequence[Network]) -> str:
    """For messages."""
    return SAFE_NETWORKS_IN_WORDS if networks is SAFE_NETWORKS else ", ".join(map(str, networks))
