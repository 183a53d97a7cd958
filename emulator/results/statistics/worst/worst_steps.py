"""The recorded steps that cost most: which ranks, queue pair and path, and what was counted there meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from emulator.control.observations import EVENTS
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.measured_rows import UNKNOWN, to_ints
from emulator.results.statistics.samples.transfers import RecordedInstance, Steps, read_steps
from emulator.results.statistics.traffic.network_traffic import hosts_of_ranks
from emulator.results.statistics.worst.worst_flows import drops_next_to, ports_of_ranks
from emulator.trace.meaning.model import IntArray
from emulator.trace.meaning.names import SEND_RECV

FEWEST = 3
"""Transfers of about the same size in an instance that make a median to compare with."""
MOST_LISTED = 20
NEGLIGIBLE = 0.05
"""Part of the instance's time that a step must cost to be listed."""
_Likeness = tuple[int, bool]
"""(about which size, whether between hosts)"""
Waited = Literal["payload", "ack"]


@dataclass(frozen=True, slots=True)
class WorstStep:
    """A transfer that took longer than others of its instance.

    Attributes:
        iteration, instance: which.
        collective, members, collective_bytes: its kind, ranks and size, as its class has them.
        lane, step: position in the algorithm at the sender.
        src, dst: ranks; `source`, `destination` their ports, "" if the topology does not name them.
        waited_for: `payload`: it arrived late; `ack`: everything had arrived, and its acknowledgement was missing.
        time_ns: from when it could begin until it arrived, or was acknowledged.
        above_median_ns: more than the median of the instance's transfers of about this size, between hosts or within
            hosts as this one; None if those are fewer than FEWEST. For an acknowledgement: since the last arrival in
            the instance.
        above_ideal_ns: more than on an ideal network; None if that is not known.
        qpn, source_port, path: of its packets; None and "" if not known or several.
        events: what was counted between the two ranks in the iteration, in both directions and on all queue pairs.
        device_drops: frames that the device dropped at the ports next to both, whoever sent them, from the last reading
            of its counters before the iteration to the first one after it; None if that is not known.
    """

    iteration: int
    instance: int
    collective: str
    members: int
    collective_bytes: int
    lane: int
    step: int
    src: int
    dst: int
    source: str
    destination: str
    size_bytes: int
    waited_for: Waited
    time_ns: int
    above_median_ns: int | None
    above_ideal_ns: int | None
    qpn: int | None
    source_port: int | None
    path: str
    events: Mapping[str, int]
    device_drops: int | None


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of a row of the steps."""

    row: int
    waited_for: Waited
    time_ns: int
    above_median_ns: int | None
    above_ideal_ns: int | None

    @property
    def rank(self) -> int:
        """Above the median; else above the ideal; else 0."""
        return next((one for one in (self.above_median_ns, self.above_ideal_ns) if one is not None), 0)


def worst_steps_of(run: Run) -> tuple[WorstStep, ...]:
    """At most MOST_LISTED, see `worst_steps`; none if the run recorded no steps.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    steps = read_steps(run)
    if steps is None:
        return ()
    return worst_steps(
        steps,
        flow_events=run.table(RunTable.FLOW_EVENTS),
        iterations=run.table(RunTable.ITERATIONS),
        counters=run.table(RunTable.COUNTERS),
        manifest=run.manifest,
        most=MOST_LISTED,
    )


def worst_steps(
    steps: Steps, *, flow_events: pa.Table, iterations: pa.Table, counters: pa.Table, manifest: Manifest, most: int
) -> tuple[WorstStep, ...]:
    """The steps that cost most, largest first; those that cost next to nothing are left out."""
    hosts = hosts_of_ranks(manifest)
    costs = [
        (one, cost)
        for one in steps.instances
        for cost in _costs(steps, one, hosts)
        if cost.rank > NEGLIGIBLE * one.cct_ns
    ]
    costs.sort(key=lambda pair: -pair[1].rank)
    meanwhile = _Meanwhile(flow_events, iterations, counters, manifest)
    return tuple(_described(steps, one, cost, meanwhile) for one, cost in costs[:most])


