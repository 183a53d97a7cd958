"""The next hop of a packet: from a port, through bridges, to the host or router that receives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emulator.device.lab.model import ROUTER
from emulator.errors import PlanError
from emulator.topology.network import End, Link, Network
from emulator.topology.paths import Paths


@dataclass(frozen=True, slots=True)
class RouteStep:
    """From `out`, a port of the current node, to `to`, a port of a host or router."""

    out: End
    to: End


class LabNextHops:
    """Next hops through a network; bridges are not hops.

    Args:
        network: its switches are bridges (of either kind) or routers.

    Raises:
        PlanError: bridges form a loop.
    """

    def __init__(self, network: Network) -> None:
        self._network, self._paths = network, Paths(network)
        self._bridges = {switch.name for switch in network.switches if switch.kind != ROUTER}
        self._links: dict[str, list[Link]] = {}
        for link in network.links:
            for end in link.ends:
                self._links.setdefault(end.node, []).append(link)
        self._refuse_loops()

    def from_host(self, source: End, destination: End) -> RouteStep | None:
        """From a host's interface towards another's; None if no path leads there."""
        link = next(link for link in self._links[source.node] if source in link.ends)
        to = self._landing(link.other(source.node), destination)
        return RouteStep(source, to) if to is not None else None

    def from_router(self, router: str, destination: End) -> list[RouteStep]:
        """From a router towards a host's interface: all hops of equal cost, or those of configured routes."""
        steps = []
        for link in self._paths.next_hops(router, destination.node, destination.port):
            to = self._landing(link.other(router), destination)
            if to is not None:
                steps.append(RouteStep(next(end for end in link.ends if end.node == router), to))
        return steps

    def behind(self, bridge: str) -> Iterator[RouteStep]:
        """Every port of a host or router that frames of a bridge can reach, and the port that leads there."""
        for link in self._links.get(bridge, []):
            out = link.ends[0] if link.ends[0].node == bridge else link.ends[1]
            for to in self._reached(link.other(bridge), link):
                yield RouteStep(out, to)

    def _landing(self, end: End, destination: End) -> End | None:
        while end.node in self._bridges:
            links = self._paths.next_hops(end.node, destination.node, destination.port)
            if not links:
                return None
            end = links[0].other(end.node)
        is_wrong_host = end.node in self._network.interfaces and end != destination
        return None if is_wrong_host else end

    def _reached(self, end: End, by: Link) -> Iterator[End]:
        if end.node not in self._bridges:
            yield end
            return
        for link in self._links[end.node]:
            if link is not by:
                yield from self._reached(link.other(end.node), link)

    def _refuse_loops(self) -> None:
        root = {name: name for name in self._bridges}
        for link in self._network.links:
            one, other = (end.node for end in link.ends)
            if one in root and other in root:
                one, other = _root(root, one), _root(root, other)
                if one == other:
                    raise PlanError(
                        f"{link} closes a loop of bridges, in which frames would circulate forever: use kind router"
                    )
                root[one] = other


def _root(root: dict[str, str], name: str) -> str:
    while root[name] != name:
        name = root[name]
    return name
