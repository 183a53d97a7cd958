"""What a manifest says of the topology of a run and of the device under test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from emulator.topology.model import Topology
from emulator.topology.network import Network


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
    """What identifies the device under test; empty where the topology names none.

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
    }