def _costs(steps: Steps, one: RecordedInstance, hosts: Sequence[int]) -> Iterator[_Cost]:
    """The cost of every transfer that arrived, and of the acknowledgement that the instance waited for last."""
    columns = {name: column[one.rows] for name, column in steps.columns.items()}
    time_ns = steps.time_ns[one.rows]
    arrived = np.flatnonzero(time_ns != UNKNOWN)
    ideal_ns = _ideal_ns(columns)
    ways = zip(*(columns[name].tolist() for name in ("size_bytes", "src", "dst")), strict=True)
    alike = [_alike(size_bytes, hosts, src, dst) for size_bytes, src, dst in ways]
    usual_ns = _usual_ns(alike, time_ns, arrived)
    for at in arrived.tolist():
        ideal = int(ideal_ns[at])
        usual = usual_ns.get(alike[at])
        took = int(time_ns[at])
        yield _Cost(
            int(one.rows[at]),
            "payload",
            took,
            None if usual is None else took - round(usual),
            None if ideal == UNKNOWN else took - ideal,
        )
    if len(arrived):
        last = int(np.argmax(columns["acknowledged_ns"]))
        waited = int(columns["acknowledged_ns"][last] - columns["arrival_ns"][arrived].max())
        if one.key.collective != SEND_RECV and waited > 0:  # a pair is done when its payload has arrived
            since = int(columns["acknowledged_ns"][last] - steps.ready_ns[one.rows[last]])
            yield _Cost(int(one.rows[last]), "ack", since, waited, None)


def _ideal_ns(columns: Mapping[str, IntArray]) -> IntArray:
    known = columns["ideal_arrival_ns"] != UNKNOWN
    return np.where(known, columns["ideal_arrival_ns"] - columns["ideal_post_ns"], UNKNOWN)


def _usual_ns(alike: Sequence[_Likeness], time_ns: IntArray, arrived: IntArray) -> dict[_Likeness, float]:
    """Median time of transfers that are alike."""
    times: dict[_Likeness, list[int]] = {}
    for at in arrived.tolist():
        times.setdefault(alike[at], []).append(int(time_ns[at]))
    found = {what: median(np.array(some, np.int64)) for what, some in times.items() if len(some) >= FEWEST}
    return {what: value for what, value in found.items() if value is not None}


def _alike(size_bytes: int, hosts: Sequence[int], src: int, dst: int) -> _Likeness:
    """Equal for sizes within a factor of about two, so for chunks that differ by a byte, on like ways."""
    return round(math.log2(max(size_bytes, 1))), bool(hosts) and hosts[src] != hosts[dst]


class _Meanwhile:
    """What was counted in an iteration, between two ranks and at the device."""

    def __init__(self, flow_events: pa.Table, iterations: pa.Table, counters: pa.Table, manifest: Manifest) -> None:
        self._events = {name: to_ints(flow_events[name], null=0) for name in ("iteration", "src", "dst", *EVENTS)}
        self._times = {name: to_ints(iterations[name]) for name in ("iteration", "start_ns", "end_ns")}
        self._counters, self._manifest = counters, manifest
        self._drops: dict[int, Mapping[str, int] | None] = {}
        self.ports = ports_of_ranks(manifest)

    def events(self, iteration: int, src: int, dst: int) -> Mapping[str, int]:
        """Counter -> events, those that are not 0."""
        columns = self._events
        there = (columns["src"] == src) & (columns["dst"] == dst)
        back = (columns["src"] == dst) & (columns["dst"] == src)
        rows = (columns["iteration"] == iteration) & (there | back)
        counts = {name: int(columns[name][rows].sum()) for name in EVENTS}
        return {name: count for name, count in counts.items() if count}

    def device_drops(self, iteration: int, src: int, dst: int) -> int | None:
        """See WorstStep."""
        if iteration not in self._drops:
            self._drops[iteration] = self._dropped(iteration)
        drops = self._drops[iteration]
        near = {self.ports.get(src, ""), self.ports.get(dst, "")}
        return None if drops is None else sum(drops.get(port, 0) for port in near)

    def _dropped(self, iteration: int) -> Mapping[str, int] | None:
        rows = self._times["iteration"] == iteration
        if not rows.any():
            return None
        window = int(self._times["start_ns"][rows].min()), int(self._times["end_ns"][rows].max())
        return drops_next_to(self._counters, self._manifest, between_ns=window)


def _described(steps: Steps, one: RecordedInstance, cost: _Cost, meanwhile: _Meanwhile) -> WorstStep:
    value = {name: int(column[cost.row]) for name, column in steps.columns.items()}
    src, dst = value["src"], value["dst"]
    return WorstStep(
        iteration=one.iteration,
        instance=one.instance,
        collective=one.key.collective,
        members=one.key.members,
        collective_bytes=one.key.size_bytes,
        lane=value["lane"],
        step=value["step"],
        src=src,
        dst=dst,
        source=meanwhile.ports.get(src, ""),
        destination=meanwhile.ports.get(dst, ""),
        size_bytes=value["size_bytes"],
        waited_for=cost.waited_for,
        time_ns=cost.time_ns,
        above_median_ns=cost.above_median_ns,
        above_ideal_ns=cost.above_ideal_ns,
        qpn=_known(value["qpn"]),
        source_port=_known(value["source_port"]),
        path=steps.paths[cost.row],
        events=meanwhile.events(one.iteration, src, dst),
        device_drops=meanwhile.device_drops(one.iteration, src, dst),
    )


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value
