"""Shortest paths through a network: the equal-cost next hops at every switch, one destination at a time.

Nodes, links and ports are numbers, so that many flows can be followed in arrays. Nodes are the hosts, then the
switches, in the order of the network. Directed link 2l leads from the first end of link l to the second, 2l + 1 back.
Ports are the interfaces of all hosts in order. Hosts do not forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.topology.network import End, Link, Network

IntArray = npt.NDArray[np.int64]


class NextHops(NamedTuple):
    """Next hops towards one switch; at switch s they are the directed links `links[first[s]:first[s + 1]]`.

    Attributes:
        first: int64, shape (switches + 1,).
        links: int64, ascending within a switch; empty at the switch itself and where there is no path to it.
    """

    first: IntArray
    links: IntArray


class Paths:
    """Paths through one network.

    Attributes:
        network: the network.
        hosts: number of hosts; node numbers below this are hosts, the others switches.
        source, target: int64, shape (2 · links,): nodes that a directed link leads from and to.
        port_base: int64, shape (hosts + 1,): port number of a host's first interface.
        port_link: int64, shape (ports,): directed link out of a port; `^ 1` is the one into it.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        names = [*network.interfaces, *(switch.name for switch in network.switches)]
        self._node = {name: number for number, name in enumerate(names)}
        self._names = names
        self.hosts = len(network.interfaces)
        ends = np.array(
            [(self._node[one.node], self._node[other.node]) for one, other in (link.ends for link in network.links)],
            dtype=np.int64,
        ).reshape(-1, 2)
        self.source, self.target = ends.ravel(), ends[:, ::-1].ravel()
        counts = [len(ports) for ports in network.interfaces.values()]
        self.port_base = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self.port_link = self._port_links()
        self._known: dict[int, NextHops] = {}

    @property
    def switches(self) -> int:
        """Number of switches."""
        return len(self.network.switches)

    @property
    def ports(self) -> int:
        """Number of interfaces of all hosts."""
        return len(self.port_link)

    def node_name(self, node: int) -> str:
        """Name of a host or switch."""
        return self._names[node]

    def link_name(self, directed: int) -> str:
        """Name of a directed link: `leaf0:up1 > spine1:down0`."""
        one, other = self.network.links[directed >> 1].ends
        return f"{one} > {other}" if directed % 2 == 0 else f"{other} > {one}"

    def towards(self, switch: int) -> NextHops:
        """Next hops from every switch towards one of them (0 … switches - 1); computed once."""
        if switch not in self._known:
            self._known[switch] = self._next_hops(switch)
        return self._known[switch]

    def next_hops(self, switch: str, host: str, interface: str | None = None) -> Sequence[Link]:
        """Links on which a switch may send to a host: its explicit route, else all links on a shortest path.

        Args:
            switch: where the packet is.
            host: its destination.
            interface: interface of the host; None: its first.

        Returns:
            At the last switch, the link to the host; an empty sequence if there is no path.
        """
        here = self._node[switch]
        names = [port.name for port in self.network.interfaces[host]]
        port = int(self.port_base[self._node[host]]) + (names.index(interface) if interface else 0)
        pinned = self.pinned.get((here - self.hosts, port))
        if pinned is not None:
            return [self.network.links[directed >> 1] for directed in pinned]
        last = int(self.target[self.port_link[port]])
        if last == here:
            return [self.network.links[int(self.port_link[port]) >> 1]]
        if last < self.hosts:
            return []
        first, links = self.towards(last - self.hosts)
        mine = links[first[here - self.hosts] : first[here - self.hosts + 1]]
        return [self.network.links[int(directed) >> 1] for directed in mine]

    @cached_property
    def pinned(self) -> dict[tuple[int, int], list[int]]:
        """(switch, port) → directed links of the explicit route; the last of several routes for one port counts."""
        found: dict[tuple[int, int], list[int]] = {}
        for route in self.network.routes:
            here, host = self._node[route.switch], self._node[route.host]
            via = {self._node[name] for name in route.via}
            links = [int(link) for link in np.flatnonzero(self.source == here) if int(self.target[link]) in via]
            for number, port in enumerate(self.network.interfaces[route.host]):
                if route.interface in (None, port.name):
                    found[here - self.hosts, int(self.port_base[host]) + number] = links
        return found

    def _port_links(self) -> IntArray:
        directed: dict[End, int] = {}
        for number, link in enumerate(self.network.links):
            directed[link.ends[0]], directed[link.ends[1]] = 2 * number, 2 * number + 1
        listed = [directed[End(host, port.name)] for host, ports in self.network.interfaces.items() for port in ports]
        return np.array(listed, dtype=np.int64)

    @cached_property
    def _between_switches(self) -> IntArray:
        """Directed links from switch to switch, sorted by the switch they start at."""
        inner = np.flatnonzero((self.source >= self.hosts) & (self.target >= self.hosts))
        return inner[np.argsort(self.source[inner], kind="stable")]

    def _next_hops(self, switch: int) -> NextHops:
        inner = self._between_switches
        begin, end = self.source[inner] - self.hosts, self.target[inner] - self.hosts
        hops = np.full(self.switches, self.switches)  # more than there can be: no path
        hops[switch] = reached = 0
        while len(neighbours := begin[(hops[end] == reached) & (hops[begin] == self.switches)]):
            reached += 1
            hops[neighbours] = reached
        nearer = (hops[begin] < self.switches) & (hops[end] == hops[begin] - 1)
        counts = np.bincount(begin[nearer], minlength=self.switches)
        return NextHops(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), inner[nearer])
