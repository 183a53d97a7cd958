"""A run before any traffic, as a value: every setting, address, agent and algorithm."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emulator.control.conversation import JobSetup, RankPlace
from emulator.controller.assignment import Assignment, agents_at, assign_ranks, domains_of
from emulator.controller.roster.listen_address import ListenAddress
from emulator.controller.run_plan import RunPlan
from emulator.errors import HostError, PlanError
from emulator.experiment.settle.background import plan_background
from emulator.experiment.settle.defaults import Resolved, resolve
from emulator.experiment.settle.flows import FreeAddresses, PlannedFlow, plan_flows, require_flow_egress
from emulator.experiment.settle.testbed import Testbed, listening
from emulator.experiment.settle.workload import LoadedJob
from emulator.experiment.spec.spec import Experiment
from emulator.host.nic import require_device
from emulator.host.resources import free_memory_bytes
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.forecast import Forecast, forecast
from emulator.planner.group_layout import layouts_on
from emulator.planner.network.ideal_times import ideal_per_instance
from emulator.planner.network.late_ranks import RemainingTimes
from emulator.planner.network.port_shares import NO_SHARE, PortShare, port_shares
from emulator.planner.rank_program import PlaySettings
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Traffic
from emulator.roce.options import RoceOptions
from emulator.topology.model import Topology, joined
from emulator.trace.meaning.model import IntArray, RankProgram, Workload
from emulator.trace.meaning.storage import play_on_storage_hosts
from emulator.transports.registry import OFF, VerbsOptions
from emulator.units import NS_PER_S, format_size

CONNECTION_BYTES = 20_000
"""Memory of an agent for one end of a connection between two ranks, at least: 22,600 to 23,700 bytes (all_to_all of 32,
128 and 192 ranks, CPython 3.11)."""
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
        plan: for the controller.
        listening: where agents of other machines connect; None if all are local.
        flows: traffic alongside the job, or the jobs.
        ideal_ns: int64, shape (workload.instances,), see `ideal_per_instance`.
        forecast: what the run will move.
    """

    identity: Identity
    experiment: Experiment
    testbed: Testbed
    resolved: Resolved
    job: LoadedJob
    plan: RunPlan
    listening: ListenAddress | None
    flows: Sequence[PlannedFlow]
    ideal_ns: IntArray
    forecast: Forecast

    @property
    def workload(self) -> Workload:
        """As it is played: with storage hosts, and compute scaled."""
        return self.plan.workload

    @property
    def choice(self) -> AlgorithmChoice:
        """The algorithm of every collective."""
        return self.plan.choice

    @property
    def assignment(self) -> Assignment:
        """Which agent plays which ranks."""
        return self.plan.assignment

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
    offset_ns: int = 0,
    until_others: bool = False,
) -> Settled:
    """Settle everything about a run.

    Args:
        experiment: of one job.
        job: what was loaded for it.
        testbed: where it is played.
        command_line: for the manifest.
        session: whose flows and background traffic run alongside the job; None: those of the experiment.
        beside: topologies of the other jobs, whose ranks use addresses as well.
        offset_ns, until_others: see RunPlan.

    Raises:
        PlanError: an algorithm that does not exist, compute stretched beyond a year, agents without an address to
            connect to, programs that are too long for the pace.
        InputError: a token that cannot be used.
        HostError: see `require_memory`.
    """
    topology = testbed.topology
    resolved = resolve(experiment, topology, in_lab=testbed.lab is not None)
    if resolved.roce is None or not resolved.roce.survive:  # nobody uses second addresses
        topology = replace(topology, alternates=())
        testbed = replace(testbed, topology=topology)
    verbs = resolved.options if isinstance(resolved.options, VerbsOptions) else None
    if verbs is not None and verbs.software_nic == OFF and experiment.agents.listen is None:
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
    if resolved.roce is not None:
        require_memory(traffic, assignment, free_bytes=free_memory_bytes())
    identity, is_continuous = Identity.new(command_line), experiment.job.pace == "continuous"
    return Settled(
        identity=identity,
        experiment=experiment,
        testbed=testbed,
        resolved=resolved,
        job=job,
        plan=RunPlan(
            setup=_setup(
                identity.run_id, resolved, topology, workload, choice, assignment, is_continuous=is_continuous
            ),
            workload=workload,
            node_ids=[
                trace.node_id[program.order]
                for trace, program in zip(job.loaded.traces, workload.programs, strict=True)
            ],
            choice=choice,
            assignment=assignment,
            iterations=range(-resolved.warmup, 1 if until_others else resolved.iterations),
            silence_timeout_s=resolved.timeout_s,
            offset_ns=offset_ns,
            is_continuous=is_continuous,
            until_others=until_others,
        ),
        listening=address,
        flows=flows,
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


def require_memory(traffic: Traffic, assignment: Assignment, *, free_bytes: int | None) -> None:
    """Refuse connections that cannot fit into the memory of this host, before agents try to make them.

    Args:
        traffic: of the job. Only exchanges of all with all count, which are what need so many.
        assignment: of its ranks.
        free_bytes: of this host; None: not known.

    Raises:
        HostError: they take more than is free.
    """
    if free_bytes is None or not traffic.ranks:
        return
    exchanges = [one for one in traffic.operations if one.exchange is not None]
    largest = max(exchanges, key=lambda one: one.groups * one.members * (one.members - 1), default=None)
    if largest is None:
        return
    here = sum(len(assignment.ranks_of[name]) for name in assignment.local)
    ends = largest.groups * largest.members * (largest.members - 1) * here // traffic.ranks
    if (needed := ends * CONNECTION_BYTES) > free_bytes:
        raise HostError(
            f"{largest.kind.label} among {largest.members:,} ranks by algorithm {largest.algorithm} connects every "
            f"rank with every other: {ends:,} ends of connections on this host, which take at least "
            f"{format_size(needed)} of memory where {format_size(free_bytes)} are free. Play fewer ranks here, or "
            "choose an algorithm with fewer peers: see `charkha help collectives`"
        )


def _setup(
    run_id: str,
    resolved: Resolved,
    topology: Topology,
    workload: Workload,
    choice: AlgorithmChoice,
    assignment: Assignment,
    *,
    is_continuous: bool,
) -> JobSetup:
    """What agents are told of the job."""
    ends = range(topology.endpoints)
    shares: Mapping[int, PortShare] = {}
    if resolved.roce is not None and resolved.transport.is_paced:
        shares = port_shares(topology, assignment.ranks_of, asked_bps=resolved.roce.rate_cap_bps)
    programs = [*workload.programs, *workload.storage]
    places = [
        RankPlace(
            end,
            topology.address_of(end),
            len(programs[end]) if end < len(programs) else 0,
            workload.window,
            topology.interface_of(end).name,
            shares.get(end, NO_SHARE),
            storage=end >= topology.ranks,
            alternate=topology.alternate_of(end),
            alternate_interface=topology.alternate_interface_of(end).name if topology.alternates else "",
        )
        for end in ends
    ]
    return JobSetup(
        run_id=run_id,
        ranks=places,
        transport=resolved.transport.name,
        message_bytes=resolved.message_bytes,
        seed=resolved.seed,
        settings=PlaySettings(
            credits=resolved.credits,
            instances=max(1, workload.instances),
            algorithms=choice.names,
            groups=[group.ranks for group in workload.groups],
            record_steps=resolved.record_steps,
            algorithm_files=choice.files,
            layouts=choice.layouts,
            hosts=topology.host_index if resolved.roce is not None and resolved.roce.splits else (),
        ),
        options=resolved.options,
        domains=domains_of(topology, ends),
        prepares_itself=not is_continuous and all(place.is_resident and not place.storage for place in places),
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
