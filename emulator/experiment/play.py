"""One run from a spec to a closed run folder: resolve, plan, play, record, write the measured trace."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from emulator.control.observations import FlowCounters, join_ends
from emulator.controller.assignment import Assignment
from emulator.controller.measured_trace import write_measured_trace
from emulator.controller.recorder import Recorder
from emulator.controller.run_plan import SessionOutcome
from emulator.controller.session import RunSession
from emulator.controller.timebase import settle_stamps
from emulator.controller.worst_instances import WorstInstances
from emulator.errors import AgentLost, EmulatorError, ResultError, RunInterrupted, RunTimeout, TransferFailed
from emulator.experiment.calibration import calibration_of
from emulator.experiment.dut import watch_dut
from emulator.experiment.flows import result_rows
from emulator.experiment.live_address import LiveAddress
from emulator.experiment.live_report import report_around
from emulator.experiment.manifest import concluded_manifest, opening_manifest
from emulator.experiment.session_plan import explained, run_plan
from emulator.experiment.settled import Settled, settle
from emulator.experiment.spec import Experiment
from emulator.experiment.telemetry import publishing
from emulator.experiment.testbed import enter_testbed
from emulator.experiment.workload import LoadedJob, load_job
from emulator.planner.network.ideal_times import UNKNOWN_NS
from emulator.planner.rank_program import WORST_STEPS
from emulator.run_folder.catalogue import Catalogue
from emulator.run_folder.observer import RunObserver
from emulator.run_folder.reader import Run, read_run
from emulator.run_folder.schema import Part
from emulator.run_folder.store import RUNS, is_run_folder
from emulator.run_folder.writer import RunWriter
from emulator.telemetry.reporter import RunFacts
from emulator.trace.model import Communication, IntArray
from emulator.units import NS_PER_S
from emulator.verdict.rules import RULES_FILE, rules_file
from emulator.views.forecast_text import describe_forecast

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
        settled = settle(experiment, job, testbed, command_line=command_line or ("charkha", *sys.argv[1:]))
        yield PreparedRun(settled, notify=notify)


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


class PreparedRun:
    """A run whose settings, addresses, agents and algorithms are settled. Made by `prepare`.

    Raises:
        InputError: a profile or a calibration that cannot be used.
    """

    def __init__(self, settled: Settled, *, notify: Notify) -> None:
        self.settled, self._notify = settled, notify
        experiment, resolved = settled.experiment, settled.resolved
        self._dut = watch_dut(experiment.device, resolved, settled.testbed)
        self._calibration = calibration_of(experiment.observe, resolved, settled.topology, notify=notify)

    @property
    def connecting(self) -> list[str]:
        """Agents that are started on other machines and connect."""
        return self.settled.assignment.remote

    @property
    def facts(self) -> RunFacts:
        """What observers know before the run starts; `play` adds `run_folder`."""
        settled = self.settled
        nodes = sum(len(program.communications) for program in settled.workload.programs)
        iterations = settled.resolved.iterations + settled.resolved.warmup
        ranks = len(settled.workload.programs)
        return RunFacts(
            settled.identity.run_id, str(settled.job.loaded.path), ranks, iterations, nodes * iterations, ""
        )

    def play(self, folder: Path, *, observers: Sequence[RunObserver] = (), live: LiveAddress | None = None) -> Run:
        """Play the run into a closed run folder with its report; returns the run.

        Raises:
            RunError: the run failed, was interrupted, or an agent was lost; the folder keeps what was measured.
            HostError: the folder cannot be written, an agent cannot start.
            InputError: the folder is in use.
        """
        is_used = is_run_folder(folder)  # by another run: this one will write nothing into it
        facts = replace(self.facts, run_folder=str(folder))
        observe = self.settled.experiment.observe
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
        settled, resolved = self.settled, self.settled.resolved
        with self._dut, RunWriter(folder, opening_manifest(settled, calibration=self._calibration)) as writer:
            self._notify(describe_forecast(settled.forecast))
            for flow in settled.flows:
                if flow.instruction:
                    self._notify(f"{flow.task.title}: {flow.instruction}")
            if settled.experiment.observe.expect is not None:
                shutil.copyfile(rules_file(settled.experiment.observe.expect), folder / RULES_FILE)
            worst = WorstInstances(settled.topology.host_index) if resolved.record_steps == WORST_STEPS else None
            recorder = Recorder(writer, self._catalogue(), observers, self._dut, worst=worst)
            session = RunSession(run_plan(settled), recorder)
            try:
                asyncio.run(_play_interruptibly(session))
            except (AgentLost, TransferFailed, RunTimeout) as error:
                raise explained(error, settled.topology) from error
            finally:
                self._dut.end()
                recorder.flush()
                self._record_end(writer, session.outcome, recorder, worst)
            for observer in observers:
                observer.writing_trace()
            write_measured_trace(writer.run(), settled.job.loaded, folder / MEASURED_TRACE)
        return writer.run()

    def _record_end(
        self, writer: RunWriter, outcome: SessionOutcome, recorder: Recorder, worst: WorstInstances | None
    ) -> None:
        """Write what is known only when nobody plays any more."""
        settled = self.settled
        settle_stamps(writer, outcome, settled.assignment.ranks_of)
        writer.add_flows(flows := _counted_flows(outcome, settled.assignment))
        writer.add_flow_results(result_rows(settled.flows, outcome.flow_reports))
        if settled.resolved.record_steps:
            self._complete_steps(writer, flows, worst)
        writer.manifest = concluded_manifest(writer.manifest, settled, outcome, recorder, dut=self._dut.facts())

    def _complete_steps(self, writer: RunWriter, flows: Sequence[FlowCounters], worst: WorstInstances | None) -> None:
        from emulator.controller.step_facts import StepFacts, complete_steps  # loads scipy, which few runs need

        settled = self.settled
        facts = StepFacts(
            settled.topology,
            settled.workload,
            flows,
            algorithm_of=settled.choice.name_of,
            overhead=settled.resolved.overhead,
        )
        complete_steps(writer, facts, kept=None if worst is None else worst.found)

    def _catalogue(self) -> Catalogue:
        settled = self.settled
        ideal_ns: IntArray | None = settled.ideal_ns if np.any(settled.ideal_ns != UNKNOWN_NS) else None
        return Catalogue(settled.workload, algorithm_of=self._algorithm_name, ideal_ns=ideal_ns)

    def _algorithm_name(self, node: Communication) -> str:
        return self.settled.choice.name_of(node) if node.kind.is_collective else ""


def _counted_flows(outcome: SessionOutcome, assignment: Assignment) -> list[FlowCounters]:
    """Counters of flows whose senders' agents have reported: what a lost agent sent is not known."""
    known = {rank for agent in outcome.counted for rank in assignment.ranks_of[agent]}
    return [flow for flow in join_ends(outcome.flows) if flow.src in known]


async def _play_interruptibly(session: RunSession) -> SessionOutcome:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, session.abort, RunInterrupted())
    return await session.play()
