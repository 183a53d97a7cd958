"""One run from a spec to a closed run folder: resolve, plan, play, record, write the measured trace."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace as replace_struct

from emulator.control.observations import FlowCounters, join_ends
from emulator.control.parameter import Parameter
from emulator.controller.assignment import Assignment, agents_at, assign_ranks, networks_beside
from emulator.controller.listen_address import ListenAddress
from emulator.controller.measured_trace import write_measured_trace
from emulator.controller.recorder import Recorder
from emulator.controller.run_plan import RunPlan, SessionOutcome
from emulator.controller.session import RunSession
from emulator.controller.step_facts import StepFacts, complete_steps
from emulator.controller.timebase import describe_clock, settle_stamps
from emulator.controller.topology_description import describe_dut, describe_path, describe_topology
from emulator.controller.worst_instances import WorstInstances
from emulator.errors import AgentLost, EmulatorError, PlanError, ResultError, RunInterrupted, RunTimeout, TransferFailed
from emulator.experiment.calibration import calibration_of
from emulator.experiment.dut import watch_dut
from emulator.experiment.flows import assign_flows, flow_parameters, plan_flows, require_flow_egress, result_rows
from emulator.experiment.live_address import LiveAddress
from emulator.experiment.live_report import report_around
from emulator.experiment.resolve import resolve
from emulator.experiment.spec import Agents, Experiment
from emulator.experiment.telemetry import publishing
from emulator.experiment.testbed import Testbed, enter_testbed
from emulator.experiment.workload import LoadedJob, load_job
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.forecast import forecast
from emulator.planner.network.ideal_times import UNKNOWN_NS, ideal_per_instance
from emulator.planner.network.port_shares import PortShare, port_shares
from emulator.planner.rank_program import WORST_STEPS
from emulator.roce.options import RoceOptions
from emulator.run_folder.catalogue import Catalogue
from emulator.run_folder.manifest import (
    KERNEL_OBSERVATION_POINT,
    OBSERVATION_POINT,
    HostFacts,
    Manifest,
    Scaling,
    TraceFacts,
)
from emulator.run_folder.observer import RunObserver
from emulator.run_folder.reader import Run, read_run
from emulator.run_folder.schema import Part
from emulator.run_folder.store import RUNS, is_run_folder
from emulator.run_folder.writer import RunWriter
from emulator.shipped import TOPOLOGIES, TRACES
from emulator.statistics.host_limits import host_limit_warnings
from emulator.statistics.roofline import sequential_roofline_ns
from emulator.telemetry.reporter import RunFacts
from emulator.trace.model import Communication, IntArray, RankProgram, Workload
from emulator.trace.storage import play_on_storage_hosts
from emulator.units import NS_PER_S
from emulator.verdict.rules import EXAMPLE, RULES_FILE, rules_file
from emulator.views.forecast_text import describe_forecast
from emulator.wire.control.credentials import read_token, tls_files
from emulator.wire.trace.load import digest

MEASURED_TRACE = "trace"
STEPS_MISSING = "steps to be recorded are missing: the run ended early, or an agent had to hold too many"
LONGEST_COMPUTE_NS = 366 * 86_400 * NS_PER_S
_LONGEST_NAME = 60
"""Characters of a trace's name in that of its run folder: at most 240 bytes."""

_FILES_OF_OBSERVE = {False: ("calibration", "expect"), True: ("calibration",)}
"""Paths of that section, by whether `expect` is the name of shipped rules."""

S = TypeVar("S", bound=msgspec.Struct)
Notify = Callable[[str], None]
"""Called with a line for the user: what the run moves, where metrics are served, what limits the tester."""


def play(
    experiment: Experiment,
    *,
    folder: Path | None = None,
    observers: Sequence[RunObserver] = (),
    live: LiveAddress | None = None,
    notify: Notify = lambda _: None,
    command_line: Sequence[str] | None = None,
) -> Run:
    """Play an experiment once, and return its run.

    Args:
        experiment: `campaign` is ignored.
        folder: run folder to create; None: runs/<time>-<name>.
        observers: receive the events of the run.
        live: address to serve the report at during the run.
        notify: receives lines for the user.
        command_line: for the manifest; None: that of this process.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something. What was measured stays in the folder.
    """
    with load_job(experiment.job) as job, prepare(experiment, job, notify=notify, command_line=command_line) as run:
        return run.play(folder or new_run_folder(name_of(experiment)), observers=observers, live=live)


