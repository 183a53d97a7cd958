"""Rate caps of ports, divided among the agents whose ranks share a port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from emulator.roce.pacing import port_cap_bps
from emulator.topology.model import Topology


class PortShare(NamedTuple):
    """The port of a rank, as its agent sees it.

    Attributes:
        number: ranks with the same number share the port.
        line_rate_bps: rate of the port, bit/s; 0 if not specified.
        cap_bps: most that the agent's ranks at the port may send together, with headers; 0: no cap.
    """

    number: int
    line_rate_bps: int
    cap_bps: int


NO_SHARE = PortShare(0, 0, 0)
"""Of a rank whose transport is not paced."""


def port_shares(
    topology: Topology, ranks_of: Mapping[str, Iterable[int]], *, asked_bps: int
) -> Mapping[int, PortShare]:
    """The port of every rank. The cap of a port is divided among agents in proportion to their ranks at it.

    Args:
        topology: the topology with all ranks placed.
        asked_bps: rate cap that the user requested, bit/s; 0: the rate of the port.
    """
    numbers: dict[tuple[int, int], int] = {}
    for rank in range(topology.endpoints):
        numbers.setdefault(topology.port_of(rank), len(numbers))
    there = Counter(topology.port_of(rank) for rank in range(topology.endpoints))
    shares = {}
    for ranks in map(list, ranks_of.values()):
        own = Counter(topology.port_of(rank) for rank in ranks)
        for rank in ranks:
            port, rate_bps = topology.port_of(rank), topology.rate_bps(rank)
            cap_bps = port_cap_bps(asked_bps, rate_bps)
            share_bps = max(1, cap_bps * own[port] // there[port]) if cap_bps else 0
            shares[rank] = PortShare(numbers[port], rate_bps or 0, share_bps)
    return shares
