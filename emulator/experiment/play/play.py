"""From a spec to closed run folders: a session of several jobs at once, or a run, which is a session of one."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

from emulator.controller.recording.session_observer import shared_monitors
from emulator.controller.run_plan import RunOutcome
from emulator.controller.session import JobSession
from emulator.errors import (
    AgentLost,
    EmulatorError,
    InputError,
    PlanError,
    ResultError,
    RunInterrupted,
    RunTimeout,
    TransferFailed,
)
from emulator.experiment.play.live_address import LiveAddress
from emulator.experiment.play.live_report import report_around, write_report_of
from emulator.experiment.play.recording import RunRecording
from emulator.experiment.play.session_plan import explained, session_plan, watch_dut
from emulator.experiment.settle.calibration import calibration_of
from emulator.experiment.settle.events import refuse_commands
from emulator.experiment.settle.settled import Identity, Settled, settle
from emulator.experiment.settle.testbed import enter_testbed
from emulator.experiment.settle.workload import LoadedJob, load_job
from emulator.experiment.spec.document import with_absolute_paths
from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.spec import Experiment
from emulator.plugins import PluginKind, load
from emulator.results.run_folder.observer import RunHeader, RunObserver
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import (
    SOLO,
    JobFacts,
    SessionFacts,
    StoredSession,
    job_folder,
    load_session,
    solo_folder,
    write_session,
)
from emulator.results.run_folder.store import RUNS, is_run_folder
from emulator.results.run_folder.writer import require_new
from emulator.topology.load import joining_hosts
from emulator.topology.model import Topology
from emulator.views.network_text import describe_forecast

_LONGEST_NAME = 60
"""Characters of a trace's name in that of its run folder: at most 240 bytes."""

Notify: TypeAlias = Callable[[str], None]
"""Called with a line for the user: what the run moves, where metrics are served, what limits the tester."""
Observers: TypeAlias = Sequence[Sequence[RunObserver]]
"""Of each job."""
Watch: TypeAlias = "Callable[[PreparedSession], contextlib.AbstractContextManager[Observers]]"
"""Makes the observers of a session; its context is open while the session is played."""


@contextlib.contextmanager
def unwatched(prepared: PreparedSession) -> Iterator[Observers]:
    """Nobody observes."""
    yield [()] * len(prepared.runs)


def play(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    jobs: Sequence[LoadedJob] | None = None,
    solo: bool = False,
    watch: Watch = unwatched,
    live: LiveAddress | None = None,
    notify: Notify = lambda _: None,
    command_line: Sequence[str] | None = None,
    allow_commands: bool = False,
) -> StoredSession:
    """Play all jobs of an experiment at once, and return the session; of one job, it is a run.

    Args:
        experiment: `campaign` is ignored.
        folder: is created: a run folder, or of several jobs, `session.json` around their run folders. None:
            runs/<time>-<name>.
        jobs: what was loaded for each job; None: they are loaded.
        solo: play each of several jobs alone first, at the same places.
        watch: observes the session, and each job alone.
        live: address to serve the report of the first job at during the session.
        notify: receives lines for the user.
        command_line: for manifests; None: that of this process.
        allow_commands: events may run commands on this host.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something. What was measured stays in the folder.
    """
    folder = folder or new_run_folder(name_of(experiment))
    require_new(folder)
    alone: dict[str, Run] = {}
    with contextlib.ExitStack() as stack:
        jobs = jobs or [stack.enter_context(load_job(job)) for job in experiment.jobs]
        if solo:
            with prepare(experiment, jobs, allow_commands=allow_commands):
                pass  # what cannot be played together is not played alone
        for job, loaded in zip(experiment.jobs, jobs, strict=True) if solo else ():
            notify(f"job {job.name} alone")
            alone[job.name] = play(
                experiment.for_job(job.name),
                solo_folder(folder, job.name),
                jobs=[loaded],
                watch=watch,
                notify=notify,
                command_line=command_line,
            ).run
        prepared = stack.enter_context(
            prepare(experiment, jobs, notify=notify, command_line=command_line, allow_commands=allow_commands)
        )
        return prepared.play(folder, stack.enter_context(watch(prepared)), solo=alone, live=live)


