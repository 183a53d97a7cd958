"""The device under test of a topology file: its nodes, its boundary, and who reports its counters."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from emulator.topology.document import Document, KeyPath
from emulator.topology.file_format import DutSection, GnmiSection
from emulator.topology.hosts import HostEntry
from emulator.topology.links import read_end
from emulator.topology.network import Dut, End, GnmiTarget, Network


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
            raise document.error(f"no link is plugged into {ports[-1]}", key)
    return tuple(ports)


def _boundary(nodes: Sequence[str], network: Network | None) -> tuple[End, ...]:
    links = network.links if network else ()
    sides = [(here, there) for link in links for here, there in (link.ends, link.ends[::-1])]
    return tuple(here for here, there in sides if here.node in nodes and there.node not in nodes)


def _gnmi_target(document: Document, section: GnmiSection, known: Sequence[str], key: KeyPath) -> GnmiTarget:
    document.require(section.device, known, "node", (*key, "device"))
    host, _, port = section.address.rpartition(":")
    if not host or not port.isdecimal():
        raise document.error(f"{section.address!r} is not an address: write it as HOST:PORT", (*key, "address"))
    return GnmiTarget(**asdict(section))
