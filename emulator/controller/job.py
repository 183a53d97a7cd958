"""The main job from a workload to a closed run folder: plan, play, record, write the measured trace."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from emulator.control.observations import Completions, ComputeSpans, RankSummary, join_ends
from emulator.control.parameter import Parameter
from emulator.controller.assignment import Assignment, assign_ranks, networks_beside
from emulator.controller.companion import NoCompanion, RunCompanion
from emulator.controller.description import describe_dut, describe_path, describe_topology
from emulator.controller.listening import Listening
from emulator.controller.measured_trace import NodeAnnotation, annotate, trace_metadata
from emulator.controller.session import RunPlan, RunSession, SessionOutcome
from emulator.controller.timebase import describe_clock, settle_stamps
from emulator.errors import PlanError, RunInterrupted, RunTimeout, TransferFailed
from emulator.planner.choice import AlgorithmChoice
from emulator.planner.network.capping import PortShare, port_shares
from emulator.planner.network.ideal import UNKNOWN_NS, ideal_per_instance
from emulator.planner.network.overhead import DEFAULT_MTU, WireOverhead, transport_overhead
from emulator.run_folder.catalogue import Catalogue
from emulator.run_folder.manifest import Exclusion, HostFacts, Manifest, Scaling, TraceFacts, Trials
from emulator.run_folder.observer import RunObserver
from emulator.run_folder.record import BROKEN, Run, RunWriter
from emulator.statistics.limits import limits_met
from emulator.statistics.roofline import sequential_roofline_ns
from emulator.topology.model import Topology
from emulator.trace.critical_path import longest_path_ns
from emulator.trace.model import Communication, IntArray, RankProgram, Workload
from emulator.units import NS_PER_S
from emulator.wire.trace.load import LoadedTrace, digest
from emulator.wire.trace.rewrite import NodeChange, rewrite_trace

MEASURED_TRACE = "trace"
LONGEST_COMPUTE_NS = 366 * 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How to play; see `charkha run --help`.

    Attributes:
        transport_options: as given, for the transport.
        transport_parameters: its effective values, for the manifest.
        compute_factor: recorded compute time is multiplied by it; 0 skips it, 1 replays it.
        overrides: collective → algorithm.
        command_line: for the manifest.
        listening: where agents of other machines dial in; None: all are local.
        is_by_hand: no agent is started here, all dial in.
        join_timeout_s: how long to wait for them.
        entrances: host → a command that becomes another one inside it, put before it; such a host has its own agent.
        lab: what the manifest says of the lab; None where there is none.
        calibration: what the manifest says of the tester's own ceiling; empty where it is not known.
    """

    run_id: str
    created: str
    command_line: tuple[str, ...]
    transport: str
    agents: int | None
    iterations: int
    warmup: int
    overrides: Mapping[str, str]
    compute_factor: float
    scale_bytes: float
    element_bytes: int | None
    credits: bool
    message_bytes: int
    timeout_s: float
    seed: int
    transport_options: Mapping[str, str] = field(default_factory=dict)
    transport_parameters: Mapping[str, Parameter] = field(default_factory=dict)
    listening: Listening | None = None
    is_by_hand: bool = False
    join_timeout_s: float | None = None
    entrances: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lab: Mapping[str, Any] | None = None
    calibration: Mapping[str, Any] = field(default_factory=dict)