@contextlib.contextmanager
def prepare(
    experiment: Experiment,
    jobs: Sequence[LoadedJob],
    *,
    notify: Notify = lambda _: None,
    command_line: Sequence[str] | None = None,
    allow_commands: bool = False,
) -> Iterator[PreparedSession]:
    """Settle everything about a session before any traffic; its addresses stay reserved while the context is open.

    Args:
        experiment: what to play.
        jobs: what was loaded for each of its jobs.
        notify: receives lines for the user.
        command_line: for manifests; None: that of this process.
        allow_commands: events may run commands on this host.

    Raises:
        EmulatorError: bad input, jobs that need the same address, or a host that lacks something.
    """
    if not allow_commands:
        refuse_commands(experiment.events)
    words = command_line or ("charkha", *sys.argv[1:])
    parts = [experiment.for_job(job.name) for job in experiment.jobs]
    topology_file = experiment.network.topology
    if len(parts) > 1 and topology_file is not None and joining_hosts(Path(topology_file)) is not None:
        raise InputError(f"{topology_file}: its hosts come from agents, which works for one job only: list the hosts")
    with contextlib.ExitStack() as stack:
        beds = [
            stack.enter_context(enter_testbed(part, ranks=job.ranks, notify=notify))
            for part, job in zip(parts, jobs, strict=True)
        ]
        lab = beds[0].lab
        if lab is not None and lab.state.limited:
            notify(f"tester-limited: {lab.state.limited}")
        topologies = [bed.topology for bed in beds]
        settled: list[Settled] = []
        for number, (part, job, bed) in enumerate(zip(parts, jobs, beds, strict=True)):
            beside = topologies[:number] + topologies[number + 1 :]
            session = part if number else experiment
            asked = experiment.jobs[number]
            one = settle(
                part,
                job,
                bed,
                command_line=words,
                session=session,
                beside=beside,
                offset_ns=asked.start_ns,
                until_others=asked.until == "others",
            )
            settled.append(one)
        for one, other in combinations(settled, 2):
            _require_own_addresses(one, other)
        settled = [settled[0], *(replace(one, flows=settled[0].flows) for one in settled[1:])]
        silent: Notify = lambda _: None  # noqa: E731 (what is said about the host is said once)
        runs = [
            PreparedRun(one, () if number else experiment.events, notify=silent if number else notify)
            for number, one in enumerate(settled)
        ]
        identity = Identity.new(words) if len(runs) > 1 else settled[0].identity
        yield PreparedSession(experiment, runs, identity, notify)


def name_of(experiment: Experiment) -> str:
    """Name of the run and its folder: the file name of the trace, or the collective; of several jobs, their names."""
    if len(experiment.jobs) > 1:
        return "-".join(job.name for job in experiment.jobs)
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
            batch.num_rows for batch in read_run(folder).batches(RunTable.SAMPLES, ["rank"])
        )
    return False


class PreparedRun:
    """A job whose settings, addresses, agents and algorithms are settled.

    Raises:
        InputError: a profile, an event or a calibration that cannot be used.
    """

    def __init__(self, settled: Settled, events: Sequence[Event], *, notify: Notify) -> None:
        self.settled = settled
        experiment, resolved = settled.experiment, settled.resolved
        iterations = None if settled.plan.until_others else resolved.iterations
        self.dut = watch_dut(experiment.device, resolved, settled.testbed, events=events, iterations=iterations)
        self.calibration = calibration_of(experiment.observe, resolved, settled.topology, notify=notify)

    @property
    def connecting(self) -> list[str]:
        """Agents that are started on other machines and connect."""
        return self.settled.assignment.remote

    @property
    def nodes(self) -> int:
        """Communication nodes of one iteration, over all ranks."""
        return sum(len(program.communications) for program in self.settled.workload.programs)

    @property
    def facts(self) -> RunHeader:
        """What observers know before the run starts; `play` adds `run_folder`."""
        settled = self.settled
        iterations = 0 if settled.plan.until_others else settled.resolved.iterations + settled.resolved.warmup
        ranks = len(settled.workload.programs)
        return RunHeader(
            settled.identity.run_id, str(settled.job.loaded.path), ranks, iterations, self.nodes * iterations, ""
        )


