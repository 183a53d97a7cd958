"""The one who plays for every command: runs and sessions into folders, with progress on stderr, nothing on stdout."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from emulator.cli.output import notify
from emulator.cli.playing import notify_of_import, status
from emulator.experiment.play.live_address import LiveAddress
from emulator.experiment.play.play import Observers, PreparedSession, play
from emulator.experiment.settle.workload import LatestJobs, LoadedJob
from emulator.experiment.spec.spec import Experiment
from emulator.results.run_folder.observer import IterationEnded, IterationStarted, RunEvent, WaitingFor, WritingTrace
from emulator.results.run_folder.session import StoredSession
from emulator.units import format_duration
from emulator.views.terminal.progress import RunProgress, make_display


class CommandPlayer:
    """Plays turns, see `Play`. A context manager: it keeps the latest jobs, as the next turn often has the same.

    Args:
        live: see `play`.
        allow_commands: see `play`.
    """

    def __init__(self, *, live: LiveAddress | None = None, allow_commands: bool = False) -> None:
        self.jobs = LatestJobs()
        self._live, self._allow_commands = live, allow_commands
        self._announced: Sequence[LoadedJob] = ()

    def __enter__(self) -> Self:
        self.jobs.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.jobs.__exit__()

    def load(self, experiment: Experiment) -> Sequence[LoadedJob]:
        """The jobs as `load_job` gives them, with a status line and what their import dropped."""
        with status() as on_step:
            loaded = self.jobs.load(experiment.jobs, on_step=on_step)
        if loaded is not self._announced:
            for job in loaded:
                notify_of_import(job)
            self._announced = loaded
        return loaded

    def __call__(self, experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        """Play the jobs of an experiment at once into a folder; with `solo`, each job alone first.

        Raises:
            EmulatorError: bad input, a failed run, a host that lacks something.
        """
        jobs = self.load(experiment)
        return play(
            experiment,
            folder,
            jobs=jobs,
            solo=solo,
            watch=_watch,
            live=self._live,
            notify=notify,
            allow_commands=self._allow_commands,
        )


@contextmanager
def _watch(prepared: PreparedSession) -> Iterator[Observers]:
    """Progress of every job on one display, and the log."""
    with make_display() as display:
        yield [
            [
                RunProgress(
                    display,
                    nodes=run.nodes,
                    iterations=run.facts.iterations or None,
                    dialling=run.connecting,
                    address=run.settled.experiment.agents.listen or "",
                    job=run.settled.experiment.job.name if len(prepared.runs) > 1 else "",
                ),
                RunLog(),
            ]
            for run in prepared.runs
        ]


logger = logging.getLogger(__name__)


class RunLog:
    """Logs the agents that are missing, and the start, end and duration of iterations."""

    def tell(self, event: RunEvent) -> None:
        """See RunObserver."""
        match event:
            case WaitingFor(agents):
                logger.info("waiting for agents: %s", ", ".join(agents))
            case IterationStarted(iteration):
                logger.info("iteration %d begins%s", iteration, " (a warm-up)" if iteration < 0 else "")
            case IterationEnded(iteration, jct_ns):
                logger.info("iteration %d took %s", iteration, format_duration(jct_ns))
            case WritingTrace():
                logger.info("traffic is over, writing the measured trace")
