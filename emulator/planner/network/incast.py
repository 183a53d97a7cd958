"""Incast: how many ranks send to one rank, and through one port, in a step of a collective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import Operation
from emulator.planner.traffic.phase import Phase
from emulator.trace.model import BoolArray, IntArray


class Incast(NamedTuple):
    """Most senders in a step.

    Attributes:
        rank: to one rank, including senders on its host that share no scale-up domain with it.
        port: from other hosts to one port.
    """

    rank: int
    port: int


def incast_of(operation: Operation, router: Router) -> Incast:
    """Incast of the group where it is largest. Groups with the same pattern of hosts and ports are computed once."""
    patterns = _patterns(operation.ranks, router)
    ranks = ports = 0
    for phase in operation.phases():
        senders, receivers = _pairs(phase, operation.members)
        for host, port, in_domain in patterns:
            remote = host[senders] != host[receivers]
            ranks = max(ranks, _most(receivers[remote | ~in_domain[senders]]))
            ports = max(ports, _most(port[receivers[remote]]))
    return Incast(ranks, ports)


def _pairs(phase: Phase, members: int) -> tuple[IntArray, IntArray]:
    """Every (sender, receiver) pair of the phase once."""
    keys = np.unique(phase.senders * members + phase.receivers)
    return keys // members, keys % members


def _most(receivers: IntArray) -> int:
    return int(np.bincount(receivers).max()) if len(receivers) else 0


def _patterns(ranks: IntArray, router: Router) -> list[tuple[IntArray, IntArray, BoolArray]]:
    """Distinct patterns of (host, port, is in a domain) of each member, numbered in the order of first appearance."""
    found: dict[bytes, tuple[IntArray, IntArray, BoolArray]] = {}
    for members in ranks:
        host, port = _renumbered(router.rank_host[members]), _renumbered(router.rank_port[members])
        in_domain = router.in_domain[members]
        found.setdefault(host.tobytes() + port.tobytes() + in_domain.tobytes(), (host, port, in_domain))
    return list(found.values())


def _renumbered(places: IntArray) -> IntArray:
    _, first, inverse = np.unique(places, return_index=True, return_inverse=True)
    numbers: IntArray = first[inverse].astype(np.int64)
    return numbers
