"""A run before any traffic, as a value: every setting, address, agent and algorithm."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emulator.controller.assignment import Assignment, agents_at, assign_ranks
from emulator.controller.roster.listen_address import ListenAddress
from emulator.errors import PlanError
from emulator.experiment.settle.background import plan_background
from emulator.experiment.settle.flow_places import FreeAddresses, PlannedFlow
from emulator.experiment.settle.flows import plan_flows, require_flow_egress
from emulator.experiment.settle.listening import listening
from emulator.experiment.settle.resolve import Resolved, resolve
from emulator.experiment.settle.testbed import Testbed
from emulator.experiment.settle.workload import LoadedJob
from emulator.experiment.spec.spec import Experiment
from emulator.host.rdma import require_device
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.forecast import Forecast, forecast
from emulator.planner.group_layout import layouts_on
from emulator.planner.network.ideal_times import ideal_per_instance
from emulator.planner.network.late_ranks import RemainingTimes
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.roce.options import RoceOptions
from emulator.topology.model import Topology, joined
from emulator.trace.meaning.model import IntArray, RankProgram, Workload
from emulator.trace.meaning.storage import play_on_storage_hosts
from emulator.units import NS_PER_S

LONGEST_COMPUTE_NS = 366 * 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies a run.

    Attributes:
        created: ISO 8601 with zone.
    """

    run_id: str
    created: str
    command_line: tuple[str, ...]

    @classmethod
    def new(cls, command_line: Sequence[str]) -> Identity:
        """That of a run which is made now."""
        now = datetime.datetime.now(datetime.UTC).astimezone()
        run_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        return cls(run_id, now.isoformat(timespec="milliseconds"), tuple(command_line))


@dataclass(frozen=True, slots=True)
class Settled:
    """A run that can begin.

    Attributes:
        resolved: every setting.
        job: what was loaded.
        workload: as it is played: with storage hosts, and compute scaled.
        choice: the algorithm of every collective.
        listening: where agents of other machines connect; None if all are local.
        flows: traffic alongside the job, or the jobs.
        assignment: which agent plays which ranks.
        ideal_ns: int64, shape (workload.instances,), see `ideal_per_instance`.
        forecast: what the run will move.
        offset_ns: when the job begins, after its session.
        until_others: it repeats its iterations until the other jobs of its session have ended.
    """

    identity: Identity
    experiment: Experiment
    testbed: Testbed
    resolved: Resolved
    job: LoadedJob
    workload: Workload
    choice: AlgorithmChoice
    listening: ListenAddress | None
    flows: Sequence[PlannedFlow]
    assignment: Assignment
    ideal_ns: IntArray
    forecast: Forecast
    offset_ns: int = 0
    until_others: bool = False

    @property
    def topology(self) -> Topology:
        """Hosts, ranks and network."""
        return self.testbed.topology

    @property
    def exec_prefixes(self) -> Mapping[str, Sequence[str]]:
        """Local agent -> words before its command, which enter a namespace of the lab."""
        return _exec_prefixes(self.testbed)


