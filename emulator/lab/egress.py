"""Through which interface traffic would leave: a run must load the ports that its topology names, and no others."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from emulator.errors import PlanError
from emulator.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Way:
    """From an address of a host's interface to an address elsewhere."""

    host: str
    interface: str
    source: str
    destination: str

    @property
    def is_loopback(self) -> bool:
        """Whether it never leaves the host, as its addresses say."""
        return ip_address(self.source).is_loopback


def ways(topology: Topology, ranks: Sequence[int]) -> Iterator[Way]:
    """From every port that has one of these ranks to every port of another host: one address stands for all."""
    first: dict[tuple[int, int], int] = {}
    for rank in range(topology.ranks):
        first.setdefault(topology.port_of(rank), rank)
    own = dict.fromkeys(topology.port_of(rank) for rank in ranks)
    for port in own:
        source = first[port]
        for there, destination in first.items():
            if there[0] != port[0]:
                yield Way(
                    topology.host_of(source).name,
                    topology.interface_of(source).name,
                    topology.address_of(source),
                    topology.address_of(destination),
                )


def require_egress(
    wanted: Sequence[Way], *, devices: Mapping[tuple[str, str], str], namespace: str | None = None
) -> None:
    """Refuse a run whose traffic would leave through another interface than the topology's.

    Args:
        wanted: from hosts that are all in one namespace.
        devices: (host, interface) → name of the device, where that is another one.
        namespace: where to look; None = where this process is.

    Raises:
        PlanError: there is no route, or it leads elsewhere.
    """
    for way, found in zip(wanted, _devices(wanted, namespace), strict=True):
        device = devices.get((way.host, way.interface), way.interface)
        if found != device:
            leaves = f"would leave through {found}" if found else "has no route"
            problem = f"traffic of {way.host}:{way.interface} from {way.source} to {way.destination} {leaves}"
            raise PlanError(f"{problem}, not through {device}: `ip route get {way.destination} from {way.source}`")


def _devices(wanted: Sequence[Way], namespace: str | None) -> list[str | None]:
    if not wanted:
        return []
    where = ("-n", namespace) if namespace is not None else ()
    asked = "".join(f"route get {way.destination} from {way.source}\n" for way in wanted)
    done = subprocess.run(
        ("ip", *where, "-oneline", "-force", "-batch", "-"), input=asked, capture_output=True, text=True, check=False
    )
    found: dict[tuple[str, str], str] = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if "dev" in words and "from" in words:
            start = 1 if words[0] == "local" else 0
            found[words[start], words[words.index("from") + 1]] = words[words.index("dev") + 1]
    return [found.get((way.destination, way.source)) for way in wanted]
