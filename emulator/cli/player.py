"""The one who plays for every command: runs and sessions into folders, with progress on stderr, nothing on stdout."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rich.progress import Progress

from emulator.cli.output import notify
from emulator.cli.playing import notify_of_import, status
from emulator.experiment.play.live_address import LiveAddress
from emulator.experiment.play.log import RunLog
from emulator.experiment.play.play import PreparedRun, prepare
from emulator.experiment.play.session import check_session, load_jobs, prepare_session, prepare_solo, require_new
from emulator.experiment.settle.workload import LatestJob, LoadedJob
from emulator.experiment.spec.spec import Experiment, Job
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.session import StoredSession, solo_folder
from emulator.views.html.session_page import write_session_report
from emulator.views.terminal.progress import RunProgress, make_display


class CommandPlayer:
    """Plays turns, see `Play`. A context manager: it keeps the latest job, because the next run often has the same."""

    def __init__(self, *, live: LiveAddress | None = None) -> None:
        self.jobs = LatestJob()
        self._live = live
        self._announced: LoadedJob | None = None

    def __enter__(self) -> Self:
        self.jobs.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.jobs.__exit__()

    def load(self, job: Job) -> LoadedJob:
        """The job as `load_job` gives it, with a status line and what its import dropped."""
        with status() as on_step:
            loaded = self.jobs.load(job, on_step=on_step)
        if loaded is not self._announced:
            notify_of_import(loaded)
            self._announced = loaded
        return loaded

    def __call__(self, experiment: Experiment, folder: Path, *, solo: bool = False) -> Run | StoredSession:
        """Play a run, or a session of several jobs, into a folder; with `solo`, each job of a session alone first.

        Raises:
            EmulatorError: bad input, a failed run, a host that lacks something.
        """
        if len(experiment.jobs) > 1:
            return _play_session(experiment, folder, solo=solo)
        with prepare(experiment, self.load(experiment.job), notify=notify) as prepared:
            progress = _progress(prepared)
            with progress:
                return prepared.play(folder, observers=[progress, RunLog()], live=self._live)


def _play_session(experiment: Experiment, folder: Path, *, solo: bool) -> StoredSession:
    require_new(folder)
    with contextlib.ExitStack() as stack:
        with status() as on_step:
            on_step("reading the traces")
            jobs = stack.enter_context(load_jobs(experiment))
        for loaded in jobs:
            notify_of_import(loaded)
        alone = _play_solo(experiment, jobs, folder) if solo else {}
        with prepare_session(experiment, jobs, notify=notify) as prepared, make_display() as display:
            progress = [
                _progress(run, job.name, display, is_open_ended=job.until is not None)
                for run, job in zip(prepared.runs, experiment.jobs, strict=True)
            ]
            session = prepared.play(folder, [[one, RunLog()] for one in progress], solo=alone)
    if experiment.observe.report:
        write_session_report(session)
    return session


def _play_solo(experiment: Experiment, jobs: Sequence[LoadedJob], folder: Path) -> dict[str, Run]:
    """Every job alone, one after the other."""
    check_session(experiment, jobs)
    alone: dict[str, Run] = {}
    for job, loaded in zip(experiment.jobs, jobs, strict=True):
        with prepare_solo(experiment, job, loaded, notify=notify) as run, make_display() as display:
            notify(f"job {job.name} alone")
            progress = _progress(run, job.name, display)
            alone[job.name] = run.play(solo_folder(folder, job.name), observers=[progress, RunLog()])
    return alone


def _progress(
    run: PreparedRun, job: str = "", display: Progress | None = None, *, is_open_ended: bool = False
) -> RunProgress:
    facts = run.facts
    return RunProgress(
        nodes=run.nodes,
        iterations=None if is_open_ended else facts.iterations,
        dialling=run.connecting,
        address=run.settled.experiment.agents.listen or "",
        job=job,
        display=display,
    )
