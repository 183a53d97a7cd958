"""Which links flows take: many flows at once, by explicit routes, by a hash over their 5-tuples, or spread evenly.

A flow is what one rank sends another. Where equal-cost paths part, a hash of addresses, protocol and ports chooses one
of them for the whole flow, at every switch anew; spread evenly, each takes an equal share, which no real network
does better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.errors import PlanError
from emulator.planner.network.ecmp import FlowHash, OwnHash
from emulator.topology.model import Topology
from emulator.topology.paths import Paths
from emulator.trace.model import BoolArray, IntArray

FloatArray = npt.NDArray[np.float64]

_DENSE_KEYS = 1 << 22
"""Up to here counting in an array is faster than sorting."""


class Crossing(NamedTuple):
    """Flows that cross links: indices of flows, and a directed link for each."""

    flows: IntArray
    links: IntArray


class _Demand(NamedTuple):
    """Bytes of groups that are at switches and go to destinations."""

    groups: IntArray
    here: IntArray
    end: IntArray
    bytes: FloatArray


class Router:
    """Follows flows between the ranks of a topology.

    Args:
        topology: with a place for every rank.
        seed: of the hash and of the flows' source ports; None = the topology's.
        weights: share of each directed link where paths part, for `spread`; None = equal shares.
        flow_hash: chooses for `hashed`; None = a hash of our own.

    Attributes:
        paths: of the topology's network.
        weights: as given.
        flow_hash: what chooses for `hashed`.
        rank_port: int64, shape (ranks,): port number of each rank.
        is_choice: bool, shape (directed links,): links that were one of several next hops so far.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int | None = None,
        weights: FloatArray | None = None,
        flow_hash: FlowHash | None = None,
    ) -> None:
        network = topology.network
        self.paths = paths = Paths(network)
        self._topology = topology
        self.weights = weights
        self.seed = network.ecmp_seed if seed is None else seed
        self.rank_host = np.array(topology.host_index, dtype=np.int64)
        interface = np.array(topology.interface_index or [0] * topology.ranks, dtype=np.int64)
        self.rank_port = paths.port_base[self.rank_host] + interface
        self.flow_hash = flow_hash or OwnHash(topology.addresses, switches=paths.switches, seed=self.seed)
        self._out = paths.port_link
        self._far = paths.target[paths.port_link]
        self._has_cables = bool((self._far < paths.hosts).any())
        self._table = _NextHopTable(paths)
        self._end_of_port, self._port_of_end = self._destinations()
        self.is_choice = np.zeros(len(paths.source), dtype=np.bool_)

    def remote(self, senders: IntArray, receivers: IntArray) -> BoolArray:
        """Which of the flows leave their host."""
        different: BoolArray = self.rank_host[senders] != self.rank_host[receivers]
        return different

    def edges(self, senders: IntArray, receivers: IntArray) -> Iterator[Crossing]:
        """The links at hosts that flows between hosts cross: out of the sender's port, into the receiver's."""
        every = np.arange(len(senders), dtype=np.int64)
        out, into = self._out[self.rank_port[senders]], self._out[self.rank_port[receivers]] ^ 1
        yield Crossing(every, out)
        apart = out != into  # one cable between two hosts is both
        apart &= ~self._arrives_at_once(senders, receivers)
        yield Crossing(every[apart], into[apart])

    def hashed(self, senders: IntArray, receivers: IntArray) -> Iterator[Crossing]:
        """The links between switches that flows cross, each flow on one path.

        Raises:
            PlanError: no path leads there, or routes go in circles.
        """
        apart = self._far[self.rank_port[senders]] != self._far[self.rank_port[receivers]]
        flows = np.flatnonzero(apart & ~self._arrives_at_once(senders, receivers))
        here = self._switch(self.rank_port[senders[flows]])
        port = self.rank_port[receivers[flows]]
        last = self._switch(port)
        tuples = self.flow_hash.tuples(senders[flows], receivers[flows])
        for _ in self._hops():
            moving = here != last
            if not moving.any():
                return
            if not moving.all():
                flows, here, port, last = flows[moving], here[moving], port[moving], last[moving]
                tuples = tuples[moving]
            first, count = self._table.find(here, port, last)
            self._require_paths(count, senders[flows], receivers[flows])
            links = self._table.links[first + self.flow_hash.choose(tuples, here, count)]
            self._note_choices(first, count)
            yield Crossing(flows, links)
            here = self.paths.target[links] - self.paths.hosts
        raise self._circle()

    def spread(
        self, groups: IntArray, senders: IntArray, receivers: IntArray, sizes: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """The links between switches with all paths of equal cost in use, in equal (or the given) shares.

        Flows of a group between the same switches are one here, whatever their number.

        Args:
            groups: a number per flow; what belongs to different groups stays apart.
            senders, receivers: world ranks.
            sizes: bytes.

        Yields:
            (groups, directed links, bytes): hop by hop.

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
            parts = np.repeat(np.arange(len(count)), count)
            links = self._table.links[_ranges(first, count)]
            sent = demand.bytes[parts] * self._parts(links, parts, count)
            yield demand.groups[parts], links, sent
            here = self.paths.target[links] - self.paths.hosts
            demand = _Demand(demand.groups[parts], here, demand.end[parts], sent)
        raise self._circle()

    def _merged(self, demand: _Demand) -> _Demand:
        """Demands of one group at one switch for one destination as one, without those that have arrived."""
        moving = demand.here != self._switch(self._port_of_end[demand.end])
        switches, ends = self.paths.switches, len(self._port_of_end)
        key = (demand.groups[moving] * switches + demand.here[moving]) * ends + demand.end[moving]
        keys, sums = sum_by(key, demand.bytes[moving])
        place, end = np.divmod(keys, ends)
        return _Demand(place // switches, place % switches, end, sums)

    def _parts(self, links: IntArray, parts: IntArray, count: IntArray) -> FloatArray:
        """Share that each of the links gets of what arrives where paths part."""
        equal: FloatArray = 1 / count[parts]
        if self.weights is None:
            return equal
        weight = self.weights[links]
        whole = np.bincount(parts, weight, len(count))[parts]
        return np.where(whole > 0, weight / np.where(whole > 0, whole, 1), equal)

    def _destinations(self) -> tuple[IntArray, IntArray]:
        """(destination of every port, a port of every destination): ports at one switch are one where no route parts
        them."""
        if self.paths.pinned:
            every = np.arange(self.paths.ports, dtype=np.int64)
            return every, every
        _, first, inverse = np.unique(self._far, return_index=True, return_inverse=True)
        return inverse.astype(np.int64), first.astype(np.int64)

    def _circle(self) -> PlanError:
        return PlanError(f"{self._topology.name}: its routes lead in a circle")

    def _hops(self) -> range:
        return range(self.paths.switches + 2)

    def _switch(self, port: IntArray) -> IntArray:
        """Number of the switch that ports are plugged into."""
        switch: IntArray = self._far[port] - self.paths.hosts
        return switch

    def _arrives_at_once(self, senders: IntArray, receivers: IntArray) -> BoolArray:
        """Flows whose sender's port is cabled to a host: it must be the receiver's."""
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

    def _no_path(self, sender: int, receiver: int) -> PlanError:
        ends = [
            f"rank {rank} ({self._topology.host_of(rank).name}:{self._topology.interface_of(rank).name})"
            for rank in (sender, receiver)
        ]
        return PlanError(f"{self._topology.name}: no path leads from {ends[0]} to {ends[1]}")

    def _note_choices(self, first: IntArray, count: IntArray) -> None:
        several = count > 1
        if several.any():
            starts, index = np.unique(first[several], return_index=True)
            self.is_choice[self._table.links[_ranges(starts, count[several][index])]] = True


class _NextHopTable:
    """Next hops of all destination switches asked for so far, and the explicit routes, as one flat list of links."""

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
        """(first, count): next hops at `here` towards `port` behind `last` are links[first:first + count]."""
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


def weights_of(paths: Paths, loads: Mapping[str, float]) -> FloatArray:
    """Observed loads by link name (`leaf0:u1 > spine1:d0`) as weights of directed links.

    Raises:
        PlanError: no such link, or a load below 0.
    """
    number = {paths.link_name(link): link for link in range(len(paths.source))}
    weights = np.zeros(len(paths.source))
    for name, load in loads.items():
        if name not in number:
            raise PlanError(f"there is no link {name!r}; links are written as {next(iter(number), 'a:0 > b:0')!r}")
        if not load >= 0:
            raise PlanError(f"the load of link {name!r} is {load}: bytes of at least 0 are needed")
        weights[number[name]] = load
    return weights


def sum_by(keys: IntArray, values: FloatArray | IntArray) -> tuple[IntArray, FloatArray]:
    """(distinct keys ascending, sums of their values); keys are at least 0."""
    if not len(keys):
        return keys, np.zeros(0)
    if int(keys.max()) < _DENSE_KEYS:
        distinct = np.flatnonzero(np.bincount(keys)).astype(np.int64)
        return distinct, np.bincount(keys, values)[distinct].astype(np.float64)
    distinct, inverse = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(inverse, values).astype(np.float64)


def _ranges(first: IntArray, count: IntArray) -> IntArray:
    """first[0], first[0] + 1, … count[0] of them, then those of the next."""
    ends = np.cumsum(count)
    steps = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)
    return steps + np.repeat(first - ends + count, count)
