"""A topology file and a number of ranks → a Topology. docs/topologies.md shows the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from ipaddress import ip_address, ip_network
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema

from emulator.errors import PlanError
from emulator.topology.document import Document, KeyPath, read_document
from emulator.topology.model import Host, Topology
from emulator.topology.placement import PLACEMENTS, UNLIMITED, place_as_mapped
from emulator.topology.safety import Network, is_safe, parse_networks
from emulator.units import parse_rate


@dataclass(frozen=True, slots=True)
class _HostEntry:
    """A host as the file has it: it gives every rank `shared`, or the next address of `pool`."""

    host: Host
    capacity: int
    networks: Sequence[Network]
    shared: str | None
    pool: Sequence[str] | Network


def load_topology(path: Path, *, ranks: int, allow_networks: Iterable[str] = ()) -> Topology:
    """Read a topology and give every rank its place.

    Args:
        path: a YAML file.
        ranks: of the trace.
        allow_networks: prefixes outside those that are safe by themselves, see safety.py.

    Raises:
        TopologyError: the file is wrong: it names file, line and key.
        PlanError: the hosts have no room or no address for that many ranks.
        InputError: `allow_networks` holds something that is no prefix.
    """
    document = read_document(path)
    _validate(document)
    allowed = parse_networks(allow_networks)
    entries = [_host_entry(document, index, entry) for index, entry in enumerate(document.value["hosts"])]
    _check_names(document, entries)
    _check_addresses(document, entries, allowed)
    placed = _place(document, entries, ranks)
    return Topology(
        name=document.value.get("name", path.stem),
        hosts=tuple(entry.host for entry in entries),
        host_index=tuple(placed),
        addresses=tuple(_addresses(entries, placed)),
        source=str(path),
    )


@cache
def _validator() -> jsonschema.Draft202012Validator:
    text = resources.files("emulator.topology").joinpath("topology.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def _validate(document: Document) -> None:
    problem = jsonschema.exceptions.best_match(_validator().iter_errors(document.value))
    if problem is not None:
        raise document.error(_in_words(problem), list(problem.absolute_path))


def _in_words(problem: jsonschema.ValidationError) -> str:
    if problem.validator == "oneOf":
        return "needs exactly one of address, addresses and per_rank"
    if problem.validator == "anyOf":
        return "is block, round_robin or a mapping from rank to host"
    return str(problem.message)


def _host_entry(document: Document, index: int, entry: Mapping[str, Any]) -> _HostEntry:
    key = ("hosts", index)
    host = Host(entry["name"], _rate_bps(document, entry, key))
    slots = entry.get("slots", UNLIMITED)
    if "address" in entry:
        network = _address(document, entry["address"], (*key, "address"))
        return _HostEntry(host, slots, [network], str(network.network_address), ())
    if "addresses" in entry:
        listed = [_address(document, text, (*key, "addresses", n)) for n, text in enumerate(entry["addresses"])]
        pool = [str(network.network_address) for network in listed]
        return _HostEntry(host, min(slots, len(pool)), listed, None, pool)
    network = _prefix(document, entry["per_rank"], (*key, "per_rank"))
    return _HostEntry(host, min(slots, _usable(network)), [network], None, network)


def _rate_bps(document: Document, entry: Mapping[str, Any], key: KeyPath) -> int | None:
    if "rate" not in entry:
        return None
    try:
        rate_bps = parse_rate(entry["rate"])
    except ValueError as error:
        raise document.error(str(error), (*key, "rate")) from error
    if rate_bps == 0:
        raise document.error(
            "a port with rate 0 carries nothing; leave the rate out where it is unknown", (*key, "rate")
        )
    return rate_bps


def _address(document: Document, text: str, key: KeyPath) -> Network:
    try:
        return ip_network(ip_address(text))
    except ValueError as error:
        raise document.error(f"{text!r} is no numeric IP address", key) from error


def _prefix(document: Document, text: str, key: KeyPath) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise document.error(f"{text!r} is no prefix ({error}); write one as 127.1.0.0/16", key) from error


def _usable(network: Network) -> int:
    """Addresses for ranks: without the network's own and, in IPv4, the broadcast address, where it has them."""
    if network.num_addresses <= 2:
        return network.num_addresses
    return network.num_addresses - (2 if network.version == 4 else 1)


def _check_names(document: Document, entries: Sequence[_HostEntry]) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry.host.name in seen:
            raise document.error(f"a host named {entry.host.name!r} is there already", ("hosts", index, "name"))
        seen.add(entry.host.name)


def _check_addresses(document: Document, entries: Sequence[_HostEntry], allowed: Sequence[Network]) -> None:
    """Every address is one we may send to, and no two hosts share one."""
    owner: list[tuple[Network, str]] = []
    for index, entry in enumerate(entries):
        for network in entry.networks:
            if not is_safe(network, allowed):
                shown = network if network.num_addresses > 1 else network.network_address
                problem = f"{shown} is outside loopback, 198.18.0.0/15, documentation and private ranges"
                raise document.error(f"{problem}: name its prefix with --allow-network", ("hosts", index))
            other = next((name for taken, name in owner if network.overlaps(taken)), None)
            if other is not None:
                raise document.error(f"host {entry.host.name} and {other} have addresses in common", ("hosts", index))
            owner.append((network, entry.host.name))


def _place(document: Document, entries: Sequence[_HostEntry], ranks: int) -> list[int]:
    placement = document.value.get("placement", "block")
    capacities = [entry.capacity for entry in entries]
    try:
        if isinstance(placement, str):
            return PLACEMENTS[placement](ranks, capacities)
        return place_as_mapped(ranks, _host_indices(document, entries, placement), capacities)
    except PlanError as error:
        raise PlanError(f"{document.path}: {error}") from error


def _host_indices(document: Document, entries: Sequence[_HostEntry], placement: Mapping[str, str]) -> dict[int, int]:
    index = {entry.host.name: at for at, entry in enumerate(entries)}
    for rank, name in placement.items():
        if name not in index:
            raise document.error(f"there is no host {name!r}; hosts: {', '.join(index)}", ("placement", rank))
    return {int(rank): index[name] for rank, name in placement.items()}


def _addresses(entries: Sequence[_HostEntry], placed: Sequence[int]) -> list[str]:
    counts = Counter(placed)
    pools = [iter(_take(entry, counts[host])) for host, entry in enumerate(entries)]
    return [next(pools[host]) for host in placed]


def _take(entry: _HostEntry, count: int) -> list[str]:
    if entry.shared is not None:
        return [entry.shared] * count
    if isinstance(entry.pool, Sequence):
        return list(entry.pool[:count])
    return [str(address) for address in islice(entry.pool.hosts(), count)]
