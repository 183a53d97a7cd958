"""Checks through which interface traffic leaves: a run must use only the ports that its topology names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from emulator.errors import PlanError
from emulator.host.tools import CommandBatch, attempt
from emulator.topology.model import Topology


@dataclass(frozen=True, slots=True)
class AddressPair:
    """A source address of a host's interface, and a destination address of another host."""

    host: str
    interface: str
    source: str
    destination: str

    @property
    def is_loopback(self) -> bool:
        """Whether traffic between them stays on the host."""
        return ip_address(self.source).is_loopback


def address_pairs(topology: Topology, ranks: Sequence[int]) -> Iterator[AddressPair]:
    """One pair from every port with one of these ranks to every port of another host; one address per port."""
    first: dict[tuple[int, int], int] = {}
    for rank in range(topology.endpoints):
        first.setdefault(topology.port_of(rank), rank)
    own = dict.fromkeys(topology.port_of(rank) for rank in ranks)
    for port in own:
        source = first[port]
        for there, destination in first.items():
            if there[0] != port[0]:
                yield AddressPair(
                    topology.host_of(source).name,
                    topology.interface_of(source).name,
                    topology.address_of(source),
                    topology.address_of(destination),
                )


def require_egress(
    wanted: Sequence[AddressPair],
    *,
    devices: Mapping[tuple[str, str], str],
    namespace: str | None = None,
    without_route: str = "`ip route` lists the routes",
) -> None:
    """Refuse a run whose traffic would not leave through the interfaces of the topology.

    Args:
        wanted: pairs to check; all their hosts are in the same namespace.
        devices: (host, interface) → name of the device, if it differs from that of the interface.
        namespace: where to look; None: the namespace of this process.
        without_route: what to do if there is no route.

    Raises:
        PlanError: there is no route, or it leads elsewhere.
    """
    for pair, found in zip(wanted, _devices(wanted, namespace), strict=True):
        device = devices.get((pair.host, pair.interface), pair.interface)
        traffic = f"traffic of {pair.host}:{pair.interface} from {pair.source} to {pair.destination}"
        if found is None:
            raise PlanError(f"{traffic} has no route: {without_route}")
        if found != device:
            problem = f"{traffic} would leave through {found}, not through {device}"
            raise PlanError(f"{problem}: `ip route get {pair.destination} from {pair.source}`")


def _devices(wanted: Sequence[AddressPair], namespace: str | None) -> list[str | None]:
    if not wanted:
        return []
    where = ("-n", namespace) if namespace is not None else ()
    asked = [f"route get {pair.destination} from {pair.source}" for pair in wanted]
    printed = attempt(CommandBatch(("ip", *where, "-oneline", "-force", "-batch", "-"), asked))
    found: dict[tuple[str, str], str] = {}
    for line in printed.splitlines():
        words = line.split()
        if "dev" in words and "from" in words:
            start = 1 if words[0] == "local" else 0
            found[words[start], words[words.index("from") + 1]] = words[words.index("dev") + 1]
    return [found.get((pair.destination, pair.source)) for pair in wanted]
