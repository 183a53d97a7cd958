"""Finds the two interfaces of a probe: the one that sends and the one that receives."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from emulator.device.lab.model import Node
from emulator.device.lab.playing import LabPlace
from emulator.errors import InputError, PlanError
from emulator.topology.model import Topology
from emulator.topology.network import Interface


@dataclass(frozen=True, slots=True)
class Side:
    """An interface of the topology, and where it is on this machine.

    Attributes:
        host: the host of the topology.
        interface: one of its interfaces.
        device: the name of the interface where it is.
        namespace: the network namespace it is in; None: this process's own.
        node: the host in a lab; None outside labs.
    """

    host: str
    interface: Interface
    device: str
    namespace: str | None = None
    node: Node | None = None

    @property
    def address(self) -> str:
        """An address that ranks use there."""
        if self.interface.prefix is not None:
            return str(next(iter(ip_network(self.interface.prefix).hosts())))
        return self.interface.addresses[0]

    def next_mac(self, address: str) -> str | None:
        """The MAC address of the first hop to an address, as configured in the lab; None if it is not known."""
        if self.node is None:
            return None
        hops = [address] + [
            hop.address
            for route in self.node.routes
            if ip_address(address) in ip_network(route.prefix)
            for hop in route.hops
        ]
        known = {one.address: one.mac for one in self.node.neighbours if one.device == self.device}
        return next((known[hop] for hop in hops if hop in known), None)


def find_sides(topology: Topology, place: LabPlace | None, source: str, destination: str) -> tuple[Side, Side]:
    """The sides that the user named.

    Args:
        topology: has the interfaces.
        place: the lab they are in; None: this machine's own interfaces.
        source: HOST or HOST:PORT where to send frames; without a port, the host's first interface.
        destination: the same where to receive them.

    Raises:
        InputError: the topology has no such host or interface.
        PlanError: both are the same interface.
    """
    near, far = (_find_side(topology, place, text) for text in (source, destination))
    if (near.host, near.interface.name) == (far.host, far.interface.name):
        raise PlanError(f"--from and --to are both {near.host}:{near.interface.name}: name two interfaces")
    return near, far


def _find_side(topology: Topology, place: LabPlace | None, text: str) -> Side:
    host, _, port = text.partition(":")
    interfaces = topology.network.interfaces.get(host)
    if interfaces is None:
        raise InputError(f"there is no host {host!r}; hosts: {', '.join(topology.network.interfaces)}")
    interface = next((one for one in interfaces if port in ("", one.name)), None)
    if interface is None:
        raise InputError(f"host {host} has no interface {port!r}; it has {', '.join(one.name for one in interfaces)}")
    if place is None:
        return Side(host, interface, interface.name)
    node = next(node for node in place.state.design.nodes if node.name == host)
    return Side(host, interface, place.devices[host, interface.name], place.namespaces[host], node)
