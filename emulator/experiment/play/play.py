"""One run from a spec to a closed run folder: resolve, plan, play, record, write the measured trace."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from emulator.controller.recording.dut_monitor import shared_monitors
from emulator.controller.run_plan import RunOutcome
from emulator.controller.session import JobSession
from emulator.errors import (
    AgentLost,
    EmulatorError,
    InputError,
    ResultError,
    RunInterrupted,
    RunTimeout,
    TransferFailed,
)
from emulator.experiment.play.dut import watch_dut
from emulator.experiment.play.live_address import LiveAddress
from emulator.experiment.play.live_report import report_around
from emulator.experiment.play.recording import RunRecording
from emulator.experiment.play.session_plan import explained, session_plan
from emulator.experiment.settle.calibration import calibration_of
from emulator.experiment.settle.settled import Settled, settle
from emulator.experiment.settle.testbed import Testbed, enter_testbed
from emulator.experiment.settle.workload import LoadedJob, load_job
from emulator.experiment.spec.spec import Experiment
from emulator.plugins import PluginKind, load
from emulator.results.run_folder.observer import RunHeader, RunObserver
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.store import RUNS, is_run_folder
from emulator.views.text.forecast_text import describe_forecast

_LONGEST_NAME = 60
"""Characters of a trace's name in that of its run folder: at most 240 bytes."""

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
    if len(experiment.jobs) > 1:
        raise InputError(f"there are {len(experiment.jobs)} jobs: play them as a session (play_session)")
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
    with enter_testbed(experiment, ranks=job.ranks, notify=notify) as testbed:
        notify_of_lab(testbed, notify)
        yield PreparedRun(settle(experiment, job, testbed, command_line=words_of(command_line)), notify=notify)


def notify_of_lab(testbed: Testbed, notify: Notify) -> None:
    """Tell the user what limits the tester in a lab."""
    if testbed.lab is not None and testbed.lab.state.limited:
        notify(f"tester-limited: {testbed.lab.state.limited}")


def words_of(command_line: Sequence[str] | None) -> Sequence[str]:
    """A command line for the manifest; None: that of this process."""
    return command_line or ("charkha", *sys.argv[1:])


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
    """A run whose settings, addresses, agents and algorithms are settled. Made by `prepare`.

    Raises:
        InputError: a profile or a calibration that cannot be used.
    """

    def __init__(self, settled: Settled, *, notify: Notify) -> None:
        self.settled, self._notify = settled, notify
        experiment, resolved = settled.experiment, settled.resolved
        self.dut = watch_dut(experiment.device, resolved, settled.testbed)
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
        iterations = 0 if settled.until_others else settled.resolved.iterations + settled.resolved.warmup
        ranks = len(settled.workload.programs)
        return RunHeader(
            settled.identity.run_id, str(settled.job.loaded.path), ranks, iterations, self.nodes * iterations, ""
        )

    def play(self, folder: Path, *, observers: Sequence[RunObserver] = (), live: LiveAddress | None = None) -> Run:
        """Play the run into a closed run folder with its report; returns the run.

        Raises:
            RunError: the run failed, was interrupted, or an agent was lost; the folder keeps what was measured.
            HostError: the folder cannot be written, an agent cannot start.
            InputError: the folder is in use.
        """
        run_id = self.settled.identity.run_id
        (run,) = play_together([self], [folder], [observers], session_id=run_id, notify=self._notify, live=live)
        return run


def play_together(
    prepared: Sequence[PreparedRun],
    folders: Sequence[Path],
    observers: Sequence[Sequence[RunObserver]],
    *,
    session_id: str,
    notify: Notify,
    live: LiveAddress | None = None,
    on_end: Callable[[Sequence[RunOutcome]], None] = lambda outcomes: None,
) -> list[Run]:
    """Play runs at once, each into a closed run folder with its report.

    Args:
        prepared: the runs; the first one has the device under test and the flows.
        folders: of the runs.
        observers: of each run.
        session_id: for agents.
        notify: receives lines for the user.
        live: address to serve the report of the first run at.
        on_end: called when nobody plays any more, also after a failure.

    Raises:
        RunError: one failed, was interrupted, or an agent was lost; the folders keep what was measured.
        HostError: a folder cannot be written, an agent cannot start.
        InputError: a folder is in use.
    """
    unused = [folder for folder in folders if not is_run_folder(folder)]  # the others have another run already
    facts = [replace(one.facts, run_folder=str(folder)) for one, folder in zip(prepared, folders, strict=True)]
    observe = prepared[0].settled.experiment.observe
    names = [one.settled.experiment.job.name for one in prepared] if len(prepared) > 1 else None
    try:
        with contextlib.ExitStack() as stack:
            for number, folder in enumerate(folders):
                address = None if number else live
                stack.enter_context(report_around(folder, live=address, report=observe.report, notify=notify))
            publishers: list[list[RunObserver]] = [[] for _ in facts]
            if observe.metrics is not None or observe.mqtt is not None:
                publishing = load(PluginKind.HOOKS, "publishing")
                publishers = stack.enter_context(publishing(observe, facts, jobs=names, notify=notify))
            heard_by = [[*own, *more] for own, more in zip(observers, publishers, strict=True)]
            return _play(prepared, folders, heard_by, session_id=session_id, notify=notify, on_end=on_end)
    except EmulatorError:
        for folder in filter(is_run_folder, unused):
            left = "what was measured is" if has_samples(folder) else "nothing was measured; how the run ended is"
            notify(f"{left} in {folder}")
        raise


def _play(
    prepared: Sequence[PreparedRun],
    folders: Sequence[Path],
    observers: Sequence[Sequence[RunObserver]],
    *,
    session_id: str,
    notify: Notify,
    on_end: Callable[[Sequence[RunOutcome]], None],
) -> list[Run]:
    settled = [one.settled for one in prepared]
    dut = prepared[0].dut
    with contextlib.ExitStack() as stack:
        stack.enter_context(dut)
        recordings = [
            stack.enter_context(RunRecording(one.settled, folder, own, monitor, calibration=one.calibration))
            for one, folder, own, monitor in zip(
                prepared, folders, observers, shared_monitors(dut, len(prepared)), strict=True
            )
        ]
        for one in settled:
            notify(describe_forecast(one.forecast) if len(settled) == 1 else _forecast_of_job(one))
        for flow in settled[0].flows:
            if flow.instruction:
                notify(f"{flow.task.title}: {flow.instruction}")
        session = JobSession(session_plan(settled, session_id=session_id), [one.recorder for one in recordings])
        try:
            session.reserve()
            _play_interruptibly(session)
        except (AgentLost, TransferFailed, RunTimeout) as error:
            failed = session.failed_job if len(settled) > 1 else 0
            if failed is None:
                raise
            if len(settled) > 1:
                notify(f"job {settled[failed].experiment.job.name} ended the session")
            raise explained(error, settled[failed].topology) from error
        finally:
            dut.end()
            on_end(session.outcomes)
            for recording, outcome in zip(recordings, session.outcomes, strict=True):
                recording.end(outcome, dut=dut.facts())
        for recording in recordings:
            recording.write_trace()
    return [recording.writer.run() for recording in recordings]


def _forecast_of_job(settled: Settled) -> str:
    line = describe_forecast(settled.forecast, is_open_ended=settled.until_others)
    return f"job {settled.experiment.job.name}: {line}"


def _play_interruptibly(session: JobSession) -> None:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        for number in (signal.SIGINT, signal.SIGTERM):  # before there is a coroutine that an interrupt could orphan
            loop.add_signal_handler(number, session.abort, RunInterrupted())
        runner.run(session.play())
