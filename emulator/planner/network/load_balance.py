"""How evenly links are loaded: by tier, among equal-cost links, and oversubscription of switches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.planner.network.arrays import FloatArray
from emulator.planner.network.plan import Plan
from emulator.topology.paths import Paths
from emulator.trace.meaning.model import IntArray

HOSTS = "hosts"


@dataclass(frozen=True, slots=True)
class Balance:
    """Summary of the loads of some links, in bytes; ratios are None if no link is loaded.

    Attributes:
        mean_bytes, most_bytes: mean and largest load, including idle links.
        mmr: max-to-mean ratio.
        jain: Jain's index (Σx)² / (n Σx²): 1 if all loads are equal, 1/n if one link carries everything.
    """

    links: int
    mean_bytes: float
    most_bytes: float
    mmr: float | None
    jain: float | None


def balance_of(loads: FloatArray) -> Balance:
    """The balance of links with these loads.

    Source: Jain, Chiu, Hawe, DEC-TR-301 (1984); MMR as in draft-calabria-bmwg-ai-fabric-training-bench.
    """
    total = float(loads.sum())
    if total == 0:
        return Balance(len(loads), 0.0, 0.0, None, None)
    mean, most = total / len(loads), float(loads.max())
    return Balance(len(loads), mean, most, most / mean, total**2 / (len(loads) * float((loads**2).sum())))


@dataclass(frozen=True, slots=True)
class Tier:
    """Directed links between the same two levels of the network.

    Attributes:
        source, target: `hosts`, or the common part of the names of a level's switches.
        rate_bps: rate of each link; None if rates differ or are not specified.
        even, hashed: with equal-cost paths shared evenly, and with hashing.
    """

    source: str
    target: str
    rate_bps: int | None
    even: Balance
    hashed: Balance


@dataclass(frozen=True, slots=True)
class EqualCost:
    """The equal-cost links of one switch, among which the hash chooses.

    Attributes:
        hashed: their loads.
        flows: number of flows on each link.
        collisions: flows in excess of each link's even share, rounded up: those that a perfect spread would move.
    """

    switch: str
    links: Sequence[str]
    flows: Sequence[int]
    collisions: int
    hashed: Balance


@dataclass(frozen=True, slots=True)
class Oversubscription:
    """Rates of a switch with hosts: towards its hosts and towards other switches, bit/s."""

    switch: str
    down_bps: float
    up_bps: float

    @property
    def ratio(self) -> float:
        """Above 1, the hosts can send more than the uplinks can carry."""
        return self.down_bps / self.up_bps


def tiers(plan: Plan) -> list[Tier]:
    """Loads of links by the levels that they connect, hosts first."""
    paths, loads = plan.paths, plan.loads
    names = level_names(paths)
    node_level = np.concatenate([np.full(paths.hosts, -1, dtype=np.int64), levels(paths)])
    source, target = node_level[paths.source], node_level[paths.target]
    found = []
    for place in np.unique(np.stack([source, target]), axis=1).T.tolist():
        chosen = np.flatnonzero((source == place[0]) & (target == place[1]))
        found.append(
            Tier(
                names[place[0]],
                names[place[1]],
                _common_rate(loads.rate_bps[chosen]),
                balance_of(loads.even[chosen]),
                balance_of(loads.hashed[chosen]),
            )
        )
    return found


def equal_cost(plan: Plan) -> list[EqualCost]:
    """Every switch with equal-cost next hops in use, the most uneven first."""
    found = [_equal_cost(plan, plan.paths.node_name(switch), links) for switch, links in _choices(plan)]
    return sorted(found, key=lambda group: -(group.hashed.mmr or 0))


def _choices(plan: Plan) -> Iterator[tuple[int, IntArray]]:
    """Switches with equal-cost next hops in use, and their equal-cost links."""
    by_switch: dict[int, list[int]] = defaultdict(list)
    for link in np.flatnonzero(plan.loads.is_choice).tolist():
        by_switch[int(plan.paths.source[link])].append(link)
    for switch, links in by_switch.items():
        yield switch, np.array(links)


def observed_difference(plan: Plan) -> float | None:
    """How far the hash is from observed link loads.

    Returns:
        The largest difference between the observed and the hashed share of a link in what its switch sends over
        equal-cost links; None without observed loads or equal-cost paths.
    """
    if not plan.is_observed:
        return None
    found = []
    for _, links in _choices(plan):
        even, hashed = plan.loads.even[links], plan.loads.hashed[links]
        if even.sum() and hashed.sum():
            found.append(float(np.abs(even / even.sum() - hashed / hashed.sum()).max()))
    return max(found, default=None)


def oversubscription(paths: Paths) -> list[Oversubscription]:
    """Oversubscription of every switch that has both hosts and other switches, if all rates are known."""
    rates = np.repeat(np.array([link.rate_bps or np.nan for link in paths.network.links]), 2)
    nodes = paths.hosts + paths.switches
    to_host = paths.target < paths.hosts
    down = np.bincount(paths.source[to_host], rates[to_host], nodes)
    up = np.bincount(paths.source[~to_host], rates[~to_host], nodes)
    with_both = [node for node in range(paths.hosts, nodes) if down[node] > 0 and up[node] > 0]
    return [Oversubscription(paths.node_name(node), float(down[node]), float(up[node])) for node in with_both]


def levels(paths: Paths) -> IntArray:
    """Level of each switch: 0 with hosts, else one more than its lowest neighbour; int64, shape (switches,)."""
    level = np.full(paths.switches, -1, dtype=np.int64)
    between = (paths.source >= paths.hosts) & (paths.target >= paths.hosts)
    source, target = paths.source[between] - paths.hosts, paths.target[between] - paths.hosts
    reached = np.unique(paths.source[(paths.source >= paths.hosts) & (paths.target < paths.hosts)]) - paths.hosts
    for number in range(paths.switches):
        reached = reached[level[reached] < 0]
        if not len(reached):
            break
        level[reached] = number
        reached = np.unique(target[np.isin(source, reached)])
    level[level < 0] = level.max(initial=0) + 1  # not connected to any host
    return level


def level_names(paths: Paths) -> dict[int, str]:
    """Names of levels: the common start of the names of their switches, else `level 1`; level -1 is the hosts."""
    begins: dict[int, set[str]] = defaultdict(set)
    for switch, level in zip(paths.network.switches, levels(paths).tolist(), strict=True):
        begins[level].add(switch.name.rstrip("0123456789-_."))
    names = {level: common.pop() if len(common) == 1 else f"level {level + 1}" for level, common in begins.items()}
    return {-1: HOSTS, **names}


def _equal_cost(plan: Plan, switch: str, links: IntArray) -> EqualCost:
    flows = plan.loads.flows[links]
    share = -(-int(flows.sum()) // len(links))
    return EqualCost(
        switch,
        [plan.paths.link_name(int(link)) for link in links],
        flows.tolist(),
        int(np.maximum(flows - share, 0).sum()),
        balance_of(plan.loads.hashed[links]),
    )


def _common_rate(rates: FloatArray) -> int | None:
    return int(rates[0]) if len(rates) and (rates == rates[0]).all() else None
