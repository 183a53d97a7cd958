"""What descriptions of other tools have in common once they are read: hosts, switches and links without addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import count
from typing import Any

from emulator.topology.leaf_spine import BENCHMARK_PREFIX


@dataclass(slots=True)
class Foreign:
    """A description on its way to a topology file of our own.

    Attributes:
        hosts: host → interface → address, None if it has none; in the order of the file.
        switches: switch → kind.
        links: ends as `node:port`, with rate, mtu and latency where they are known.
        slots: host → ranks it takes.
        notes: what has no counterpart here, for the user.
    """

    name: str
    hosts: dict[str, dict[str, str | None]] = field(default_factory=dict)
    switches: dict[str, str] = field(default_factory=dict)
    links: list[dict[str, Any]] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def join(self, ends: tuple[str, str], facts: Mapping[str, Any]) -> None:
        """Add a link; an end at a host becomes an interface of it."""
        self.links.append({"endpoints": list(ends)} | {name: fact for name, fact in facts.items() if fact is not None})
        for end in ends:
            node, _, port = end.rpartition(":")
            if node in self.hosts:
                self.hosts[node].setdefault(port, None)

    def as_value(self) -> dict[str, Any]:
        """The same as the content of a topology file; what has no address gets the next of 198.18.0.0/15.

        Hosts without a link are left out, and noted.
        """
        addresses = self._free_addresses()
        connected = {host: ports for host, ports in self.hosts.items() if ports}
        for host in self.hosts.keys() - connected.keys():
            self.notes.append(f"host {host} has no link and is left out")
        hosts = [
            {"name": host, "interfaces": [_interface(port, at or next(addresses)) for port, at in ports.items()]}
            | ({"slots": self.slots[host]} if self.slots.get(host) else {})
            for host, ports in connected.items()
        ]
        switches = [{"name": name, "kind": kind} for name, kind in self.switches.items()]
        parts = {"hosts": hosts, "switches": switches, "links": self.links}
        return {"name": self.name} | {name: part for name, part in parts.items() if part}

    def _free_addresses(self) -> Iterator[str]:
        taken = {address for ports in self.hosts.values() for address in ports.values()}
        first = ip_network(BENCHMARK_PREFIX).network_address
        return (address for number in count(1) if (address := str(first + number)) not in taken)


def _interface(name: str, address: str) -> dict[str, str]:
    return {"name": name, "address": address}
