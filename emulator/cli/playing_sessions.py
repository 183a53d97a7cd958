"""Play a session of several jobs, with progress on stderr, and the result of every job on stdout."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emulator import exit_codes
from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.playing import notify_of_import, print_outcome, status
from emulator.errors import InputError, ResultError, RunInterrupted
from emulator.experiment.play.log import RunLog
from emulator.experiment.play.outcome import outcome_of
from emulator.experiment.play.play import new_run_folder
from emulator.experiment.play.session import check_session, load_jobs, prepare_session, prepare_solo, require_new
from emulator.experiment.spec.spec import Experiment
from emulator.results.comparison.interference import measure_interference
from emulator.results.run_folder.session import Session, load_session, solo_folder
from emulator.results.verdict.judge import gravest
from emulator.views.as_json.interference import interference_to_json
from emulator.views.html.session_page import write_session_report
from emulator.views.terminal.interference_table import render_interference
from emulator.views.terminal.progress import RunProgress, make_display

if TYPE_CHECKING:
    from rich.progress import Progress

    from emulator.experiment.play.play import PreparedRun
    from emulator.experiment.settle.workload import LoadedJob
    from emulator.results.run_folder.reader import Run


def play_and_show_session(experiment: Experiment, args: argparse.Namespace) -> int:
    """Play a session, and print the table of every job, or JSON.

    Args:
        experiment: with several jobs.
        args: those of `run`.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    if experiment.campaign is not None:
        raise InputError(
            "--repeat and --profiles are for runs of one job: play the session again, or sweep its settings"
        )
    if args.live is not None:
        raise InputError("--live shows the report of one run: leave it out; every job of a session has a report.html")
    folder = args.out or new_run_folder("-".join(job.name for job in experiment.jobs))
    try:
        session = play_session_into(experiment, folder, getattr(args, "solo", False))
    except RunInterrupted:
        with contextlib.suppress(ResultError):
            _show(load_session(folder), experiment, args)
        raise
    exit_code = _show(session, experiment, args)
    return exit_code if experiment.observe.expect is not None else exit_codes.DONE


def play_session_into(experiment: Experiment, folder: Path, solo: bool) -> Session:
    """Play a session into a folder; nothing goes to stdout.

    Args:
        experiment: with several jobs.
        folder: of the session.
        solo: play each job alone first.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
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


def _progress(run: PreparedRun, job: str, display: Progress, *, is_open_ended: bool = False) -> RunProgress:
    facts = run.facts
    return RunProgress(
        nodes=run.nodes,
        iterations=None if is_open_ended else facts.iterations,
        dialling=run.connecting,
        address=run.settled.experiment.agents.listen or "",
        job=job,
        display=display,
    )


def _show(session: Session, experiment: Experiment, args: argparse.Namespace) -> int:
    """Print what came of every job; returns the exit code of the gravest verdict."""
    jobs = {job.name: job for job in experiment.jobs}
    outcomes = {name: outcome_of(run, jobs[name]) for name, run in session.jobs.items()}
    worst = gravest(one.verdict.outcome for one in outcomes.values())
    found = measure_interference([session]) if session.solo else None
    if args.json:
        print_json(
            {
                "session_id": session.facts.session_id,
                "session_folder": str(session.folder),
                "outcome": worst.value,
                "jobs": [
                    {"job": name, "start_ns": session.starts_ns.get(name), **one.to_json()}
                    for name, one in outcomes.items()
                ],
                "solo": [{"job": name, **outcome_of(run, jobs[name]).to_json()} for name, run in session.solo.items()],
                "interference": None if found is None else interference_to_json(found),
            }
        )
        return worst.exit_code
    for name, one in outcomes.items():
        print_tables(f"Job {name}")
        print_outcome(one, args)
        print_tables("")
    if found is not None:
        print_tables(render_interference(found))
    print_tables(f"Session folder: {session.folder}")
    return worst.exit_code
