"""Where flows alongside the job play: hosts of the topology, and addresses that no rank uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from emulator.control.flows import FlowTask
from emulator.errors import PlanError
from emulator.topology.model import Host, Topology
from emulator.topology.network import Interface

_MORE_ADDRESSES = 1 << 10
_RANK = re.compile(r"rank (\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFlow:
    """A flow that can be played, or one end of it if both are ends of ours.

    Attributes:
        task: for its agent.
        host, interface: of the topology that play it.
        peer_address: the only address that it sends to.
        parameter: its name in the manifest; "": another end has it.
        about: what it is, for people.
        instruction: what somebody must do at the peer; "": nothing.
        row: columns of the table of flows that are known before it is played.
    """

    task: FlowTask
    host: str
    interface: str
    peer_address: str
    parameter: str
    about: str
    instruction: str = ""
    row: Mapping[str, Any]


def find_host(topology: Topology, name: str, where: str) -> tuple[Host, Interface]:
    """The host and interface of `host`, of `host:interface`, or of `rank 3`.

    Raises:
        PlanError: the topology has none of that name.
    """
    if rank := _RANK.fullmatch(name):
        if int(rank[1]) >= topology.ranks:
            raise PlanError(f"{where}: there is no {name}; the last one is rank {topology.ranks - 1}")
        return topology.host_of(int(rank[1])), topology.interface_of(int(rank[1]))
    if topology.source is None:
        raise PlanError(f"{where}: without --topology there are no hosts: give a rank such as 'rank 0', not {name!r}")
    hosts = {host.name: host for host in topology.hosts if host.peer is None}
    host, _, port = (name, "", "") if name in hosts else name.rpartition(":")
    if host not in hosts:
        raise PlanError(f"{where}: there is no host {name!r} in {topology.source}; there are {', '.join(hosts)}")
    interfaces = {interface.name: interface for interface in hosts[host].interfaces}
    if port and port not in interfaces:
        raise PlanError(f"{where}: host {host} has no interface {port!r}; it has {', '.join(interfaces)}")
    return hosts[host], interfaces[port] if port else next(iter(interfaces.values()))


class FreeAddresses:
    """Addresses of interfaces that no rank uses: the last ones of a prefix or list.

    Args:
        topology: with a place for every rank.
        is_rocev2: ranks use UDP port 4791 of their addresses.
    """

    def __init__(self, topology: Topology, *, is_rocev2: bool) -> None:
        self._is_rocev2, self._used = is_rocev2, set(topology.addresses)
        self._last = topology.addresses[-1] if topology.source is None else None
        self._pools: dict[tuple[str, str], Iterator[str]] = {}

    def take(self, host: Host, interface: Interface, where: str) -> str:
        """One that nobody uses.

        Raises:
            PlanError: there is none.
        """
        pool = self._pools.setdefault((host.name, interface.name), self._pool(interface))
        address = next(pool, None)
        if address is None:
            what = "its address is that of its ranks" if interface.shared else "its ranks and flows use all addresses"
            raise PlanError(
                f"{where}: {interface.name} has no address left for the flow ({what}): add one in the "
                "topology, or use a larger prefix"
            )
        return address

    def _pool(self, interface: Interface) -> Iterator[str]:
        if interface.shared:
            if not self._is_rocev2 or interface.addresses[0] not in self._used:
                yield interface.addresses[0]
            return
        if interface.prefix is not None:
            network = ip_network(interface.prefix)
            last = int(network.broadcast_address) - (network.version == 4 and network.num_addresses > 2)
            first = int(network.network_address)
            numbers = range(last - first, 0, -1)
            candidates: Iterable[str] = (str(network.network_address + number) for number in numbers)
        elif self._last is not None:  # no file: all ranks are on loopback, and more addresses follow theirs
            last_rank = ip_address(self._last)
            candidates = (str(last_rank + number) for number in range(1, _MORE_ADDRESSES))
        else:
            candidates = reversed(interface.addresses)
        yield from (address for address in candidates if address not in self._used)
