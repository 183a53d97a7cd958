"""What recorded steps get when the run is over: queue pair, path, the times of an ideal network, and one clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from emulator.control.observations import FlowCounters
from emulator.controller.clock_offset import ClockEstimate, difference_error_ns
from emulator.controller.recording.topology_description import describe_path
from emulator.controller.run_plan import RunOutcome
from emulator.errors import PlanError
from emulator.planner.group_layout import layouts_on
from emulator.planner.network.ecmp import linux_hash
from emulator.planner.network.fluid_simulation import fluid_transfers
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.routing import Router
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Traffic, TrafficPlace
from emulator.results.run_folder.manifest import TimeAxis
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.topology.model import Topology
from emulator.trace.meaning.model import Communication, IntArray, Workload
from emulator.units import BITS_PER_BYTE, NS_PER_S


class StepQueuePair(NamedTuple):
    """What the packets from one rank to another carry; None: not known, or several."""

    qpn: int | None = None
    source_port: int | None = None


_Times = Mapping[tuple[int, int, int, int], tuple[int, int]]
"""(source, destination, lane, how many such came before) → (post, arrival), ns."""


class StepFacts:
    """Facts about transfers that the topology and the flows of the run know.

    Args:
        topology: of the run.
        workload: what was played.
        flows: as counted.
        algorithm_of: name of the algorithm of a communication.
        overhead: headers of the transport.
    """

    def __init__(
        self,
        topology: Topology,
        workload: Workload,
        flows: Sequence[FlowCounters],
        *,
        algorithm_of: Callable[[Communication], str],
        overhead: WireOverhead,
    ) -> None:
        self._topology, self._workload, self._algorithm_of, self._overhead = topology, workload, algorithm_of, overhead
        self._pairs = _queue_pairs(flows)
        self._paths: dict[tuple[int, int], str | None] = {}
        self._ideal: dict[TrafficPlace, _Times] = {}

    def queue_pair(self, src: int, dst: int) -> StepQueuePair:
        """That carries payload."""
        return self._pairs.get((src, dst), StepQueuePair())

    def path(self, src: int, dst: int) -> str | None:
        """Links and switches; where equal-cost paths remain, all of them. Or the domain."""
        if (src, dst) not in self._paths:
            self._paths[src, dst] = self._path(src, dst)
        return self._paths[src, dst]

    def ideal(self, instance: int) -> _Times:
        """Of all transfers, since the last member posted; empty if a rate is missing or it is too large to simulate.

        All members post at once, transfers share the links fairly, and nothing else takes time.
        """
        place = self._traffic.places[instance]
        if place not in self._ideal:
            self._ideal[place] = self._simulated(place)
        return self._ideal[place]

    def _path(self, src: int, dst: int) -> str | None:
        if (domain := self._topology.domain_of(src)) is not None and domain == self._topology.domain_of(dst):
            return f"scale-up domain of {self._topology.hosts[domain].name}"
        chosen = None
        if self._hashed is not None and self.queue_pair(src, dst).source_port is not None:
            ends = np.array([src]), np.array([dst])
            links = [int(link) >> 1 for crossing in self._hashed.hashed(*ends) for link in crossing.links]
            chosen = [self._topology.network.links[link] for link in links]
        return describe_path(self._topology, src, dst, among=chosen)

    @cached_property
    def _hashed(self) -> Router | None:
        """Where it is known how the switches choose among equal-cost paths."""
        seed = self._topology.network.ecmp_seed
        flow_hash = linux_hash(self._topology, seed=seed, source_ports=self._source_ports)
        return None if flow_hash is None else Router(self._topology, flow_hash=flow_hash)

    def _source_ports(self, senders: IntArray, receivers: IntArray) -> IntArray:
        pairs = zip(senders.tolist(), receivers.tolist(), strict=True)
        return np.array([self.queue_pair(*pair).source_port or 0 for pair in pairs], np.int64)

    @cached_property
    def _traffic(self) -> Traffic:
        return traffic_of_workload(self._workload, name_of=self._algorithm_of, layouts=layouts_on(self._topology))

    def _simulated(self, place: TrafficPlace) -> _Times:
        operation = self._traffic.operations[place.operation]
        router = self._hashed or self._generic
        ranks = operation.ranks[place.group]
        if len(set(router.rank_host[ranks].tolist())) == 1 and not router.in_domain[ranks[0]]:
            return {}  # it crosses no network
        try:
            transfers = fluid_transfers(operation, place.group, router, self._byte_ns)
        except PlanError:  # a network of which the topology draws only a part
            transfers = None
        seen: Counter[tuple[int, int, int]] = Counter()
        times = {}
        for one in sorted(transfers or (), key=lambda one: one.arrival_ns):
            line = (one.sender, one.receiver, one.lane)
            times[*line, seen[line]] = (one.post_ns, one.arrival_ns)
            seen[line] += 1
        return times

    @cached_property
    def _generic(self) -> Router:
        return Router(self._topology)

    @cached_property
    def _byte_ns(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        rates = np.array([link.rate_bps or np.nan for link in self._topology.network.links], np.float64)
        return np.repeat(float(self._overhead.factor) * BITS_PER_BYTE * NS_PER_S / rates, 2)


def complete_steps(writer: RunWriter, facts: StepFacts, *, kept: Collection[tuple[int, int]] | None) -> None:
    """Fill in what is known at the end.

    Args:
        writer: of the run; no steps may be added afterwards.
        facts: of the run.
        kept: (iteration, instance) of those to keep; None: all.

    Raises:
        HostError: the table cannot be written.
    """
    writer.adjust(RunTable.STEPS, partial(_completed, facts=facts, kept=kept))


def _completed(batch: pa.RecordBatch, *, facts: StepFacts, kept: Collection[tuple[int, int]] | None) -> pa.RecordBatch:
    if kept is not None:
        which = zip(batch["iteration"].to_pylist(), batch["instance"].to_pylist(), strict=True)
        batch = batch.filter(pa.array([one in kept for one in which], pa.bool_()))
    pairs = list(zip(batch["src"].to_pylist(), batch["dst"].to_pylist(), strict=True))
    queue_pairs = [facts.queue_pair(*pair) for pair in pairs]
    ideal = _ideal_times(batch, facts)
    columns: dict[str, Sequence[object]] = {
        "qpn": [one.qpn for one in queue_pairs],
        "source_port": [one.source_port for one in queue_pairs],
        "path": [facts.path(*pair) for pair in pairs],
        "ideal_post_ns": [one and one[0] for one in ideal],
        "ideal_arrival_ns": [one and one[1] for one in ideal],
    }
    arrays = [
        _array(columns[field.name], field.type) if field.name in columns else batch[field.name]
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _array(values: Sequence[object], kind: pa.DataType) -> pa.Array[object]:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


def _ideal_times(batch: pa.RecordBatch, facts: StepFacts) -> list[tuple[int, int] | None]:
    """Per row. Rows of an instance are together, and its transfers of one line follow their steps."""
    names = ("iteration", "instance", "src", "dst", "lane")
    columns = {name: to_ints(batch[name]) for name in (*names, "step")}
    order = np.lexsort((columns["step"], *(columns[name] for name in reversed(names))))
    found: list[tuple[int, int] | None] = [None] * batch.num_rows
    seen: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for row in order.tolist():
        line = tuple(int(columns[name][row]) for name in names)
        src, dst, lane = line[2:]
        found[row] = facts.ideal(line[1]).get((src, dst, lane, seen[line]))
        seen[line] += 1
    return found


def _queue_pairs(flows: Sequence[FlowCounters]) -> dict[tuple[int, int], StepQueuePair]:
    """(source, destination) → the queue pair that carried payload, if it was one."""
    found: dict[tuple[int, int], StepQueuePair] = {}
    for flow in flows:
        if flow.bytes:
            pair = (flow.src, flow.dst)
            found[pair] = StepQueuePair() if pair in found else StepQueuePair(flow.qpn, flow.source_port)
    return found


ONE_CLOCK = TimeAxis()
SEVERAL_CLOCKS = "CLOCK_MONOTONIC of the controller's host; other hosts' offsets estimated over the control stream"
_STAMPS = (
    (RunTable.SAMPLES, "rank", ("post_ns", "done_ns", "arrival_ns")),
    (RunTable.ITERATIONS, "rank", ("start_ns", "end_ns")),
    (RunTable.COMPUTE, "rank", ("start_ns", "end_ns")),
    (RunTable.STEPS, "src", ("start_ns", "post_ns", "acknowledged_ns")),
    (RunTable.STEPS, "dst", ("arrival_ns",)),
)
"""Table, the column with the rank whose clock it was, and the stamps."""


def describe_clock(clocks: Mapping[str, ClockEstimate]) -> TimeAxis:
    """The time axis for the manifest: error of the difference of stamps of two agents, largest offset corrected."""
    if not clocks:
        return ONE_CLOCK
    return TimeAxis(
        SEVERAL_CLOCKS,
        offset_ns=max((one.offset_ns for one in clocks.values()), key=abs),
        error_ns=difference_error_ns([one.error_ns for one in clocks.values()]),
    )


def settle_stamps(writer: RunWriter, outcome: RunOutcome, ranks_of: Mapping[str, Sequence[int]]) -> None:
    """Rewrite the samples and iterations of agents with another clock; nothing may be added to them afterwards.

    Raises:
        HostError: they cannot be written.
    """
    foreign = {name: ranks_of[name] for name in outcome.clocks}
    if not foreign:
        return

    for part, owner, names in _STAMPS:
        writer.adjust(part, partial(_settled, owner=owner, names=names, outcome=outcome, foreign=foreign))


def _settled(
    batch: pa.RecordBatch,
    *,
    owner: str,
    names: Sequence[str],
    outcome: RunOutcome,
    foreign: Mapping[str, Sequence[int]],
) -> pa.RecordBatch:
    rank, iteration = to_ints(batch[owner]), to_ints(batch["iteration"])
    columns = {name: to_ints(batch[name], null=0).copy() for name in names}
    for agent, ranks in foreign.items():
        rows = np.flatnonzero(np.isin(rank, list(ranks)))
        taken_off = outcome.taken_off_ns.get(agent, {})
        off: IntArray = np.array([taken_off.get(int(one), 0) for one in iteration[rows]], np.int64)
        for name in names:
            columns[name][rows] = outcome.clocks[agent].to_controller(columns[name][rows] + off)
    for name in names:
        missing = batch[name].is_null()
        settled = pa.array(columns[name], batch.schema.field(name).type, mask=np.asarray(missing))
        batch = batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), settled)
    return batch
