"""A topology file and a number of ranks → a Topology. docs/topologies.md shows the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.topology.containerlab import is_containerlab, read_containerlab
from emulator.topology.document import Document, read_document
from emulator.topology.hosts import HostEntry, read_hosts
from emulator.topology.imported import Foreign
from emulator.topology.infragraph import is_infragraph, read_infragraph
from emulator.topology.leaf_spine import read_fabric
from emulator.topology.links import read_agents, read_dut, read_network, with_interfaces
from emulator.topology.model import Topology
from emulator.topology.network import Network
from emulator.topology.rank_places import deal_addresses, place_ranks
from emulator.topology.safety import Network as AddressRange
from emulator.topology.safety import parse_networks
from emulator.validation import first_problem

if TYPE_CHECKING:
    from jsonschema import ValidationError


def load_topology(path: Path, *, ranks: int, allow_networks: Iterable[str] = ()) -> Topology:
    """Read a topology and give every rank its place.

    Args:
        path: a YAML file of our own, an InfraGraph, or containerlab's *.clab.yml.
        ranks: of the trace; 0 for the network alone.
        allow_networks: prefixes outside those that are safe by themselves, see safety.py.

    Raises:
        TopologyError: the file is wrong: it names file, line and key.
        PlanError: the hosts have no room or no address for that many ranks.
        InputError: `allow_networks` holds something that is not a prefix.
    """
    document, notes = _read(path)
    _validate(document)
    entries, network = _hosts_and_network(document, parse_networks(allow_networks))
    placed, interfaces = place_ranks(document, entries, ranks)
    return Topology(
        name=document.value.get("name", path.stem),
        hosts=tuple(entry.host for entry in entries),
        host_index=tuple(placed),
        addresses=tuple(deal_addresses(entries, placed, interfaces)),
        source=str(path),
        digest=document.digest,
        interface_index=tuple(interfaces),
        drawn=network,
        dut=read_dut(document, entries, network),
        agents=read_agents(document, entries),
        transport=document.value.get("transport", {}),
        notes=notes,
    )


def _read(path: Path) -> tuple[Document, Sequence[str]]:
    """A file of our own, or what another tool's is here, with notes on what has no counterpart."""
    document = read_document(path)
    for recognise, read in ((is_infragraph, read_infragraph), (is_containerlab, read_containerlab)):
        if recognise(document.value):
            foreign = _read_foreign(document, read)
            value = foreign.as_value()
            if "hosts" not in value:
                raise document.error("has no hosts that are linked to anything")
            return replace(document, value=value, is_converted=True), tuple(foreign.notes)
    return document, ()


def _read_foreign(document: Document, read: Callable[[Document], Foreign]) -> Foreign:
    try:
        return read(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # These formats are not ours to validate: a value of another type than theirs shows where it is used.
        raise document.error(f"has a value of an unexpected type ({type(error).__name__}: {error})") from error


def _validate(document: Document) -> None:
    problem = first_problem(document.value, package="emulator.topology", schema="topology.schema.json")
    if problem is not None:
        raise document.error(_in_words(problem), list(problem.absolute_path))
    if ("hosts" in document.value) == ("fabric" in document.value):
        raise document.error("needs either hosts or a fabric")


def _in_words(problem: ValidationError) -> str:
    if problem.validator == "oneOf":
        other = "" if "interfaces" in list(problem.absolute_path)[1:] else ", or interfaces"
        return f"needs exactly one of address, addresses and per_rank{other}"
    if problem.validator == "anyOf":
        at_placement = "placement" in problem.absolute_path
        return f"is {'block, round_robin, rail or a mapping from rank to host' if at_placement else 'a name or a list'}"
    if problem.validator == "pattern" and "placement" not in problem.absolute_path:
        return f"{problem.instance!r} is not an end of a link: write it as host:interface or switch:port"
    return str(problem.message)


def _hosts_and_network(document: Document, allowed: Sequence[AddressRange]) -> tuple[list[HostEntry], Network | None]:
    if "fabric" in document.value:
        for name in ("switches", "links", "routes"):
            if name in document.value:
                raise document.error("comes with the fabric and cannot be written beside it", (name,))
        return read_fabric(document, allowed=allowed)
    entries = read_hosts(document, allowed=allowed)
    network = read_network(document, entries)
    return with_interfaces(entries, network), network
