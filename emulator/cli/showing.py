"""The result of a run or a session on stdout: the table of every job, or JSON."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from emulator.cli.output import print_json, print_tables
from emulator.errors import ResultError
from emulator.experiment.play.outcome import PlayedRun, outcome_of
from emulator.experiment.play.play import has_samples
from emulator.experiment.spec.spec import Experiment
from emulator.results.comparison.interference import measure_interference
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.session import StoredSession, load_session
from emulator.results.verdict.judge import gravest
from emulator.views.as_json.interference import interference_to_json
from emulator.views.html.writing import REPORT
from emulator.views.terminal.interference_table import render_interference
from emulator.views.terminal.pair_table import render_pairs
from emulator.views.terminal.summary_table import render, render_beside
from emulator.views.terminal.sweep import NCCL_TESTS, render_sweep
from emulator.views.terminal.verdict_table import render_findings, render_headline
from emulator.views.text.verdict_text import NO_RULES, headline

_MOST_CLASSES = 40
"""Classes that a run prints: requests of inference have a size each."""


def show(played: Run | StoredSession, experiment: Experiment, args: argparse.Namespace) -> int:
    """Print what came of a run, or of every job of a session; returns the exit code of the gravest verdict."""
    if isinstance(played, StoredSession):
        return _show_session(played, experiment, args)
    outcome = outcome_of(played, experiment.job)
    if args.json:
        print_json(outcome.to_json())
    else:
        _print_outcome(outcome, args)
    return outcome.verdict.exit_code


def show_aborted(folder: Path, experiment: Experiment, args: argparse.Namespace) -> None:
    """Print what an interrupted run or session measured, if it did."""
    if len(experiment.jobs) > 1:
        with contextlib.suppress(ResultError):
            show(load_session(folder), experiment, args)
    elif has_samples(folder):
        show(read_run(folder), experiment, args)


def _show_session(session: StoredSession, experiment: Experiment, args: argparse.Namespace) -> int:
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
        _print_outcome(one, args)
        print_tables("")
    if found is not None:
        print_tables(render_interference(found))
    print_tables(f"Session folder: {session.folder}")
    return worst.exit_code


def _print_outcome(outcome: PlayedRun, args: argparse.Namespace) -> None:
    """Print the table of a run."""
    tables = render_beside(outcome.summary)
    beside = ["", *tables] if tables else []
    verdict, folder = outcome.verdict, outcome.run.folder
    last = [f"Run folder: {folder}"]
    if (folder / REPORT).is_file():
        last.append(f"Report: {folder / REPORT}")
    if outcome.sweep is not None:
        layout = getattr(args, "columns", NCCL_TESTS)
        print_tables(*render_sweep(outcome.sweep, layout=layout, headline=headline(verdict), last=last), *beside)
        return
    if verdict.rules is None:
        last.append(NO_RULES)
    if outcome.pairs is not None:
        last = [*(f"Tester: {one}" for one in verdict.tester.problems[:1]), *last]  # no row is of one pair
        print_tables(render_headline(verdict), *render_pairs(outcome.pairs), *beside, *last)
    else:
        summary = render(outcome.summary, limit=_MOST_CLASSES)
        print_tables(render_headline(verdict), summary, *render_findings(verdict), *last)