@contextlib.contextmanager
def prepare(
    experiment: Experiment,
    job: LoadedJob,
    *,
    notify: Notify = lambda _: None,
    command_line: Sequence[str] | None = None,
) -> Iterator[PreparedRun]:
    """Settle everything about a run before any traffic; its addresses stay reserved while the context is open.

    Raises:
        EmulatorError: bad input, or a host that lacks something.
    """
    with enter_testbed(experiment, ranks=job.ranks) as testbed:
        if testbed.lab is not None and testbed.lab.state.limited:
            notify(f"tester-limited: {testbed.lab.state.limited}")
        yield PreparedRun(
            experiment, job, testbed, notify=notify, command_line=command_line or ("charkha", *sys.argv[1:])
        )


def name_of(experiment: Experiment) -> str:
    """Name of the run and its folder: the file name of the trace, or the collective."""
    job = experiment.job
    if job.trace is not None:
        return Path(job.trace.path).name
    if job.pair_sweep is not None:
        return f"pairs-{job.pair_sweep.ranks}r"
    return f"bench-{job.sweep.collective}-{job.sweep.ranks}r" if job.sweep is not None else "calibrate"


def new_run_folder(name: str) -> Path:
    """A path below runs/ that does not exist yet, named after the time and what is played."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = "".join(one if one.isprintable() else "_" for one in name[:_LONGEST_NAME])
    folder = RUNS / f"{stamp}-{name}"
    return folder if not folder.exists() else RUNS / f"{stamp}-{secrets.token_hex(2)}-{name}"


def has_samples(folder: Path) -> bool:
    """Whether a run folder holds anything that was measured."""
    with contextlib.suppress(ResultError):
        return is_run_folder(folder) and any(
            batch.num_rows for batch in read_run(folder).batches(Part.SAMPLES, ["rank"])
        )
    return False


@dataclass(frozen=True, slots=True)
class _Identity:
    """Identifies a run."""

    run_id: str
    created: str
    command_line: tuple[str, ...]


class PreparedRun:
    """A run whose settings, addresses, agents and algorithms are settled. Made by `prepare`.

    Attributes:
        resolved: every setting.
        forecast: what the run will move.

    Raises:
        PlanError: an algorithm that does not exist, compute stretched beyond a year, agents without an address to
            connect to.
        InputError: a profile, a token or a calibration that cannot be used.
    """

    def __init__(
        self, experiment: Experiment, job: LoadedJob, testbed: Testbed, *, notify: Notify, command_line: Sequence[str]
    ) -> None:
        now = datetime.datetime.now(datetime.UTC).astimezone()
        self._identity = _Identity(
            f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}", now.isoformat(timespec="milliseconds"), tuple(command_line)
        )
        self._experiment, self._testbed, self._notify = experiment, testbed, notify
        self._topology, self._loaded = testbed.topology, job.loaded
        self.resolved = resolve(experiment, testbed.topology, in_lab=testbed.lab is not None)
        played = play_on_storage_hosts(
            job.workload, job.loaded.traces, endpoints=testbed.topology.storage_endpoints, options=job.options
        )
        self._workload = _scale_compute(played, self.resolved.compute_factor)
        self._choice = AlgorithmChoice(self._workload, self.resolved.overrides)
        self._listening = listening(experiment.agents)
        self._flows = plan_flows(
            experiment.flows,
            testbed.topology,
            is_rocev2=self.resolved.transport.is_rocev2,
            mtu=experiment.network.mtu or testbed.topology.link_mtu,
            options=RoceOptions(call_bytes=self.resolved.roce.call_bytes if self.resolved.roce else 0),
        )
        self._assignment = _assign(experiment, testbed, self._listening, [flow.host for flow in self._flows])
        elsewhere = [flow.host for flow in self._flows if self._is_elsewhere(flow.host)]
        require_flow_egress(self._flows, testbed, remote=elsewhere)
        self._ideal_ns = ideal_per_instance(
            self._workload,
            self._topology,
            algorithm_of=self._choice.name_of,
            overhead=self.resolved.overhead,
        )
        self.forecast = forecast(
            self._workload,
            algorithm_of=self._choice.name_of,
            ideal_ns=self._ideal_ns,
            iterations=self.resolved.iterations,
            warmup=self.resolved.warmup,
        )
        self._dut = watch_dut(experiment.device, self.resolved, testbed)
        self._calibration = calibration_of(experiment.observe, self.resolved, self._topology, notify=notify)

    def _is_elsewhere(self, host: str) -> bool:
        return not self._assignment.local.issuperset(agents_at(host, self._assignment, self._topology))

    @property
    def connecting(self) -> list[str]:
        """Agents that are started on other machines and connect."""
        return self._assignment.remote

    @property
    def facts(self) -> RunFacts:
        """What observers know before the run starts; `play` adds `run_folder`."""
        nodes = sum(len(program.communications) for program in self._workload.programs)
        iterations = self.resolved.iterations + self.resolved.warmup
        ranks = len(self._workload.programs)
        return RunFacts(self._identity.run_id, str(self._loaded.path), ranks, iterations, nodes * iterations, "")

    def play(self, folder: Path, *, observers: Sequence[RunObserver] = (), live: LiveAddress | None = None) -> Run:
        """Play the run into a closed run folder with its report; returns the run.

        Raises:
            RunError: the run failed, was interrupted, or an agent was lost; the folder keeps what was measured.
            HostError: the folder cannot be written, an agent cannot start.
            InputError: the folder is in use.
        """
        is_used = is_run_folder(folder)  # by another run: this one will write nothing into it
        facts = replace(self.facts, run_folder=str(folder))
        observe = self._experiment.observe
        try:
            with (
                report_around(folder, live=live, report=observe.report, notify=self._notify),
                publishing(observe, facts, notify=self._notify) as publishers,
            ):
                return self._play(folder, [*observers, *publishers])
        except EmulatorError:
            if is_run_folder(folder) and not is_used:
                left = "what was measured is" if has_samples(folder) else "nothing was measured; how the run ended is"
                self._notify(f"{left} in {folder}")
            raise

    def _play(self, folder: Path, observers: Sequence[RunObserver]) -> Run:
        with self._dut, RunWriter(folder, self._manifest()) as writer:
            self._notify(describe_forecast(self.forecast))
            for flow in self._flows:
                self._notify(f"{flow.task.title}: {flow.instruction}")
            if self._experiment.observe.expect is not None:
                shutil.copyfile(rules_file(self._experiment.observe.expect), folder / RULES_FILE)
            worst = WorstInstances(self._topology.host_index) if self.resolved.record_steps == WORST_STEPS else None
            recorder = Recorder(writer, self._catalogue(), observers, self._dut, worst=worst)
            session = RunSession(self._plan(), recorder)
            try:
                asyncio.run(_play_interruptibly(session))
            except (AgentLost, TransferFailed, RunTimeout) as error:
                raise self._explained(error) from error
            finally:
                self._dut.end()
                recorder.flush()
                settle_stamps(writer, session.outcome, self._assignment.ranks_of)
                writer.add_flows(flows := _counted_flows(session.outcome, self._assignment))
                writer.add_flow_results(result_rows(self._flows, session.outcome.flow_reports))
                if self.resolved.record_steps:
                    complete_steps(writer, self._step_facts(flows), kept=None if worst is None else worst.found)
                writer.manifest = self._concluded(writer.manifest, session.outcome, recorder)
            for observer in observers:
                observer.writing_trace()
            write_measured_trace(writer.run(), self._loaded, folder / MEASURED_TRACE)
        return writer.run()

    def _explained(self, error: AgentLost | TransferFailed | RunTimeout) -> EmulatorError:
        """The error with the path between the two ranks that it names, and with storage endpoints by name."""
        topology = self._topology
        if isinstance(error, AgentLost):
            ranks = [one for one in error.ranks if one < topology.ranks]
            storage = [topology.label_of(one) for one in error.ranks if one >= topology.ranks]
            return AgentLost(error.agent, ranks=ranks, reason=error.reason, storage=storage)
        between = error.between
        if between is None or max(between) >= topology.endpoints:
            return error
        path = describe_path(topology, *between)
        if isinstance(error, TransferFailed):
            return TransferFailed(error.reason, agent=error.agent, between=between, path=path)
        return RunTimeout(
            error.waiting_on,
            seconds=error.seconds,
            between=between,
            silent_s=error.silent_s,
            path=path,
            silent=topology.label_of(between[1]),
        )

    def _plan(self) -> RunPlan:
        resolved, workload, topology = self.resolved, self._workload, self._topology
        endpoints = range(topology.endpoints)
        ranks_of, remote = self._assignment.ranks_of, self._assignment.remote
        return RunPlan(
            run_id=self._identity.run_id,
            workload=workload,
            node_ids=[
                trace.node_id[program.order]
                for trace, program in zip(self._loaded.traces, workload.programs, strict=True)
            ],
            choice=self._choice,
            hosts=[topology.address_of(endpoint) for endpoint in endpoints],
            ranks_of=ranks_of,
            iterations=range(-resolved.warmup, resolved.iterations),
            transport=resolved.transport.name,
            message_bytes=resolved.message_bytes,
            credits=resolved.credits,
            seed=resolved.seed,
            silence_timeout_s=resolved.timeout_s,
            transport_options=resolved.options,
            local=self._assignment.local,
            exec_prefixes=_exec_prefixes(self._testbed),
            port_shares=self._port_shares(),
            interfaces=[topology.interface_of(endpoint).name for endpoint in endpoints],
            networks={name: [*networks_beside(topology, ranks_of[name]), *self._peers_of(name)] for name in remote},
            flows=assign_flows(self._flows, self._assignment, topology),
            listening=self._listening,
            join_timeout_s=resolved.join_timeout_s,
            record_steps=resolved.record_steps,
        )

    def _step_facts(self, flows: Sequence[FlowCounters]) -> StepFacts:
        return StepFacts(
            self._topology, self._workload, flows, algorithm_of=self._choice.name_of, overhead=self.resolved.overhead
        )

    def _peers_of(self, agent: str) -> list[str]:
        """Addresses of the peers of an agent's flows, on the same link unless there is a router."""
        if any(switch.kind == "router" for switch in self._topology.network.switches):
            return []
        flows = assign_flows(self._flows, self._assignment, self._topology).get(agent, ())
        numbers = {flow.number for flow in flows}
        return [flow.peer_address for flow in self._flows if flow.task.number in numbers]

    def _port_shares(self) -> Mapping[int, PortShare]:
        if self.resolved.roce is None or not self.resolved.transport.is_paced:
            return {}
        return port_shares(self._topology, self._assignment.ranks_of, asked_bps=self.resolved.roce.rate_cap_bps)

    def _catalogue(self) -> Catalogue:
        ideal_ns: IntArray | None = self._ideal_ns if np.any(self._ideal_ns != UNKNOWN_NS) else None
        return Catalogue(self._workload, algorithm_of=self._algorithm_name, ideal_ns=ideal_ns)

    def _algorithm_name(self, node: Communication) -> str:
        return self._choice.name_of(node) if node.kind.is_collective else ""

    def _manifest(self) -> Manifest:
        resolved, loaded, topology, identity = self.resolved, self._loaded, self._topology, self._identity
        known = not np.any(self._ideal_ns == UNKNOWN_NS) and topology.rate_bps(0) is not None
        lab = self._testbed.lab
        return Manifest(
            run_id=identity.run_id,
            created=identity.created,
            command_line=identity.command_line,
            seed=resolved.seed,
            trace=TraceFacts(
                path=str(loaded.path),
                digest=digest(loaded.files),
                ranks=len(loaded.traces),
                nodes=loaded.nodes,
                communication_nodes=sum(len(program.communications) for program in self._workload.programs),
            ),
            topology={**describe_topology(topology), **({"lab": lab.facts()} if lab is not None else {})},
            dut=describe_dut(topology),
            parameters=self._parameters(),
            scaling=Scaling(
                float(resolved.scale_bytes), _compute_label(resolved.compute_factor), resolved.element_bytes
            ),
            roofline_ns=self.forecast.least_ns if known else None,
            sequential_roofline_ns=sequential_roofline_ns(self._workload, topology) if known else None,
            calibration={} if self.connecting else self._calibration,  # valid for this machine only
            warnings=self._workload.warnings,
            observation_point=_observation_point(resolved.roce),
            spec=with_absolute_paths(self._experiment).to_plain(),
            settings=tuple(resolved.settings),
        )

    def _parameters(self) -> Mapping[str, Parameter]:
        resolved = self.resolved
        return (
            {
                "transport": Parameter(resolved.transport.name),
                "agents": Parameter(len(self._assignment.ranks_of)),
                "iterations": Parameter(resolved.iterations),
                "warmup": Parameter(resolved.warmup),
                "credits": Parameter(resolved.credits),
                "message_bytes": Parameter(resolved.message_bytes, "bytes"),
                "timeout": Parameter(resolved.timeout_s, "s"),
                "window": Parameter(self._workload.window, "nodes"),
            }
            | flow_parameters(self._flows)
            | resolved.parameters("algorithm.")
            | resolved.parameters(f"{resolved.transport.name}.")
        )

    def _concluded(self, manifest: Manifest, outcome: SessionOutcome, recorder: Recorder) -> Manifest:
        hosts = _host_facts(outcome, self._assignment, self._topology.ranks)
        return replace(
            manifest,
            dut={**manifest.dut, **self._dut.facts()},
            hosts=tuple(hosts),
            trials=recorder.trials(len(self._workload.programs)),
            clock=describe_clock(outcome.clocks),
            warnings={**manifest.warnings, **host_limit_warnings(hosts), **steps_warning(outcome, recorder)},
        )


