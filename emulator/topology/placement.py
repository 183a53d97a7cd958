"""Placement policies: which host each rank runs on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from emulator.errors import PlanError

UNLIMITED = 1 << 62
"""Capacity of a host without a limit on the number of ranks."""


def place_in_blocks(ranks: int, capacities: Sequence[int]) -> list[int]:
    """Host index per rank: consecutive ranks together, in shares as equal as the capacities allow.

    Raises:
        PlanError: the hosts have too few slots.
    """
    _require_room(ranks, capacities)
    placed: list[int] = []
    later, hosts = sum(capacities), sum(capacity > 0 for capacity in capacities)
    for host, capacity in enumerate(capacities):
        if not capacity:
            continue
        left, later = ranks - len(placed), later - capacity
        share, hosts = -(-left // hosts), hosts - 1
        placed += [host] * min(capacity, max(share, left - later))
    return placed


def place_round_robin(ranks: int, capacities: Sequence[int]) -> list[int]:
    """Host index per rank: one rank to each host in turn, skipping full hosts.

    Raises:
        PlanError: the hosts have too few slots.
    """
    _require_room(ranks, capacities)
    placed: list[int] = []
    used = [0] * len(capacities)
    while len(placed) < ranks:
        for host in range(len(capacities)):
            if used[host] < capacities[host] and len(placed) < ranks:
                used[host] += 1
                placed.append(host)
    return placed


def place_on_rails(ranks: int, capacities: Sequence[int], interfaces: Sequence[int]) -> list[int]:
    """Host index per rank: one rank per interface, host after host, as on servers with a NIC for each accelerator.

    With i interfaces per host, rank r uses interface r modulo i, which is its rail. An interface gets a second rank
    only if there are more ranks than interfaces.

    Raises:
        PlanError: the hosts have too few slots.
    """
    _require_room(ranks, capacities)
    ports = sum(count for count, capacity in zip(interfaces, capacities, strict=True) if capacity)
    layers = max(1, -(-ranks // max(1, ports)))
    while ranks > sum(map(min, capacities, (layers * count for count in interfaces))):
        layers += 1
    placed: list[int] = []
    for host, capacity in enumerate(capacities):
        placed += [host] * min(capacity, layers * interfaces[host], ranks - len(placed))
    return placed


def place_as_mapped(ranks: int, host_of: Mapping[int, int], capacities: Sequence[int]) -> list[int]:
    """Host index per rank from an explicit mapping; ranks that the trace does not have are ignored.

    Raises:
        PlanError: a rank has no host, or a host gets more ranks than it has slots for.
    """
    missing = next((rank for rank in range(ranks) if rank not in host_of), None)
    if missing is not None:
        raise PlanError(
            f"rank {missing} has no host: the topology's placement covers only {len(host_of)} of {ranks} ranks"
        )
    placed = [host_of[rank] for rank in range(ranks)]
    for host, count in sorted(Counter(placed).items()):
        if count > capacities[host]:
            raise PlanError(f"the placement puts {count} ranks on hosts[{host}], which has room for {capacities[host]}")
    return placed


PLACEMENTS: Mapping[str, Callable[[int, Sequence[int]], list[int]]] = {
    "block": place_in_blocks,
    "round_robin": place_round_robin,
}


def _require_room(ranks: int, capacities: Sequence[int]) -> None:
    if ranks > sum(capacities):
        raise PlanError(
            f"the trace has {ranks} ranks, but the hosts have room for only {sum(capacities)}: add hosts or slots"
        )
