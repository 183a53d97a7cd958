"""Planning an experiment: what it and its flows would load a network with, and how long that takes at least."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from emulator.errors import InputError
from emulator.experiment.settle.defaults import Resolved, overrides_of, resolve
from emulator.experiment.settle.events import (
    PlannedChange,
    check_schedule,
    describe_schedule,
    require_lab,
    schedule_of,
)
from emulator.experiment.settle.flows import PlannedFlow, find_host
from emulator.experiment.settle.settled import planned_flows
from emulator.experiment.settle.testbed import topology_without_host
from emulator.experiment.settle.workload import load_job
from emulator.experiment.spec.spec import Experiment
from emulator.flows.perftest_parameters import PeerTask, PeerTest
from emulator.host.files import read_bounded
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.group_layout import Layouts, layouts_on
from emulator.planner.network.ecmp import FlowHash, LinuxHash, linux_hash, roce_source_ports, spray_hashes
from emulator.planner.network.link_loads import FlowLoad, LinkLoad, flow_link_loads
from emulator.planner.network.plan import LISTED_FLOWS, Plan, instance_ns, make_plan
from emulator.planner.network.routing import Router, weights_of
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Traffic, traffic_of_collective
from emulator.roce.options import RoceOptions, timeline_bin_ns_after
from emulator.roce.tuning import TIMELINE_ROW_BYTES, TIMELINE_ROWS
from emulator.schema import SchemaProblem, decode, parse_json
from emulator.topology.model import Topology
from emulator.topology.network import End
from emulator.topology.paths import Paths
from emulator.trace.analysis.critical_path import longest_path_ns
from emulator.trace.meaning.imported import NOT_IMPORTED, ImportFacts
from emulator.trace.meaning.model import CommKind, Workload
from emulator.trace.meaning.storage import play_on_storage_hosts
from emulator.units import NS_PER_S, format_duration

MOST_FLOWS_AS_LINUX = 1 << 22
"""More flows than this get a hash that costs a tenth."""


class PlannedLoad(Protocol):
    """What is planned in place of a trace."""

    @property
    def ranks(self) -> int:
        """Number of ranks in the world."""
        ...

    def traffic(self, overrides: Mapping[str, str], layouts: Layouts) -> Traffic:
        """What it sends in one iteration.

        Args:
            overrides: kind of collective → algorithm.
            layouts: of the groups on the topology.

        Raises:
            PlanError: there is no such algorithm, or it does not suit a group.
        """
        ...


@dataclass(frozen=True, slots=True)
class CollectiveLoad:
    """One collective, played by groups of consecutive ranks at the same time; size in bytes, as nccl-tests counts."""

    kind: CommKind
    ranks: int
    size_bytes: int
    group_size: int

    def traffic(self, overrides: Mapping[str, str], layouts: Layouts) -> Traffic:
        """See PlannedLoad."""
        size = 0 if self.kind is CommKind.BARRIER else self.size_bytes
        return traffic_of_collective(
            self.kind,
            ranks=self.ranks,
            size_bytes=size,
            group_size=self.group_size,
            overrides=overrides,
            layouts=layouts,
        )


@dataclass(frozen=True, slots=True)
class PlannedExperiment:
    """A plan of a run.

    Attributes:
        plan: of an iteration of its job.
        jct_ns: least time of an iteration, ns; None if it is not known.
        jct_note: what that is made of.
        flows: what flows alongside the job send.
        flow_links: the links that those load.
        imported: what the import of the job's trace guessed and dropped.
        changes: of the device during the run.
    """

    plan: Plan
    jct_ns: int | None
    jct_note: str
    flows: Sequence[FlowLoad]
    flow_links: Sequence[LinkLoad]
    imported: ImportFacts
    changes: Sequence[PlannedChange]


def plan_experiment(
    experiment: Experiment,
    load: PlannedLoad | None = None,
    *,
    seed: int | None = None,
    link_loads: Path | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> PlannedExperiment:
    """Plan an experiment with the settings that a run of it would have.

    Args:
        experiment: network, transport and algorithms; also the job, unless `load` is given.
        load: planned in place of the job.
        seed: of the ECMP hash; None: the topology's.
        link_loads: JSON file `{"leaf0:u0 > spine0:d0": BYTES, …}`; equal-cost links share traffic as observed there.
        notify: receives what the topology file holds that has no counterpart here, and what an import guessed.

    Raises:
        TraceError: the trace cannot be read or played.
        TopologyError: the topology is wrong.
        PlanError: workload and settings do not fit together.
        InputError: the file of link loads cannot be read.
    """
    overrides = overrides_of(experiment.job)
    if load is None:
        topology, workload, imported = _place_job(experiment)
        layouts = layouts_on(topology)
        choice = AlgorithmChoice(workload, overrides, layouts)
        traffic = traffic_of_workload(workload, name_of=choice.name_of, layouts=layouts)
    else:
        topology = topology_without_host(experiment, ranks=load.ranks)
        traffic, workload = load.traffic(overrides, layouts_on(topology)), None
        imported = NOT_IMPORTED
    for note in topology.notes:
        notify(f"{topology.source}: {note}")
    for line in imported.lines():
        notify(line)
    resolved = resolve(experiment, topology)
    changes = _changes(experiment, topology, resolved)
    router = Router(
        topology,
        seed=seed,
        weights=_weights(link_loads, topology),
        flow_hash=_flow_hash(resolved, topology, traffic, seed=seed),
        sprays=_sprays(resolved, topology, seed=seed),
    )
    plan = make_plan(traffic, topology, router=router, overhead=resolved.overhead)
    if resolved.roce is not None and resolved.roce.timeline_bin_ns:
        notify(_timeline(resolved.roce, plan))
    flows = flow_loads(planned_flows(experiment, topology, resolved), topology)
    jct_ns, jct_note = _jct(traffic, workload, plan)
    return PlannedExperiment(plan, jct_ns, jct_note, flows, flow_link_loads(flows, topology), imported, changes)


def _timeline(roce: RoceOptions, plan: Plan) -> str:
    """How long the bins of a long run become, and what they take on disk."""
    between = LISTED_FLOWS if plan.flows is None else len(plan.flows)
    flows = max(plan.topology.ranks, between) * roce.qps
    minute, hour = (
        format_duration(timeline_bin_ns_after(roce.timeline_bin_ns, flows=flows, duration_ns=seconds * NS_PER_S))
        for seconds in (60, 3600)
    )
    size_mb = max(TIMELINE_ROWS, 2 * flows) * TIMELINE_ROW_BYTES / 1e6
    return (
        f"timeline in bins of {roce.timeline}, which become longer: if none of {flows:,} flows pauses, up to {minute} "
        f"after a minute and {hour} after an hour; about {size_mb:.0f} MB an hour at most"
    )


def _changes(experiment: Experiment, topology: Topology, resolved: Resolved) -> list[PlannedChange]:
    """What the schedule of a lab of this topology has."""
    device, events = experiment.device, experiment.events
    if device.profile is None and not events:
        return []
    iterations = None if experiment.job.until is not None else resolved.iterations
    schedule = schedule_of(device, events, iterations=iterations)
    if not topology.network.is_drawn:
        require_lab(device, events, topology)
    check_schedule(schedule, topology, frame_bytes=resolved.full_frame_bytes)
    return describe_schedule(schedule)


def _place_job(experiment: Experiment) -> tuple[Topology, Workload, ImportFacts]:
    """The topology with the ranks of the job, what is played there, and how exact its import was."""
    with load_job(experiment.job) as job:
        topology = topology_without_host(experiment, ranks=job.ranks)
        workload = play_on_storage_hosts(
            job.workload, job.loaded.traces, endpoints=topology.storage_endpoints, options=job.options
        )
        return topology, workload, job.loaded.imported


def _weights(path: Path | None, topology: Topology) -> Any:
    if path is None:
        return None
    try:
        loads = parse_json(read_bounded(path))
    except (OSError, SchemaProblem) as error:
        problem = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(f"{path}: the link loads cannot be read: {problem}") from error
    if not isinstance(loads, Mapping) or not all(isinstance(load, int | float) for load in loads.values()):
        raise InputError(f'{path}: write link loads as {{"leaf0:u0 > spine0:d0": 1000}}')
    return weights_of(Paths(topology.network), loads)


def _flow_hash(resolved: Resolved, topology: Topology, traffic: Traffic, *, seed: int | None) -> LinuxHash | None:
    """The kernel's, if its choices can be known and there are few enough flows."""
    if resolved.roce is None or not resolved.transport.is_routed_by_flow:
        return None
    ports = roce_source_ports(resolved.roce.source_port, qps=resolved.roce.qps)
    flows = sum(operation.transfers * operation.groups for operation in traffic.operations)
    if ports is None or flows > MOST_FLOWS_AS_LINUX:
        return None
    return linux_hash(topology, seed=topology.network.ecmp_seed if seed is None else seed, source_ports=ports)


