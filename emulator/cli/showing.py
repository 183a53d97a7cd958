"""The result of a run or a session on stdout: the table of every job, or JSON."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from emulator.cli.output import print_json, print_tables
from emulator.errors import ResultError
from emulator.experiment.play.outcome import bench_table, session_to_json
from emulator.experiment.play.play import has_samples
from emulator.results.run_folder.manifest import REPORT
from emulator.results.run_folder.session import StoredSession, load_session
from emulator.results.statistics.pair_sweep import PairTable
from emulator.results.verdict.session import JudgedRun, judge_session
from emulator.views.terminal.interference_table import render_interference
from emulator.views.terminal.pair_table import render_pairs
from emulator.views.terminal.summary_table import render, render_beside
from emulator.views.terminal.sweep import NCCL_TESTS, render_sweep
from emulator.views.terminal.verdict_table import render_findings, render_headline
from emulator.views.verdict_text import NO_RULES, headline

_MOST_CLASSES = 40
"""Classes that a run prints: requests of inference have a size each."""


def show(session: StoredSession, args: argparse.Namespace) -> int:
    """Print what came of every job of a session; returns the exit code of the gravest verdict."""
    judged = judge_session(session)
    if args.json:
        print_json(session_to_json(judged))
        return judged.verdict.exit_code
    for name, one in judged.jobs.items():
        if session.is_run:
            _print_run(one, args)
            continue
        print_tables(f"Job {name}")
        _print_run(one, args)
        print_tables("")
    if session.solo:
        print_tables(render_interference(judged.interference))
    if not session.is_run:
        print_tables(f"Session folder: {session.folder}")
    return judged.verdict.exit_code


def show_aborted(folder: Path, args: argparse.Namespace) -> None:
    """Print what an interrupted run or session measured, if it did."""
    with contextlib.suppress(ResultError):
        session = load_session(folder)
        if any(has_samples(run.folder) for run in session.jobs.values()):
            show(session, args)


def _print_run(judged: JudgedRun, args: argparse.Namespace) -> None:
    """Print the table of a run."""
    tables = render_beside(judged.summary)
    beside = ["", *tables] if tables else []
    verdict, folder, table = judged.verdict, judged.run.folder, bench_table(judged.run)
    last = [f"Run folder: {folder}"]
    if (folder / REPORT).is_file():
        last.append(f"Report: {folder / REPORT}")
    if table is not None and not isinstance(table, PairTable):
        layout = getattr(args, "columns", NCCL_TESTS)
        print_tables(*render_sweep(table, layout=layout, headline=headline(verdict), last=last), *beside)
        return
    if verdict.rules is None:
        last.append(NO_RULES)
    if table is not None:
        last = [*(f"Tester: {one}" for one in verdict.tester.problems[:1]), *last]  # no row is of one pair
        print_tables(render_headline(verdict), *render_pairs(table), *beside, *last)
    else:
        summary = render(judged.summary, limit=_MOST_CLASSES)
        print_tables(render_headline(verdict), summary, *render_findings(verdict), *last)
