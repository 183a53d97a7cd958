"""How much the ranks at a port may send together, and an agent's share of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from emulator.roce.rate_cap import port_cap_bps
from emulator.topology.model import Topology


class PortShare(NamedTuple):
    """What a rank's agent has to know of the rank's port.

    Attributes:
        number: ranks with the same number share it.
        line_rate_bps: of the port, bit/s; 0 if not specified.
        cap_bps: most that the agent's ranks at the port may send together, headers included; 0: no cap.
    """

    number: int
    line_rate_bps: int
    cap_bps: int


def port_shares(
    topology: Topology, ranks_of: Mapping[str, Iterable[int]], *, asked_bps: int
) -> Mapping[int, PortShare]:
    """Per rank; a port's cap is divided among the agents at it by how many ranks they have there."""
    numbers: dict[tuple[int, int], int] = {}
    for rank in range(topology.ranks):
        numbers.setdefault(topology.port_of(rank), len(numbers))
    there = Counter(topology.port_of(rank) for rank in range(topology.ranks))
    shares = {}
    for ranks in map(list, ranks_of.values()):
        own = Counter(topology.port_of(rank) for rank in ranks)
        for rank in ranks:
            port, rate_bps = topology.port_of(rank), topology.rate_bps(rank)
            cap_bps = port_cap_bps(asked_bps, rate_bps)
            share_bps = max(1, cap_bps * own[port] // there[port]) if cap_bps else 0
            shares[rank] = PortShare(numbers[port], rate_bps or 0, share_bps)
    return shares