def _sprays(resolved: Resolved, topology: Topology, *, seed: int | None) -> Sequence[FlowHash]:
    """The hash of each entropy value; none: every flow takes one path."""
    if resolved.roce is None or not resolved.roce.multipath:
        return ()
    seed = topology.network.ecmp_seed if seed is None else seed
    return spray_hashes(topology, values=resolved.roce.multipath, seed=seed)


def _jct(traffic: Traffic, workload: Workload | None, plan: Plan) -> tuple[int | None, str]:
    """Least time of an iteration, and what it is made of."""
    if workload is not None:
        times = instance_ns(traffic, plan)
        note = "longest path of compute and ideal times by links"
        return (None if times is None else longest_path_ns(workload, communication_ns=times)), note
    if traffic.compute_ns:
        return plan.jct_ns, "compute and ideal times by links one after the other, of the slowest stage"
    return None, ""


def check_flows(experiment: Experiment, *, ranks: int) -> list[FlowLoad]:
    """What the flows of a run spec send; settings that a run would refuse are refused here.

    Raises:
        TopologyError: the topology file is not valid.
        PlanError: the ranks do not fit, a setting is not one of the transport, or a flow is not possible.
    """
    topology = topology_without_host(experiment, ranks=ranks)
    return flow_loads(planned_flows(experiment, topology, resolve(experiment, topology)), topology)