def listening(agents: Agents) -> ListenAddress | None:
    """Where agents connect; None if all are local.

    Raises:
        InputError: the token is missing or cannot be used.
        PlanError: TLS or token files without an address, or agents by hand that have nowhere to connect.
    """
    files = {
        "token-file": agents.token_file,
        "tls-cert": agents.tls_cert,
        "tls-key": agents.tls_key,
        "tls-ca": agents.tls_ca,
    }
    if agents.listen is None:
        if agents.by_hand:
            raise PlanError("agents started by hand need an address to connect to: --listen HOST:PORT or unix:PATH")
        for name, file in files.items():
            if file is not None:
                raise PlanError(f"--{name} is for --listen")
        return None
    token_file, cert, key, ca = (None if file is None else Path(file) for file in files.values())
    return ListenAddress(agents.listen, read_token(token_file), tls_files(cert, key, ca))


def with_absolute_paths(experiment: Experiment) -> Experiment:
    """One run that can be played from any working directory: paths are absolute, and it belongs to no campaign."""
    trace = experiment.job.trace
    job, network = experiment.job, experiment.network
    if trace is not None:
        trace = replace_struct(trace, path=str(TRACES.find(trace.path)))
        job = replace_struct(job, trace=_absolute(trace, "path", "groups"))
    if network.topology is not None:
        network = replace_struct(network, topology=str(TOPOLOGIES.find(network.topology)))
    return replace_struct(
        experiment,
        jobs=(job,),
        campaign=None,
        network=_absolute(network, "topology"),
        agents=_absolute(experiment.agents, "token_file", "tls_cert", "tls_key", "tls_ca"),
        observe=_absolute(experiment.observe, *_FILES_OF_OBSERVE[experiment.observe.expect == EXAMPLE]),
    )


