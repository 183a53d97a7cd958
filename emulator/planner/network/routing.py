"""The links that flows take, many flows at once: by explicit routes, by a hash of their 5-tuples, or spread evenly.

A flow is what one rank sends to another. At a switch with equal-cost next hops, a hash of addresses, protocol and ports
chooses one of them for the whole flow. Spread evenly, each next hop gets an equal share; no real network does better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from emulator.errors import PlanError
from emulator.planner.network.arrays import FloatArray, concatenated_ranges, sum_by
from emulator.planner.network.ecmp import FlowHash, GenericHash
from emulator.topology.model import Topology
from emulator.topology.paths import Paths
from emulator.trace.meaning.model import BoolArray, IntArray


class NextHopTable:
    """Next hops towards the switches looked up so far, and those of explicit routes.

    Attributes:
        links: directed links, next hops of one switch and destination in a row.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._row = np.full(paths.switches, -1, dtype=np.int64)
        self._first = np.zeros((0, paths.switches + 1), dtype=np.int64)
        pinned = sorted(paths.pinned.items())
        self._pins = np.array([switch * paths.ports + port for (switch, port), _ in pinned], dtype=np.int64)
        self._pin_count = np.array([len(links) for _, links in pinned], dtype=np.int64)
        self._pin_first = np.concatenate([[0], np.cumsum(self._pin_count)])[:-1].astype(np.int64)
        self.links = np.array([link for _, links in pinned for link in links], dtype=np.int64)

    def find(self, here: IntArray, port: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
        """Next hops of flows, as slices `links[first:first + count]`.

        Args:
            here: the switch that each flow is at.
            port: the host port that it goes to.
            last: the switch that this port is connected to.

        Returns:
            (first, count), int64, shape (flows,); count 0 if there is no path.
        """
        self._learn(np.flatnonzero(np.bincount(last, minlength=len(self._row))))
        row = self._row[last]
        first = self._first[row, here]
        count = self._first[row, here + 1] - first
        if len(self._pins):
            key = here * self._paths.ports + port
            at = np.minimum(np.searchsorted(self._pins, key), len(self._pins) - 1)
            hit = self._pins[at] == key
            first, count = np.where(hit, self._pin_first[at], first), np.where(hit, self._pin_count[at], count)
        return first, count

    def _learn(self, switches: IntArray) -> None:
        new = [switch for switch in switches.tolist() if self._row[switch] < 0]
        if not new:
            return
        rows, links, length = [self._first], [self.links], len(self.links)
        for switch in new:
            towards = self._paths.towards(switch)
            self._row[switch] = len(self._first) + len(rows) - 1
            rows.append((towards.first + length)[None, :])
            links.append(towards.links)
            length += len(towards.links)
        self._first, self.links = np.concatenate(rows), np.concatenate(links)


class Crossing(NamedTuple):
    """Flows that cross links: the index of each flow and the directed link it crosses."""

    flows: IntArray
    links: IntArray


class _Demand(NamedTuple):
    """Bytes of each group, by the switch they are at and their destination."""

    groups: IntArray
    here: IntArray
    end: IntArray
    bytes: FloatArray


class Router:
    """Follows flows between the ranks of a topology.

    Args:
        topology: the topology with all ranks placed.
        seed: seed of the hash and of the source ports of flows; None: that of the topology.
        weights: weight of each directed link among equal-cost next hops, for `spread`; None: equal weights.
        flow_hash: chooses next hops for `hashed`; None: a generic hash.
        sprays: if flows are sprayed, the hash of each entropy value: each carries an equal share of every flow.

    Attributes:
        rank_host, rank_port: int64, shape (ranks,): host and port number of each rank.
        in_domain: bool, shape (ranks,): whether the rank belongs to a scale-up domain, which is that of its host.
        is_choice: bool, shape (directed links,): links that have been one of several next hops so far.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int | None = None,
        weights: FloatArray | None = None,
        flow_hash: FlowHash | None = None,
        sprays: Sequence[FlowHash] = (),
    ) -> None:
        network = topology.network
        self.paths = paths = Paths(network)
        self.topology = topology
        self.weights = weights
        self.seed = network.ecmp_seed if seed is None else seed
        self.rank_host = np.array(topology.host_index, dtype=np.int64)
        self.in_domain = np.array([host.domain is not None for host in topology.hosts])[self.rank_host]
        interface = np.array(topology.interface_index or [0] * topology.endpoints, dtype=np.int64)
        self.rank_port = paths.port_base[self.rank_host] + interface
        self.flow_hash = flow_hash or GenericHash(topology.addresses, switches=paths.switches, seed=self.seed)
        self.sprays = sprays
        self._out = paths.port_link
        self._far = paths.target[paths.port_link]
        self._has_cables = bool((self._far < paths.hosts).any())
        self._table = NextHopTable(paths)
        self._end_of_port, self._port_of_end = self._destinations()
        self.is_choice = np.zeros(len(paths.source), dtype=np.bool_)

    def remote(self, senders: IntArray, receivers: IntArray) -> BoolArray:
        """Whether each flow leaves its host."""
        different: BoolArray = self.rank_host[senders] != self.rank_host[receivers]
        return different

    def inside(self, senders: IntArray, receivers: IntArray) -> BoolArray:
        """Whether each flow stays in a scale-up domain."""
        inside: BoolArray = self.in_domain[senders] & ~self.remote(senders, receivers)
        return inside

    @property
    def is_by_switch(self) -> bool:
        """Whether paths depend on the two switches alone, with each flow on one path: no cables, pins or spraying."""
        return not (self._has_cables or self.paths.pinned or self.sprays)

    def switches_of(self, ranks: IntArray) -> IntArray:
        """Number of the switch that the port of each rank is connected to, if there are no cables."""
        return self._switch(self.rank_port[ranks])

    def host_links(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Directed links out of the port of each rank, and into it."""
        out: IntArray = self._out[self.rank_port[ranks]]
        return out, out ^ 1

    def edges(self, senders: IntArray, receivers: IntArray) -> Iterator[Crossing]:
        """Links at hosts that flows between hosts cross: out of the sender's port, and into the receiver's."""
        every = np.arange(len(senders), dtype=np.int64)
        out, into = self.host_links(senders)[0], self.host_links(receivers)[1]
        yield Crossing(every, out)
        apart = out != into  # a link between two hosts is both
        apart &= ~self._arrives_at_once(senders, receivers)
        yield Crossing(every[apart], into[apart])

    def hashed(self, senders: IntArray, receivers: IntArray, flow_hash: FlowHash | None = None) -> Iterator[Crossing]:
        """Links between switches that flows cross, each flow on one path, hop by hop; by `flow_hash` unless given one.

        Raises:
            PlanError: there is no path, or explicit routes form a loop.
        """
        apart = self._far[self.rank_port[senders]] != self._far[self.rank_port[receivers]]
        flows = np.flatnonzero(apart & ~self._arrives_at_once(senders, receivers))
        here = self._switch(self.rank_port[senders[flows]])
        port = self.rank_port[receivers[flows]]
        last = self._switch(port)
        chosen = flow_hash or self.flow_hash
        tuples = chosen.tuples(senders[flows], receivers[flows])
        for _ in self._hops():
            moving = here != last
            if not moving.any():
                return
            if not moving.all():
                flows, here, port, last = flows[moving], here[moving], port[moving], last[moving]
                tuples = tuples[moving]
            first, count = self._table.find(here, port, last)
            self._require_paths(count, senders[flows], receivers[flows])
            links = self._table.links[first + chosen.choose(tuples, here, count)]
            self._note_choices(first, count)
            yield Crossing(flows, links)
            here = self.paths.target[links] - self.paths.hosts
        raise self._loop()

    def spread(
        self, groups: IntArray, senders: IntArray, receivers: IntArray, sizes: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """Loads of links between switches, with each flow spread over all its equal-cost paths, hop by hop.

        Flows of one group between the same switches are merged.

        Args:
            groups: group number of each flow; loads are separate for each group.
            senders, receivers: world ranks.
            sizes: bytes.

        Yields:
            (groups, directed links, bytes) of a hop.

        Raises:
            PlanError: as `hashed`.
        """
        flows = np.flatnonzero(~self._arrives_at_once(senders, receivers))
        here, end = self._switch(self.rank_port[senders[flows]]), self._end_of_port[self.rank_port[receivers[flows]]]
        demand = _Demand(groups[flows], here, end, sizes[flows].astype(np.float64))
        for _ in self._hops():
            demand = self._merged(demand)
            if not len(demand.bytes):
                return
            port = self._port_of_end[demand.end]
            first, count = self._table.find(demand.here, port, self._switch(port))
            self._require_next_hops(count, demand.here, port)
            parts = np.repeat(np.arange(len(count)), count)
            links = self._table.links[concatenated_ranges(first, count)]
            sent = demand.bytes[parts] * self._parts(links, parts, count)
            yield demand.groups[parts], links, sent
            here = self.paths.target[links] - self.paths.hosts
            demand = _Demand(demand.groups[parts], here, demand.end[parts], sent)
        raise self._loop()

    def _merged(self, demand: _Demand) -> _Demand:
        """Demands with equal group, switch and destination as one; without those that have arrived."""
        moving = demand.here != self._switch(self._port_of_end[demand.end])
        switches, ends = self.paths.switches, len(self._port_of_end)
        key = (demand.groups[moving] * switches + demand.here[moving]) * ends + demand.end[moving]
        keys, sums = sum_by(key, demand.bytes[moving])
        place, end = np.divmod(keys, ends)
        return _Demand(place // switches, place % switches, end, sums)

    def _parts(self, links: IntArray, parts: IntArray, count: IntArray) -> FloatArray:
        """Share of each link among the next hops of its demand."""
        equal: FloatArray = 1 / count[parts]
        if self.weights is None:
            return equal
        weight = self.weights[links]
        whole = np.bincount(parts, weight, len(count))[parts]
        return np.where(whole > 0, weight / np.where(whole > 0, whole, 1), equal)

    def _destinations(self) -> tuple[IntArray, IntArray]:
        """(destination of every port, a port of every destination).

        All ports at a switch are one destination, unless explicit routes may tell them apart.
        """
        if self.paths.pinned:
            every = np.arange(self.paths.ports, dtype=np.int64)
            return every, every
        _, first, inverse = np.unique(self._far, return_index=True, return_inverse=True)
        return inverse.astype(np.int64), first.astype(np.int64)

    def _loop(self) -> PlanError:
        return PlanError(f"{self.topology.name}: the routes form a loop")

    def _hops(self) -> range:
        """More hops than any path without a loop has."""
        return range(self.paths.switches + 2)

    def _switch(self, port: IntArray) -> IntArray:
        """Number of the switch that each port is connected to."""
        switch: IntArray = self._far[port] - self.paths.hosts
        return switch

    def _arrives_at_once(self, senders: IntArray, receivers: IntArray) -> BoolArray:
        """Whether the sender's port is connected directly to a host, which must then be the receiver's."""
        if not self._has_cables:
            return np.zeros(len(senders), dtype=np.bool_)
        far = self._far[self.rank_port[senders]]
        direct: BoolArray = far < self.paths.hosts
        behind = self._far[self.rank_port[receivers]] < self.paths.hosts
        lost = np.flatnonzero((direct & (far != self.rank_host[receivers])) | (behind & ~direct))
        if len(lost):
            raise self._no_path(int(senders[lost[0]]), int(receivers[lost[0]]))
        return direct

    def _require_paths(self, count: IntArray, senders: IntArray, receivers: IntArray) -> None:
        lost = np.flatnonzero(count == 0)
        if len(lost):
            raise self._no_path(int(senders[lost[0]]), int(receivers[lost[0]]))

    def _require_next_hops(self, count: IntArray, here: IntArray, port: IntArray) -> None:
        lost = np.flatnonzero(count == 0)
        if len(lost):
            switch = self.paths.node_name(int(here[lost[0]]) + self.paths.hosts)
            into = self.paths.link_name(int(self._out[port[lost[0]]]) ^ 1).rpartition(" ")[2]
            raise PlanError(f"{self.topology.name}: there is no path from {switch} to {into}")

    def _no_path(self, sender: int, receiver: int) -> PlanError:
        ends = [
            f"rank {rank} ({self.topology.host_of(rank).name}:{self.topology.interface_of(rank).name})"
            for rank in (sender, receiver)
        ]
        return PlanError(f"{self.topology.name}: there is no path from {ends[0]} to {ends[1]}")

    def _note_choices(self, first: IntArray, count: IntArray) -> None:
        several = count > 1
        if several.any():
            starts, index = np.unique(first[several], return_index=True)
            self.is_choice[self._table.links[concatenated_ranges(starts, count[several][index])]] = True


def weights_of(paths: Paths, loads: Mapping[str, float]) -> FloatArray:
    """Observed loads by link name (`leaf0:u1 > spine1:d0`), as weights of directed links.

    Raises:
        PlanError: there is no such link, or a load is negative.
    """
    number = {paths.link_name(link): link for link in range(len(paths.source))}
    weights = np.zeros(len(paths.source))
    for name, load in loads.items():
        if name not in number:
            raise PlanError(f"there is no link {name!r}; write links like {next(iter(number), 'a:0 > b:0')!r}")
        if not load >= 0:
            raise PlanError(f"the load of link {name!r} is {load}: write bytes, at least 0")
        weights[number[name]] = load
    return weights