class Job:
    """One run of one workload.

    Args:
        loaded: the trace as read.
        workload: what it means; scaled by bytes already, compute as recorded.
        topology: with a place for every rank.
        options: how to play.
        companion: who watches the device under test meanwhile.

    Raises:
        PlanError: an algorithm that does not exist, compute stretched beyond all measure, agents that have nowhere
            to dial in.
    """

    def __init__(
        self,
        loaded: LoadedTrace,
        workload: Workload,
        topology: Topology,
        options: JobOptions,
        companion: RunCompanion | None = None,
    ) -> None:
        self._loaded, self._topology, self._options = loaded, topology, options
        self._companion = companion or NoCompanion()
        self._workload = _scale_compute(workload, options.compute_factor)
        self.choice = AlgorithmChoice(self._workload, options.overrides)
        self._assignment = _assign(topology, options)
        self._ideal_ns = ideal_per_instance(
            self._workload, topology, algorithm_of=self.choice.name_of, overhead=_overhead(options, topology)
        )

    @property
    def run_id(self) -> str:
        """Of the run."""
        return self._options.run_id

    @property
    def dialling(self) -> list[str]:
        """Agents that are started elsewhere."""
        return self._assignment.remote

    def play(self, folder: Path, observers: Sequence[RunObserver]) -> Run:
        """Play, and leave a closed run folder; returns it. Observers are told in order.

        Raises:
            RunError: the run failed, was interrupted, or an agent was lost; the folder keeps what was measured.
            HostError: the folder cannot be written, an agent cannot start.
            InputError: the folder is in use.
        """
        with self._companion, RunWriter(folder, self._manifest()) as writer:
            recorder = _Recorder(writer, self._catalogue(), observers, self._companion)
            session = RunSession(self._plan(), recorder)
            try:
                asyncio.run(_play_interruptibly(session))
            except (TransferFailed, RunTimeout) as error:
                raise self._with_path(error) from error
            finally:
                self._companion.end()
                recorder.flush()
                settle_stamps(writer, session.outcome, self._assignment.ranks_of)
                writer.manifest = self._concluded(writer.manifest, session.outcome, recorder)
            writer.add_flows(join_ends(session.outcome.flows))
            for observer in observers:
                observer.writing_trace()
            self._write_trace(writer.run(), folder / MEASURED_TRACE)
        return writer.run()

    def _with_path(self, error: TransferFailed | RunTimeout) -> TransferFailed | RunTimeout:
        """The error, with what lies between the two ranks that it names."""
        between = error.between
        if between is None or max(between) >= len(self._workload.programs):
            return error
        path = describe_path(self._topology, *between)
        if isinstance(error, TransferFailed):
            return TransferFailed(error.reason, agent=error.agent, between=between, path=path)
        return RunTimeout(error.waiting_on, seconds=error.seconds, between=between, silent_s=error.silent_s, path=path)

    def _plan(self) -> RunPlan:
        options, workload = self._options, self._workload
        ranks = len(workload.programs)
        return RunPlan(
            run_id=options.run_id,
            workload=workload,
            node_ids=[
                trace.node_id[program.order]
                for trace, program in zip(self._loaded.traces, workload.programs, strict=True)
            ],
            choice=self.choice,
            hosts=[self._topology.address_of(rank) for rank in range(ranks)],
            ranks_of=self._assignment.ranks_of,
            iterations=range(-options.warmup, options.iterations),
            transport=options.transport,
            message_bytes=options.message_bytes,
            credits=options.credits,
            seed=options.seed,
            silence_timeout_s=options.timeout_s,
            transport_options=options.transport_options,
            local=self._assignment.local,
            prefixes=options.entrances,
            port_shares=self._port_shares(),
            interfaces=[self._topology.interface_of(rank).name for rank in range(ranks)],
            networks={
                name: networks_beside(self._topology, self._assignment.ranks_of[name])
                for name in self._assignment.remote
            },
            listening=options.listening,
            join_timeout_s=options.join_timeout_s,
        )

    def _port_shares(self) -> Mapping[int, PortShare]:
        """For the transport that paces."""
        if self._options.transport != "roce":
            return {}
        asked_bps = int(self._options.transport_options.get("rate_cap_bps", "0"))
        return port_shares(self._topology, self._assignment.ranks_of, asked_bps=asked_bps)

    def _catalogue(self) -> Catalogue:
        ideal_ns: IntArray | None = self._ideal_ns if np.any(self._ideal_ns != UNKNOWN_NS) else None
        return Catalogue(self._workload, algorithm_of=self._algorithm_name, ideal_ns=ideal_ns)

    def _algorithm_name(self, node: Communication) -> str:
        return self.choice.name_of(node) if node.kind.is_collective else ""

    def _manifest(self) -> Manifest:
        options, loaded, topology = self._options, self._loaded, self._topology
        known = not np.any(self._ideal_ns == UNKNOWN_NS) and topology.rate_bps(0) is not None
        return Manifest(
            run_id=options.run_id,
            created=options.created,
            command_line=options.command_line,
            seed=options.seed,
            trace=TraceFacts(
                path=str(loaded.path),
                digest=digest(loaded.files),
                ranks=len(loaded.traces),
                nodes=loaded.nodes,
                communication_nodes=sum(len(program.communications) for program in self._workload.programs),
            ),
            topology={**describe_topology(topology), **({"lab": options.lab} if options.lab else {})},
            dut=describe_dut(topology),
            parameters=self._parameters(),
            scaling=Scaling(options.scale_bytes, _compute_label(options.compute_factor), options.element_bytes),
            roofline_ns=longest_path_ns(self._workload, communication_ns=self._ideal_ns) if known else None,
            sequential_roofline_ns=sequential_roofline_ns(self._workload, topology) if known else None,
            calibration={} if self.dialling else options.calibration,  # it speaks of this machine
            warnings=self._workload.warnings,
        )

    def _parameters(self) -> Mapping[str, Parameter]:
        options = self._options
        return (
            {
                "transport": Parameter(options.transport),
                "agents": Parameter(len(self._assignment.ranks_of)),
                "iterations": Parameter(options.iterations),
                "warmup": Parameter(options.warmup),
                "credits": Parameter(options.credits),
                "message_bytes": Parameter(options.message_bytes, "bytes"),
                "timeout": Parameter(options.timeout_s, "s"),
                "window": Parameter(self._workload.window, "nodes"),
            }
            | {f"algorithm.{collective}": Parameter(name) for collective, name in options.overrides.items()}
            | dict(options.transport_parameters)
        )

    def _concluded(self, manifest: Manifest, outcome: SessionOutcome, recorder: _Recorder) -> Manifest:
        ranks_of, clocks = self._assignment.ranks_of, outcome.clocks
        hosts = [
            HostFacts(
                agent=name,
                ranks=len(ranks_of[name]),
                facts={"hostname": facts.hello.hostname, "pid": str(facts.hello.pid), **facts.hello.facts},
                nics=tuple(map(asdict, facts.nics)),
                transport=dict(sorted(facts.transport.items())),
                clock_offset_ns=clocks[name].offset_ns if name in clocks else 0,
                clock_error_ns=clocks[name].error_ns if name in clocks else 0,
                peak_rss_bytes=facts.peak_rss_bytes or None,
                post_lateness_median_ns=facts.post_lateness_median_ns or None,
                steal_fraction=facts.steal_fraction,
            )
            for name, facts in sorted(outcome.agents.items())
        ]
        trials = recorder.trials(len(self._workload.programs))
        dut = {**manifest.dut, **self._companion.facts()}
        return replace(
            manifest,
            dut=dut,
            hosts=tuple(hosts),
            trials=trials,
            clock=describe_clock(clocks),
            warnings={**manifest.warnings, **limits_met(hosts)},
        )

    def _write_trace(self, run: Run, folder: Path) -> None:
        folder.mkdir()
        metadata = trace_metadata(run.manifest)
        left = set(range(len(self._loaded.files)))
        for rank, changed in annotate(run):
            left.remove(rank)
            changes = {node_id: _change(one) for node_id, one in changed.items()}
            self._rewrite(rank, folder, changes, metadata)
        for rank in sorted(left):
            self._rewrite(rank, folder, {}, metadata)
        if self._loaded.group_file is not None and self._loaded.groups:
            shutil.copyfile(self._loaded.group_file, folder / "comm_group.json")

    def _rewrite(
        self, rank: int, folder: Path, changes: Mapping[int, NodeChange], metadata: Mapping[str, str | float]
    ) -> None:
        source = self._loaded.files.paths[rank]
        rewrite_trace(source, folder / _et_name(source), changes, metadata=metadata)