def _absolute(section: S, *names: str) -> S:
    paths = {name: str(Path(path).absolute()) for name in names if (path := getattr(section, name)) is not None}
    return replace_struct(section, **paths)


def _counted_flows(outcome: SessionOutcome, assignment: Assignment) -> list[FlowCounters]:
    """Counters of flows whose senders' agents have reported: what a lost agent sent is not known."""
    known = {rank for agent in outcome.counted for rank in assignment.ranks_of[agent]}
    return [flow for flow in join_ends(outcome.flows) if flow.src in known]


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
        raise PlanError(f"agents {names} connect from their hosts: give the address with --listen HOST:PORT")
    return assignment


def steps_warning(outcome: SessionOutcome, recorder: Recorder) -> Mapping[str, int]:
    """A warning about steps that were to be recorded and are not."""
    missing = outcome.steps_lost + recorder.steps_missing
    return {STEPS_MISSING: missing} if missing else {}


def _host_facts(outcome: SessionOutcome, assignment: Assignment, ranks: int) -> list[HostFacts]:
    clocks = outcome.clocks
    return [
        HostFacts(
            agent=name,
            ranks=sum(rank < ranks for rank in assignment.ranks_of[name]),
            facts={"hostname": facts.hello.hostname, "pid": str(facts.hello.pid), **facts.hello.facts},
            nics=tuple(map(asdict, facts.nics)),
            transport=dict(sorted(facts.transport.items())),
            clock_offset_ns=clocks[name].offset_ns if name in clocks else 0,
            clock_error_ns=clocks[name].error_ns if name in clocks else 0,
            peak_rss_bytes=facts.peak_rss_bytes or None,
            post_lateness_median_ns=facts.post_lateness_median_ns or None,
            steal_fraction=facts.steal_fraction,
            core_wait_fraction=facts.core_wait_fraction,
        )
        for name, facts in sorted(outcome.agents.items())
    ]


async def _play_interruptibly(session: RunSession) -> SessionOutcome:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, session.abort, RunInterrupted())
    return await session.play()


def _scale_compute(workload: Workload, factor: float) -> Workload:
    if factor == 1:
        return workload
    return replace(workload, programs=[replace(one, duration_ns=_scaled(one, factor)) for one in workload.programs])


def _scaled(program: RankProgram, factor: float) -> IntArray:
    if float(program.duration_ns.sum()) * factor > LONGEST_COMPUTE_NS:
        raise PlanError(f"--compute {factor:g} makes the compute of rank {program.rank} take more than a year")
    scaled: IntArray = np.rint(program.duration_ns * factor).astype(np.int64)
    return scaled


def _observation_point(roce: RoceOptions | None) -> str:
    has_stamps = roce is not None and roce.time_stamps == "kernel"
    return KERNEL_OBSERVATION_POINT if has_stamps else OBSERVATION_POINT


def _compute_label(factor: float) -> str:
    return {0.0: "skip", 1.0: "replay"}.get(factor, f"{factor:g}")
