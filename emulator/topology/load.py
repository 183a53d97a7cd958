"""A topology file and a number of ranks → a Topology. docs/topologies.md describes the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec.structs import asdict

from emulator.errors import PlanError, TopologyError
from emulator.plugins import PluginKind, load
from emulator.schema import SchemaProblem, decode
from emulator.shipped import TOPOLOGIES
from emulator.suggestions import did_you_mean
from emulator.topology.document import Document, KeyPath, read_document
from emulator.topology.file_format import DutSection, GnmiSection, JoiningHosts, TopologyFile
from emulator.topology.hosts import HostEntry, read_hosts
from emulator.topology.joining import STAND_INS, JoinedAgent, stand_ins, with_joined
from emulator.topology.links import build_leaf_spine, read_end, read_network, with_link_facts
from emulator.topology.model import Topology
from emulator.topology.network import Dut, End, GnmiTarget, Network
from emulator.topology.rank_places import assign_addresses, place_ranks, place_storage
from emulator.topology.safety import Network as AddressRange
from emulator.topology.safety import parse_networks
from emulator.transports.registry import LISTED, TRANSPORTS


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
    return Topology(
        name=file.name or path.stem,
        hosts=tuple(entry.host for entry in entries),
        host_index=tuple(host_index),
        addresses=tuple(assign_addresses(entries, host_index, interface_index)),
        source=str(path),
        digest=document.digest,
        interface_index=tuple(interface_index),
        drawn=network,
        dut=read_dut(document, file.dut, entries, network),
        agents=_agents(document, file, entries),
        transport=file.transport,
        notes=notes,
        storage_endpoints=len(storage),
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
        return build_leaf_spine(document, file.fabric, allowed=allowed, ecmp_seed=file.ecmp.seed)
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
    return GnmiTarget(**asdict(section))
