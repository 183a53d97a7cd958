"""Host, interface and address of every rank, and of the endpoints of storage hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from itertools import islice

from emulator.errors import PlanError
from emulator.topology.document import Document
from emulator.topology.hosts import PLACEMENTS, HostEntry, place_as_mapped, place_on_rails
from emulator.topology.network import Interface
from emulator.units import digits


def place_ranks(
    document: Document, placement: str | Mapping[str, str], entries: Sequence[HostEntry], ranks: int
) -> tuple[list[int], list[int]]:
    """(host index, interface index) per rank.

    Args:
        document: the file, for error messages.
        placement: a policy, or rank → host (or host:interface).
        entries: the hosts.
        ranks: how many to place.

    Raises:
        TopologyError: there is no such policy, rank, host or interface.
        PlanError: the hosts have too few slots or addresses.
    """
    capacities = [0 if entry.host.storage else entry.capacity for entry in entries]
    fixed: dict[int, int] = {}
    try:
        if isinstance(placement, str):
            if placement not in (*PLACEMENTS, "rail"):
                raise document.error("is block, round_robin, rail or a mapping from rank to host", ("placement",))
            placed = _place_by_policy(document, placement, entries, ranks)
        else:
            host_of, fixed = _read_mapping(document, entries, placement)
            placed = place_as_mapped(ranks, host_of, capacities)
        return placed, _choose_interfaces(entries, placed, fixed)
    except PlanError as error:
        raise PlanError(f"{document.path}: {error}") from error


def place_storage(entries: Sequence[HostEntry]) -> list[tuple[int, int]]:
    """(host index, interface index) of the endpoints of storage hosts: one at each interface."""
    storage = [(index, entry.host) for index, entry in enumerate(entries) if entry.host.storage]
    return [(index, port) for index, host in storage for port in range(len(host.interfaces))]


def _place_by_policy(document: Document, policy: str, entries: Sequence[HostEntry], ranks: int) -> list[int]:
    """Host index per rank, among the hosts that take ranks."""
    places = [index for index, entry in enumerate(entries) if not entry.host.storage]
    if not places:
        raise document.error("every host is a storage host: add a host for ranks", ("hosts",))
    capacities = [entries[index].capacity for index in places]
    if policy == "rail":
        placed = place_on_rails(ranks, capacities, [len(entries[index].host.interfaces) for index in places])
    else:
        placed = PLACEMENTS[policy](ranks, capacities)
    return [places[number] for number in placed]


def assign_addresses(
    entries: Sequence[HostEntry], host_index: Sequence[int], interface_index: Sequence[int]
) -> Iterator[str]:
    """The address of every rank: the shared one of its interface, or the next free one of it."""
    pools: dict[tuple[int, int], Iterator[str]] = {}
    for place in zip(host_index, interface_index, strict=True):
        if place not in pools:
            host, interface = place
            first, step = entries[host].address_share
            pools[place] = islice(_address_pool(entries[host].host.interfaces[interface]), first, None, step)
        yield next(pools[place])


def _address_pool(interface: Interface) -> Iterator[str]:
    while interface.shared:
        yield interface.addresses[0]
    if interface.prefix is not None:
        yield from map(str, ip_network(interface.prefix).hosts())
    yield from interface.addresses


def _read_mapping(
    document: Document, entries: Sequence[HostEntry], placement: Mapping[str, str]
) -> tuple[dict[int, int], dict[int, int]]:
    """(host index by rank, interface index by rank); the latter only for ranks placed as `host:interface`."""
    index = {entry.host.name: number for number, entry in enumerate(entries)}
    host_of, interface_of = {}, {}
    for text, place in placement.items():
        key = ("placement", text)
        if (rank := digits(text)) is None or text != str(rank):
            raise document.error(f"{text!r} is not a rank: write 0, 1, 2 and so on", key)
        name, _, port = (place, "", "") if place in index else place.rpartition(":")
        if name not in index:
            raise document.error(f"there is no host {place!r}; hosts: {', '.join(index)}", key)
        host = index[name]
        if entries[host].host.storage:
            raise document.error(f"{name} is a storage host, which has no ranks", key)
        host_of[rank] = host
        if port:
            names = [interface.name for interface in entries[host].host.interfaces]
            if port not in names:
                raise document.error(f"host {name} has no interface {port!r}", key)
            interface_of[rank] = names.index(port)
    return host_of, interface_of


def _choose_interfaces(entries: Sequence[HostEntry], placed: Sequence[int], fixed: Mapping[int, int]) -> list[int]:
    """Interface index per rank: ranks of a host take its interfaces in turn, skipping full ones."""
    capacities = [entry.capacities for entry in entries]
    turn = [0] * len(entries)
    used: Counter[tuple[int, int]] = Counter()
    found: list[int] = []
    for rank, host in enumerate(placed):
        count = len(capacities[host])
        order = [fixed[rank]] if rank in fixed else [(turn[host] + step) % count for step in range(count)]
        interface = next((port for port in order if used[host, port] < capacities[host][port]), None)
        if interface is None:
            name = entries[host].host.interfaces[order[0]].name
            room = capacities[host][order[0]]
            raise PlanError(f"{entries[host].host.name}:{name} has addresses for only {room} ranks")
        turn[host] = interface + 1 if rank not in fixed else turn[host]
        used[host, interface] += 1
        found.append(interface)
    return found