class _Recorder:
    """Turns what a session reports into rows of the run folder. Implements SessionObserver."""

    def __init__(
        self, writer: RunWriter, catalogue: Catalogue, observers: Sequence[RunObserver], companion: RunCompanion
    ) -> None:
        self._writer, self._catalogue, self._observers, self._companion = writer, catalogue, observers, companion
        self._done: dict[int, list[RankSummary]] = {}

    def waiting_for(self, agents: Sequence[str]) -> None:
        for observer in self._observers:
            observer.waiting_for(agents)

    def iteration_started(self, iteration: int) -> None:
        if not self._done:
            self._companion.begin()
        self._done[iteration] = []
        for observer in self._observers:
            observer.iteration_started(iteration)

    def completed(self, completions: Completions) -> None:
        samples = self._catalogue.samples(completions)
        self._writer.add_samples(samples)
        for observer in self._observers:
            observer.completed(len(completions.rank))
            observer.recorded(samples)

    def computed(self, spans: ComputeSpans) -> None:
        self._writer.add_compute(spans)

    def iteration_done(self, iteration: int, summaries: Sequence[RankSummary]) -> None:
        self._writer.add_iteration(iteration, summaries)
        done = self._done[iteration]
        done += summaries
        if len(done) == self._catalogue.ranks:
            start_ns, end_ns = min(one.start_ns for one in done), max(one.end_ns for one in done)
            for observer in self._observers:
                observer.iteration_done(iteration, end_ns - start_ns)

    def moved(self, bytes_sent: int) -> None:
        self._add_counters()
        self._writer.flush()  # agents speak four times a second: what they said is on disk even if we are killed
        for observer in self._observers:
            observer.moved(bytes_sent)

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        for observer in self._observers:
            observer.agent_moved(agent, bytes_sent=bytes_sent, nodes_done=nodes_done, waiting_on=waiting_on)

    def flush(self) -> None:
        self._add_counters()
        self._writer.flush()

    def _add_counters(self) -> None:
        counters = self._companion.counters()
        if counters is not None:
            self._writer.add_counters(counters)

    def trials(self, ranks: int) -> Trials:
        """Accounting of iterations; one that not all ranks completed is excluded."""
        broken = [one for one, done in self._done.items() if one >= 0 and len(done) < ranks]
        return Trials(
            attempted=len(self._done),
            warmup=sum(one < 0 for one in self._done),
            included=sum(one >= 0 for one in self._done) - len(broken),
            excluded=tuple(Exclusion(one, BROKEN) for one in broken),
        )