class PreparedSession:
    """A session that can begin. Made by `prepare`.

    Args:
        experiment: what to play.
        runs: of the jobs, in order; the first one has the device under test and the flows.
        identity: of the session; of one job, that of its run.
        notify: receives lines for the user.
    """

    def __init__(self, experiment: Experiment, runs: Sequence[PreparedRun], identity: Identity, notify: Notify) -> None:
        self.runs, self._experiment, self._identity, self._notify = runs, experiment, identity, notify
        self._is_run = len(runs) == 1

    def play(
        self,
        folder: Path,
        observers: Observers | None = None,
        *,
        solo: Mapping[str, Run] | None = None,
        live: LiveAddress | None = None,
    ) -> StoredSession:
        """Play the session into closed run folders with their reports; of several jobs, `session.json` is around them.

        Args:
            folder: of the session.
            observers: of each job.
            solo: name → run of the job alone, as far as it was played.
            live: address to serve the report of the first job at.

        Raises:
            RunError: a job failed, the session was interrupted, or an agent was lost; what was measured stays.
            HostError: a folder cannot be written, an agent cannot start.
            InputError: the folder is in use.
        """
        jobs, observe = self._experiment.jobs, self._experiment.observe
        require_new(folder, *([SOLO] if solo else []))
        folders = [folder] if self._is_run else [job_folder(folder, job.name) for job in jobs]
        facts = [replace(one.facts, run_folder=str(each)) for one, each in zip(self.runs, folders, strict=True)]
        session = None if self._is_run else self._facts(solo or {})
        if session is not None:
            write_session(folder, session)
        try:
            with contextlib.ExitStack() as stack:
                for number, each in enumerate(folders):
                    address = None if number else live
                    around = report_around(each, live=address, report=observe.report, notify=self._notify)
                    stack.enter_context(around)
                publishers: list[list[RunObserver]] = [[] for _ in facts]
                if observe.metrics is not None or observe.mqtt is not None:
                    publishing = load(PluginKind.HOOKS, "publishing")
                    names = None if self._is_run else [job.name for job in jobs]
                    publishers = stack.enter_context(publishing(observe, facts, jobs=names, notify=self._notify))
                own = observers or [()] * len(facts)
                heard_by = [[*some, *more] for some, more in zip(own, publishers, strict=True)]
                self._play(folder, folders, heard_by, session)
        except EmulatorError:
            for each in filter(is_run_folder, folders):
                left = "what was measured is" if has_samples(each) else "nothing was measured; how the run ended is"
                self._notify(f"{left} in {each}")
            raise
        if session is not None and observe.report:
            write_report_of(folder)
        return load_session(folder)

    def _play(
        self, folder: Path, folders: Sequence[Path], observers: Observers, session_facts: SessionFacts | None
    ) -> None:
        settled, dut = [one.settled for one in self.runs], self.runs[0].dut
        with contextlib.ExitStack() as stack:
            stack.enter_context(dut)
            recordings = [
                stack.enter_context(RunRecording(one.settled, each, own, monitor, calibration=one.calibration))
                for one, each, own, monitor in zip(
                    self.runs, folders, observers, shared_monitors(dut, len(self.runs)), strict=True
                )
            ]
            for one in settled:
                line = describe_forecast(one.forecast, is_open_ended=one.plan.until_others)
                self._notify(line if self._is_run else f"job {one.experiment.job.name}: {line}")
            for flow in settled[0].flows:
                if flow.instruction:
                    self._notify(f"{flow.task.title}: {flow.instruction}")
            plan = session_plan(settled, session_id=self._identity.run_id)
            session = JobSession(plan, [one.recorder for one in recordings])
            try:
                session.reserve()
                _play_interruptibly(session)
            except (AgentLost, TransferFailed, RunTimeout) as error:
                failed = 0 if self._is_run else session.failed_job
                if failed is None:
                    raise
                if not self._is_run:
                    self._notify(f"job {settled[failed].experiment.job.name} ended the session")
                raise explained(error, settled[failed].topology) from error
            finally:
                dut.end()
                if session_facts is not None:
                    write_session(folder, _started(session_facts, session.outcomes))
                for recording, outcome in zip(recordings, session.outcomes, strict=True):
                    recording.end(outcome, dut=dut.facts(), events=dut.events())
            for recording in recordings:
                recording.write_trace()

    def _facts(self, solo: Mapping[str, Run]) -> SessionFacts:
        return SessionFacts(
            session_id=self._identity.run_id,
            created=self._identity.created,
            command_line=self._identity.command_line,
            spec=with_absolute_paths(self._experiment).to_plain(),
            jobs=tuple(
                JobFacts(
                    job.name,
                    run.settled.identity.run_id,
                    offset_ns=job.start_ns,
                    pace=job.pace or "barrier",
                    until=job.until,
                    solo_run_id=solo[job.name].manifest.run_id if job.name in solo else None,
                )
                for job, run in zip(self._experiment.jobs, self.runs, strict=True)
            ),
        )


def _started(facts: SessionFacts, outcomes: Sequence[RunOutcome]) -> SessionFacts:
    """What is known of a session when nobody plays any more."""
    jobs = [replace(job, start_ns=one.start_ns) for job, one in zip(facts.jobs, outcomes, strict=True)]
    return replace(facts, jobs=tuple(jobs))


def _play_interruptibly(session: JobSession) -> None:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        for number in (signal.SIGINT, signal.SIGTERM):  # before there is a coroutine that an interrupt could orphan
            loop.add_signal_handler(number, session.abort, RunInterrupted())
        runner.run(session.play())


def _require_own_addresses(one: Settled, other: Settled) -> None:
    """Refuse two jobs whose ranks would need the same port of an address: RoCEv2 has a single one."""
    if not (one.resolved.transport.is_rocev2 and other.resolved.transport.is_rocev2):
        return
    taken = _places(other.topology)
    for address, host in _places(one.topology).items():
        if address in taken:
            names = f"{one.experiment.job.name} and {other.experiment.job.name}"
            raise PlanError(
                f"jobs {names} both have ranks at {address} of host {host}, and RoCEv2 has one port per address: give"
                f" {host} more addresses in the topology (per_rank or addresses), or the jobs different hosts"
            )


def _places(topology: Topology) -> dict[str, str]:
    """Address → name of its host."""
    ends = range(topology.endpoints)
    addresses = ((one, end) for end in ends for one in (topology.address_of(end), topology.alternate_of(end)))
    return {address: topology.host_of(end).name for address, end in addresses if address is not None}
