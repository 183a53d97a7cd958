"""Whether the cores of this host can carry a lab with all its ports busy at once."""

from __future__ import annotations

import os
from dataclasses import dataclass

from emulator.planner.network.header_overhead import DEFAULT_MTU, roce_overhead, roce_path_mtu
from emulator.topology.network import End, Network
from emulator.units import BITS_PER_BYTE

PACKETS_PER_CORE = 120_000
"""Full RoCE packets per second that a core sends, forwards and receives if every host has a core to itself."""
SHARED_PACKETS_PER_CORE = 60_000
"""The same if hosts share cores: the processes of the hosts then compete for them."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load of a lab whose hosts all send at line rate: packets per second, and the number of hosts."""

    packets_per_s: float
    hosts: int


def offered_load(network: Network) -> Load:
    """Load with all ports of hosts at line rate; ports without a rate count as idle."""
    mtu_of = {end: link.mtu or DEFAULT_MTU for link in network.links for end in link.ends}
    ports = [(End(host, port.name), port) for host, ports in network.interfaces.items() for port in ports]
    packets = sum((port.rate_bps or 0) / (BITS_PER_BYTE * _packet_bytes(mtu_of[end])) for end, port in ports)
    return Load(packets, len(network.interfaces))


def judge(network: Network, *, cores: int | None = None) -> str | None:
    """Why this host cannot carry a network's rates at once; None if it can.

    Args:
        network: of the topology.
        cores: number of cores; None: those that this process may use.
    """
    available = cores or len(os.sched_getaffinity(0))
    load = offered_load(network)
    most = available * (PACKETS_PER_CORE if load.hosts <= available else SHARED_PACKETS_PER_CORE)
    if load.packets_per_s <= most:
        return None
    return (
        f"{load.hosts} hosts at line rate send {load.packets_per_s:,.0f} packets/s,"
        f" {available} cores can handle about {most:,}: lower the rates to {most / load.packets_per_s:.0%}"
        " or use a larger MTU"
    )


def _packet_bytes(mtu: int) -> int:
    """Bytes on the wire of a full RoCE packet that is a whole message."""
    return roce_overhead(mtu, message_bytes=roce_path_mtu(mtu)).wire_bytes