def flow_loads(flows: Sequence[PlannedFlow], topology: Topology) -> list[FlowLoad]:
    """Every direction in which flows send payload."""
    return [load for flow in flows for load in _directions(flow, topology)]


def _directions(flow: PlannedFlow, topology: Topology) -> Iterator[FlowLoad]:
    here = End(flow.host, flow.interface)
    if flow.task.kind == "background":
        if flow.parameter:  # the sender's end, which stands for both
            host, interface = find_host(topology, flow.row["peer"], flow.task.title)
            yield _load(flow, here, End(host.name, interface.name), None)
        return
    test, there = decode(json.loads(flow.task.document), PeerTask).test, _peer_port(flow, topology)
    is_outwards = (flow.row["role"] == "client") is (test.verb.operation != "read")
    is_both = test.is_bidirectional or (test.verb.is_latency and test.verb.operation != "read")
    for sender, receiver in ((here, there), (there, here)) if is_outwards else ((there, here), (here, there)):
        yield _load(flow, sender, receiver, test)
        if not is_both:
            return


def _load(flow: PlannedFlow, sender: End, receiver: End, test: PeerTest | None) -> FlowLoad:
    return FlowLoad(
        number=flow.task.number,
        kind=flow.task.kind,
        about=flow.about,
        sender=sender,
        receiver=receiver,
        payload_bytes=_payload_bytes(test),
    )


def _peer_port(flow: PlannedFlow, topology: Topology) -> End:
    (peer,) = (host for host in topology.hosts if host.name == flow.row["peer"])
    named = [port.name for port in peer.interfaces if flow.peer_address in port.addresses]
    return End(flow.row["peer"], (named or [peer.interfaces[0].name])[0])


def _payload_bytes(test: PeerTest | None) -> int | None:
    return test.size_bytes * test.iterations * test.queue_pairs if test is not None and test.iterations else None
