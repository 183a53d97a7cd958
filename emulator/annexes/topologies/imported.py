"""Topologies of other tools on their way to a topology file: hosts, switches and links, addresses optional."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import count
from typing import Any

FIRST_ADDRESS = ip_address("198.18.0.1")
"""Interfaces without an address get this one and those that follow. Source: RFC 2544, benchmarking."""


@dataclass(slots=True)
class ImportedTopology:
    """A topology of another tool, filled in while its file is read.

    Attributes:
        hosts: host → interface → address (None: not specified), in the order of the file.
        switches: switch → kind.
        links: entries of `links` in a topology file.
        slots: host → most ranks it takes.
        domains: host → its scale-up domain, as in a topology file.
        ranks: rank → its host; empty: not specified.
        notes: what has no counterpart in a topology file, for the user.
    """

    name: str
    hosts: dict[str, dict[str, str | None]] = field(default_factory=dict)
    switches: dict[str, str] = field(default_factory=dict)
    links: list[dict[str, Any]] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)
    domains: dict[str, dict[str, str]] = field(default_factory=dict)
    ranks: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add_link(self, ends: tuple[str, str], facts: Mapping[str, Any]) -> None:
        """Add a link between two `node:port`; an end at a host becomes an interface of that host.

        Args:
            ends: both ends.
            facts: rate, mtu and latency; None: not specified.
        """
        self.links.append({"endpoints": list(ends)} | {name: fact for name, fact in facts.items() if fact is not None})
        for end in ends:
            node, _, port = end.rpartition(":")
            if node in self.hosts:
                self.hosts[node].setdefault(port, None)

    def as_topology_file(self) -> dict[str, Any]:
        """The content of a topology file. Hosts without a link are left out, with a note."""
        addresses = self._free_addresses()
        connected = {host: ports for host, ports in self.hosts.items() if ports}
        self.notes += [f"host {host} has no link and is ignored" for host in self.hosts if host not in connected]
        hosts = [
            {"name": host, "interfaces": [_interface(port, at or next(addresses)) for port, at in ports.items()]}
            | ({"slots": self.slots[host]} if self.slots.get(host) else {})
            | ({"domain": self.domains[host]} if host in self.domains else {})
            for host, ports in connected.items()
        ]
        switches = [{"name": name, "kind": kind} for name, kind in self.switches.items()]
        placement = {str(rank): host for rank, host in self.ranks.items()}
        parts = {"hosts": hosts, "switches": switches, "links": self.links, "placement": placement}
        return {"name": self.name} | {name: part for name, part in parts.items() if part}

    def _free_addresses(self) -> Iterator[str]:
        taken = {address for ports in self.hosts.values() for address in ports.values()}
        return (address for number in count() if (address := str(FIRST_ADDRESS + number)) not in taken)


def _interface(name: str, address: str) -> dict[str, str]:
    return {"name": name, "address": address}
