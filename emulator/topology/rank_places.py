"""From hosts and a number of ranks to the host, the interface and the address of every rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network

from emulator.errors import PlanError
from emulator.topology.document import Document
from emulator.topology.hosts import HostEntry
from emulator.topology.network import Interface
from emulator.topology.placement import PLACEMENTS, place_as_mapped, place_on_rails


def place_ranks(document: Document, entries: Sequence[HostEntry], ranks: int) -> tuple[list[int], list[int]]:
    """(host index, interface index) per rank, by the file's `placement`.

    Raises:
        TopologyError: the placement names a host or interface that does not exist.
        PlanError: no room for that many ranks.
    """
    placement = document.value.get("placement", "block")
    capacities = [entry.capacity for entry in entries]
    fixed: dict[int, int] = {}
    try:
        if placement == "rail":
            placed = place_on_rails(ranks, capacities, [len(entry.host.interfaces) for entry in entries])
        elif isinstance(placement, str):
            placed = PLACEMENTS[placement](ranks, capacities)
        else:
            host_of, fixed = _mapped(document, entries, placement)
            placed = place_as_mapped(ranks, host_of, capacities)
        return placed, _interfaces(entries, placed, fixed)
    except PlanError as error:
        raise PlanError(f"{document.path}: {error}") from error


def deal_addresses(entries: Sequence[HostEntry], placed: Sequence[int], interfaces: Sequence[int]) -> Iterator[str]:
    """The address of every rank: the interface's own, or the next of those it deals out."""
    pools: dict[tuple[int, int], Iterator[str]] = {}
    for place in zip(placed, interfaces, strict=True):
        if place not in pools:
            host, interface = place
            pools[place] = _pool(entries[host].host.interfaces[interface])
        yield next(pools[place])


def _pool(interface: Interface) -> Iterator[str]:
    while interface.shared:
        yield interface.addresses[0]
    if interface.prefix is not None:
        yield from map(str, ip_network(interface.prefix).hosts())
    yield from interface.addresses


def _mapped(
    document: Document, entries: Sequence[HostEntry], placement: Mapping[str, str]
) -> tuple[dict[int, int], dict[int, int]]:
    """(host index, interface index) by rank; the interface only where the file names one, as h0:eth1."""
    index = {entry.host.name: at for at, entry in enumerate(entries)}
    host_of, fixed = {}, {}
    for text, place in placement.items():
        name, _, port = (place, "", "") if place in index else place.rpartition(":")
        if name not in index:
            raise document.error(f"there is no host {place!r}; hosts: {', '.join(index)}", ("placement", text))
        rank, host = int(text), index[name]
        host_of[rank] = host
        if port:
            names = [interface.name for interface in entries[host].host.interfaces]
            if port not in names:
                raise document.error(f"host {name} has no interface {port!r}", ("placement", text))
            fixed[rank] = names.index(port)
    return host_of, fixed


def _interfaces(entries: Sequence[HostEntry], placed: Sequence[int], fixed: Mapping[int, int]) -> list[int]:
    """Interface index per rank: those of a host are taken in turn, passing over full ones."""
    room = [entry.capacities for entry in entries]
    turn = [0] * len(entries)
    used: Counter[tuple[int, int]] = Counter()
    found: list[int] = []
    for rank, host in enumerate(placed):
        count = len(room[host])
        order = [fixed[rank]] if rank in fixed else [(turn[host] + step) % count for step in range(count)]
        interface = next((port for port in order if used[host, port] < room[host][port]), None)
        if interface is None:
            name = entries[host].host.interfaces[order[0]].name
            raise PlanError(f"{entries[host].host.name}:{name} has addresses for {room[host][order[0]]} ranks only")
        turn[host] = interface + 1 if rank not in fixed else turn[host]
        used[host, interface] += 1
        found.append(interface)
    return found
