"""A topology file and a number of ranks → a Topology. docs/topologies.md describes the files.

Every rank gets its host, interface and address, and so do the endpoints of storage hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_network
from itertools import islice
from pathlib import Path

from msgspec.structs import asdict

from emulator.errors import PlanError, TopologyError
from emulator.plugins import PluginKind, load
from emulator.schema import SchemaProblem, decode
from emulator.shipped import TOPOLOGIES
from emulator.suggestions import did_you_mean
from emulator.topology.document import Document, KeyPath, read_document
from emulator.topology.file_format import DutSection, GnmiSection, JoiningHosts, TopologyFile
from emulator.topology.hosts import PLACEMENTS, HostEntry, place_as_mapped, place_on_rails, read_hosts
from emulator.topology.joining import STAND_INS, JoinedAgent, stand_ins, with_joined
from emulator.topology.links import build_leaf_spine, read_end, read_network, with_link_facts, with_routing
from emulator.topology.model import Topology
from emulator.topology.network import ON_CHANGE, Dut, End, GnmiTarget, Interface, Network
from emulator.topology.safety import Network as AddressRange
from emulator.topology.safety import parse_networks
from emulator.transports.registry import LISTED, TRANSPORTS
from emulator.units import digits, parse_duration


def load_topology(
    path: Path,
    *,
    ranks: int,
    allow_networks: Iterable[str] = (),
    hosts: Sequence[str] | None = None,
    host_share: tuple[int, int] = (0, 1),
    address_share: tuple[int, int] = (0, 1),
    joined: Sequence[JoinedAgent] | None = None,
    block: int = 0,
) -> Topology:
    """Read a topology and place every rank.

    Args:
        path: a Charkha topology (YAML), an InfraGraph, or a containerlab file (*.clab.yml); or the name of a topology
            that Charkha ships.
        ranks: number of ranks in the trace; 0 loads the network alone.
        allow_networks: prefixes that may be used in addition to the safe ones, see safety.py.
        hosts: names of those that ranks are placed on; None: all.
        host_share: (number, of): which of how many equal parts of them, in the order of the file.
        address_share: (first, step) of the addresses of every interface that ranks take.
        joined: agents whose machines are the hosts, where the file says so; None: stand-ins.
        block: of loopback addresses, which those of them use that have no interface.

    Raises:
        TopologyError: the file is wrong; the error names file, line and key.
        PlanError: the hosts have too few slots or addresses for that many ranks.
        InputError: `allow_networks` holds something that is not a prefix.
    """
    path = _find(path)
    document, notes = _read(path)
    file = _decode(document)
    if isinstance(file.hosts, JoiningHosts):
        notes = (*notes, STAND_INS) if joined is None else notes
        file = with_joined(document, file, stand_ins(file.hosts) if joined is None else joined, block=block)
    entries, network = _hosts_and_network(document, file, parse_networks(allow_networks))
    taken = _share(document, entries, host_share) if hosts is None else hosts
    entries = _available(document, entries, taken, address_share)
    host_index, interface_index = place_ranks(document, file.placement, entries, ranks)
    storage = place_storage(entries)
    host_index += [host for host, _ in storage]
    interface_index += [port for _, port in storage]
    addresses, alternates = assign_addresses(entries, host_index, interface_index)
    return Topology(
        name=file.name or path.stem,
        hosts=tuple(entry.host for entry in entries),
        host_index=tuple(host_index),
        addresses=addresses,
        source=str(path),
        digest=document.digest,
        interface_index=tuple(interface_index),
        drawn=network,
        dut=read_dut(document, file.dut, entries, network),
        agents=_agents(document, file, entries),
        transport=file.transport,
        notes=notes,
        storage_endpoints=len(storage),
        alternates=alternates,
    )


def joining_hosts(path: Path) -> JoiningHosts | None:
    """How many agents a topology waits for, where its hosts come from them; None: it lists its hosts.

    Raises:
        TopologyError: the file is wrong.
    """
    document, _ = _read(_find(path))
    hosts = _decode(document).hosts
    return hosts if isinstance(hosts, JoiningHosts) else None


def _share(document: Document, entries: Sequence[HostEntry], share: tuple[int, int]) -> Sequence[str] | None:
    """Names of the hosts in one of several equal parts; None: all.

    Raises:
        PlanError: there are fewer hosts than parts.
    """
    number, of = share
    if of == 1:
        return None
    names = [entry.host.name for entry in entries if not entry.host.storage and entry.host.peer is None]
    if len(names) < of:
        raise PlanError(f"{document.path}: a job has hosts: {number + 1}/{of}, but only {len(names)} hosts take ranks")
    return names[len(names) * number // of : len(names) * (number + 1) // of]


def _available(
    document: Document, entries: Sequence[HostEntry], hosts: Sequence[str] | None, address_share: tuple[int, int]
) -> list[HostEntry]:
    """Every host with the slots and addresses that there are for the ranks of a job.

    Raises:
        PlanError: one of the named hosts does not exist, or takes no ranks.
    """
    known = {entry.host.name: entry for entry in entries}
    for name in hosts or ():
        if name not in known:
            raise PlanError(f"{document.path}: a job has hosts: {name}, but there are only {', '.join(known)}")
        if known[name].host.storage or known[name].host.peer is not None:
            raise PlanError(f"{document.path}: a job has hosts: {name}, which has no ranks")
    return [
        replace(
            entry,
            slots=entry.slots if hosts is None or entry.host.name in hosts else 0,
            address_share=address_share,
        )
        for entry in entries
    ]


def _find(given: Path) -> Path:
    """The file that is meant.

    Raises:
        TopologyError: it does not exist, but one that Charkha ships has nearly its name.
    """
    path = TOPOLOGIES.find(given)
    advice = did_you_mean(given.name.removesuffix(TOPOLOGIES.suffix), TOPOLOGIES.paths)
    if path == given and advice and not given.exists():
        raise TopologyError(f"there is no such file{advice}", path=given)
    return path


def _read(path: Path) -> tuple[Document, Sequence[str]]:
    """A Charkha topology, converted from another format where necessary; and notes on what was left out."""
    document = read_document(path)
    if not isinstance(document.value, Mapping) or document.value.keys() & {"hosts", "fabric"}:
        return document, ()
    imported = load(PluginKind.HOOKS, "import_topology")(document)
    if imported is None:
        return document, ()
    value = imported.as_topology_file()
    if "hosts" not in value:
        raise document.error("no host has a link")
    return replace(document, value=value, is_converted=True), tuple(imported.notes)


def _decode(document: Document) -> TopologyFile:
    document.require_values()
    try:
        file = decode(document.value, TopologyFile)
    except SchemaProblem as error:
        raise document.error(error.problem, error.path) from error
    if (file.hosts is None) == (file.fabric is None):
        raise document.error("needs hosts or a fabric")
    if file.transport and file.transport.get("name") not in TRANSPORTS:
        raise document.error(f"write the name of a transport: {LISTED}", ("transport", "name"))
    return file


def _hosts_and_network(
    document: Document, file: TopologyFile, allowed: Sequence[AddressRange]
) -> tuple[list[HostEntry], Network | None]:
    if file.fabric is not None:
        for name in ("switches", "links", "routes"):
            if getattr(file, name) is not None:
                raise document.error("is already defined by the fabric: delete it, or list hosts instead", (name,))
        entries, fabric = build_leaf_spine(document, file.fabric, allowed=allowed, ecmp_seed=file.ecmp.seed)
        return entries, with_routing(document, file.routing, fabric)
    assert not isinstance(file.hosts, JoiningHosts)  # load_topology has replaced them
    entries = read_hosts(document, file.hosts or (), allowed=allowed)
    network = read_network(document, file, entries)
    return with_link_facts(entries, network), network


def _agents(document: Document, file: TopologyFile, entries: Sequence[HostEntry]) -> dict[str, str]:
    """Host → name of its agent."""
    for host in file.agents:
        document.require(host, [entry.host.name for entry in entries], "host", ("agents", host))
    return file.agents


def read_dut(
    document: Document, section: DutSection | None, entries: Sequence[HostEntry], network: Network | None
) -> Dut | None:
    """The device under test; None if the file names none.

    If the file lists no ports, they are the ends of the links that lead from the device's nodes to other nodes.

    Raises:
        TopologyError: a node or port does not exist, or a gNMI address is not HOST:PORT.
    """
    if section is None:
        return None
    known = [entry.host.name for entry in entries] + [switch.name for switch in (network.switches if network else ())]
    nodes = section.nodes or ()
    for number, node in enumerate(nodes):
        document.require(node, known, "node", ("dut", "nodes", number))
    return Dut(
        section.kind,
        vendor=section.vendor,
        model=section.model,
        firmware=section.firmware,
        nodes=nodes,
        ports=_ports(document, section, network) or _boundary(nodes, network),
        gnmi=tuple(
            _gnmi_target(document, target, known, ("dut", "gnmi", number))
            for number, target in enumerate(section.gnmi or ())
        ),
    )


def _ports(document: Document, section: DutSection, network: Network | None) -> tuple[End, ...]:
    plugged = {end for link in (network.links if network else ()) for end in link.ends}
    ports = []
    for number, text in enumerate(section.ports or ()):
        key = ("dut", "ports", number)
        ports.append(read_end(document, text, key))
        if ports[-1] not in plugged:
            raise document.error(f"no link is connected to {ports[-1]}", key)
    return tuple(ports)


def _boundary(nodes: Sequence[str], network: Network | None) -> tuple[End, ...]:
    links = network.links if network else ()
    sides = [(here, there) for link in links for here, there in (link.ends, link.ends[::-1])]
    return tuple(here for here, there in sides if here.node in nodes and there.node not in nodes)


def _gnmi_target(document: Document, section: GnmiSection, known: Sequence[str], key: KeyPath) -> GnmiTarget:
    document.require(section.device, known, "node", (*key, "device"))
    host, _, port = section.address.rpartition(":")
    if not host or not port.isdecimal():
        raise document.error(f"{section.address!r} is not an address: write HOST:PORT", (*key, "address"))
    if section.queues != ON_CHANGE and document.parse(parse_duration, section.queues, (*key, "queues")) == 0:
        raise document.error("is not a time between two readings: write 20ms, for example", (*key, "queues"))
    return GnmiTarget(**asdict(section))


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
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(addresses, alternates) of all ranks, see Topology.

    The address is the shared one of the rank's interface, or the next free one of it. The alternate one is the next one
    of the host's next interface that no rank has, the last one going on with the first.
    """
    pools: dict[tuple[int, int], Iterator[str]] = {}

    def taken(host: int, interface: int) -> str:
        place = host, interface
        if place not in pools:
            first, step = entries[host].address_share
            pools[place] = islice(_address_pool(entries[host].host.interfaces[interface]), first, None, step)
        return next(pools[place], "")

    places = list(zip(host_index, interface_index, strict=True))
    addresses = tuple(taken(*place) for place in places)
    shared = set(addresses)
    alternates = []
    for host, interface in places:
        interfaces = entries[host].host.interfaces
        alternate = taken(host, (interface + 1) % len(interfaces)) if len(interfaces) > 1 else ""
        alternates.append("" if alternate in shared else alternate)
        shared.add(alternate)
    return addresses, tuple(alternates) if any(alternates) else ()


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