def _assign(topology: Topology, options: JobOptions) -> Assignment:
    assignment = assign_ranks(
        topology, local_agents=options.agents, is_by_hand=options.is_by_hand, apart=options.entrances
    )
    if options.listening is not None:
        options.listening.check(topology)
    elif assignment.remote:
        names = ", ".join(assignment.remote)
        raise PlanError(f"agents {names} dial in from their hosts: say where, with --listen HOST:PORT")
    return assignment


def _overhead(options: JobOptions, topology: Topology) -> WireOverhead:
    """Of the transport as this run uses it."""
    parameter = options.transport_parameters.get("roce.path_mtu")
    path_mtu = parameter.value if parameter is not None and isinstance(parameter.value, int) else None
    return transport_overhead(
        options.transport,
        mtu=topology.link_mtu or DEFAULT_MTU,
        message_bytes=options.message_bytes,
        path_mtu=path_mtu,
        ipv6=topology.is_ipv6,
    )


async def _play_interruptibly(session: RunSession) -> SessionOutcome:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, session.abort, RunInterrupted())
    return await session.play()


def _scale_compute(workload: Workload, factor: float) -> Workload:
    if factor == 1:
        return workload
    programs = [replace(program, duration_ns=_scaled(program, factor)) for program in workload.programs]
    return replace(workload, programs=programs)


def _scaled(program: RankProgram, factor: float) -> IntArray:
    if float(program.duration_ns.sum()) * factor > LONGEST_COMPUTE_NS:
        raise PlanError(f"--compute {factor:g} makes the compute of rank {program.rank} take more than a year")
    scaled: IntArray = np.rint(program.duration_ns * factor).astype(np.int64)
    return scaled


def _compute_label(factor: float) -> str:
    return {0.0: "skip", 1.0: "replay"}.get(factor, f"{factor:g}")


def _change(annotation: NodeAnnotation) -> NodeChange:
    return NodeChange(annotation.start_micros, annotation.duration_micros, annotation.attributes)


def _et_name(source: Path) -> str:
    """The measured file's name: the source's, JSON becoming .et."""
    stem, json, _ = source.name.rpartition(".json")
    return f"{stem}.et" if json else source.name
