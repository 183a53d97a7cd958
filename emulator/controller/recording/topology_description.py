"""What a manifest says of the topology of a run and of the device under test."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from emulator.topology.model import Topology
from emulator.topology.network import End, Link, Network
from emulator.topology.paths import Paths


def describe_topology(topology: Topology) -> Mapping[str, Any]:
    """Hosts with their interfaces, the place of every rank, and the network: rates in bit/s, MTU in bytes."""
    return {
        "name": topology.name,
        "source": topology.source,
        "digest": topology.digest,
        "hosts": [asdict(host) for host in topology.hosts],
        "host_index": list(topology.host_index),
        "interface_index": list(topology.interface_index),
        "addresses": list(topology.addresses),
        "network": None if topology.drawn is None else _network(topology.drawn),
        "transport": dict(topology.transport),
    }


def describe_dut(topology: Topology) -> Mapping[str, Any]:
    """What identifies the device under test; empty if the topology names none.

    Its name is that of its nodes, or of the topology where it is named by ports alone.
    """
    dut = topology.dut
    if dut is None:
        return {}
    return {
        "name": ", ".join(dut.nodes) or topology.name,
        "kind": dut.kind,
        "vendor": dut.vendor,
        "model": dut.model,
        "firmware": dut.firmware,
        "nodes": list(dut.nodes),
        "ports": [str(port) for port in dut.ports],
    }


def _network(network: Network) -> Mapping[str, Any]:
    return {
        "switches": [asdict(switch) for switch in network.switches],
        "links": [
            {
                "ends": [str(end) for end in link.ends],
                "rate_bps": link.rate_bps,
                "mtu": link.mtu,
                "latency_ns": link.latency_ns,
            }
            for link in network.links
        ],
        "routes": [asdict(route) for route in network.routes],
        "ecmp_seed": network.ecmp_seed,
    } | ({"routing": asdict(network.routing)} if network.routing else {})


def describe_path(topology: Topology, source: int, target: int, *, among: Collection[Link] | None = None) -> str | None:
    """The way from one rank to another: `h0:eth0 - leaf0 (p0 to u0, u1) - spine0, spine1 (d0, d0 to d1, d1) - …`.

    Args:
        topology: with a place for both.
        source, target: ranks.
        among: links between switches that it takes, where that is known; None: all of equal cost.

    Returns:
        None if the topology draws no network, or none leads there.
    """
    network = topology.drawn
    if network is None or topology.host_of(source) == topology.host_of(target):
        return None
    start, end = (End(topology.host_of(rank).name, topology.interface_of(rank).name) for rank in (source, target))
    paths = Paths(network)
    entries = {start: [link for link in network.links if start in link.ends]}
    way = [str(start)]
    while True:
        links = [(entry.node, link) for entry, leaving in entries.items() for link in leaving]
        arrived = dict.fromkeys(link.other(node) for node, link in links)
        if end in arrived:
            return " - ".join([*way, str(end)])
        if not arrived or any(one.node in network.interfaces for one in arrived):
            return None
        entries = {one: list(paths.next_hops(one.node, end.node, end.port)) for one in arrived}
        if among is not None:
            kept = (*among, *(link for link in network.links if end in link.ends))
            entries = {one: [link for link in links if link in kept] for one, links in entries.items()}
        way.append(_passed(entries))


def _passed(entries: Mapping[End, Sequence[Link]]) -> str:
    """Switches of equal cost, with the ports that lead in and out."""
    names = dict.fromkeys(entry.node for entry in entries)
    leaving = (end for entry, links in entries.items() for link in links for end in link.ends if end.node == entry.node)
    out = dict.fromkeys(leaving)
    return f"{', '.join(names)} ({', '.join(one.port for one in entries)} to {', '.join(one.port for one in out)})"