def settle(
    experiment: Experiment,
    job: LoadedJob,
    testbed: Testbed,
    *,
    command_line: Sequence[str],
    session: Experiment | None = None,
    beside: Sequence[Topology] = (),
) -> Settled:
    """Settle everything about a run.

    Args:
        experiment: of one job.
        job: what was loaded for it.
        testbed: where it is played.
        command_line: for the manifest.
        session: whose flows and background traffic run alongside the job; None: those of the experiment.
        beside: topologies of the other jobs, whose ranks use addresses as well.

    Raises:
        PlanError: an algorithm that does not exist, compute stretched beyond a year, agents without an address to
            connect to, programs that are too long for the pace.
        InputError: a token that cannot be used.
    """
    topology = testbed.topology
    resolved = resolve(experiment, topology, in_lab=testbed.lab is not None)
    if resolved.transport.needs_device and experiment.agents.listen is None and "software_nic" not in resolved.options:
        require_device()  # before anything is made: every agent runs on this host
    played = play_on_storage_hosts(
        job.workload, job.loaded.traces, endpoints=topology.storage_endpoints, options=job.options
    )
    workload = _scale_compute(played, resolved.compute_factor)
    _require_residence(experiment, workload)
    layouts = layouts_on(topology)
    choice, address = AlgorithmChoice(workload, resolved.overrides, layouts), listening(experiment.agents)
    flows = planned_flows(session or experiment, joined([topology, *beside]), resolved)
    assignment = _assign(experiment, testbed, address, [flow.host for flow in flows])
    hosts = [flow.host for flow in flows]
    elsewhere = [host for host in hosts if not assignment.local.issuperset(agents_at(host, assignment, topology))]
    require_flow_egress(flows, testbed, remote=elsewhere)
    ideal_ns = ideal_per_instance(workload, topology, algorithm_of=choice.name_of, overhead=resolved.overhead)
    traffic = traffic_of_workload(workload, name_of=choice.name_of, layouts=layouts)
    return Settled(
        identity=Identity.new(command_line),
        experiment=experiment,
        testbed=testbed,
        resolved=resolved,
        job=job,
        workload=workload,
        choice=choice,
        listening=address,
        flows=flows,
        assignment=assignment,
        ideal_ns=ideal_ns,
        forecast=forecast(
            workload,
            algorithm_of=choice.name_of,
            ideal_ns=ideal_ns,
            iterations=resolved.iterations,
            warmup=resolved.warmup,
            layouts=layouts,
            late=RemainingTimes(traffic, topology, resolved.overhead, ideal_ns),
        ),
    )


def _require_residence(experiment: Experiment, workload: Workload) -> None:
    """Refuse programs that agents receive piece by piece where they must begin the next iteration by themselves."""
    if experiment.job.pace != "continuous":
        return
    longest = max(workload.programs, key=len)
    if len(longest) > workload.window:
        raise PlanError(
            f"pace continuous: rank {longest.rank} has {len(longest):,} nodes, but agents hold only"
            f" {workload.window:,} per rank and cannot restart a longer program on their own: use pace barrier"
        )


def planned_flows(session: Experiment, topology: Topology, resolved: Resolved) -> Sequence[PlannedFlow]:
    """Everything alongside the jobs of a session.

    Raises:
        PlanError: see `plan_flows` and `plan_background`.
    """
    addresses = FreeAddresses(topology, is_rocev2=resolved.transport.is_rocev2)
    mtu = session.network.mtu or topology.link_mtu
    options = RoceOptions(call_bytes=resolved.roce.call_bytes if resolved.roce else 0)
    flows = plan_flows(session.flows, topology, addresses, mtu=mtu, options=options)
    options = replace(options, dscp=resolved.roce.dscp) if resolved.roce else options
    background = plan_background(
        session.background, topology, addresses, first=len(flows), mtu=mtu, options=options, seed=resolved.seed
    )
    return [*flows, *background]


def _exec_prefixes(testbed: Testbed) -> Mapping[str, Sequence[str]]:
    return testbed.lab.exec_prefixes if testbed.lab is not None else {}


def _assign(
    experiment: Experiment, testbed: Testbed, address: ListenAddress | None, flow_hosts: Sequence[str]
) -> Assignment:
    assignment = assign_ranks(
        testbed.topology,
        local_agents=experiment.agents.count,
        is_by_hand=experiment.agents.by_hand,
        apart=_exec_prefixes(testbed),
        others=flow_hosts,
    )
    if address is not None:
        address.check(testbed.topology)
    elif assignment.remote:
        names = ", ".join(assignment.remote)
        raise PlanError(f"agents {names} connect from their hosts: give an address with --listen HOST:PORT")
    return assignment


def _scale_compute(workload: Workload, factor: float) -> Workload:
    if factor == 1:
        return workload
    return replace(workload, programs=[replace(one, duration_ns=_scaled(one, factor)) for one in workload.programs])


def _scaled(program: RankProgram, factor: float) -> IntArray:
    if float(program.duration_ns.sum()) * factor > LONGEST_COMPUTE_NS:
        raise PlanError(f"--compute {factor:g} makes the compute of rank {program.rank} take more than a year")
    scaled: IntArray = np.rint(program.duration_ns * factor).astype(np.int64)
    return scaled
