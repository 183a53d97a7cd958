"""`charkha sweep`: a run at every value of one or more settings, and the curve over them."""

from __future__ import annotations

import argparse
import contextlib
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from emulator import exit_codes
from emulator.cli.commands.run import GROUPS, experiment_of
from emulator.cli.options.table import add_options
from emulator.cli.output import notify, print_json, print_tables
from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers
    from emulator.experiment.campaign import CampaignProgress, Turn
    from emulator.experiment.spec import Experiment
    from emulator.run_folder.reader import Run
    from emulator.run_folder.session import Session
    from emulator.sweep.grid import Sweep
    from emulator.sweep.phase import PhaseProgress, PhaseSweep
    from emulator.verdict.judge import Outcome

_EPILOG = """example:
  charkha sweep lab/examples/transformer-8r --vary qps=1,2,4

  charkha sweep -f run.yaml --vary size=64K:16M:x4 --vary path-mtu=1024,4096 --repeat 4
  charkha sweep -f session.yaml --phase 0:1:0.05

Values: 1,2,4 or FIRST:LAST:STEP or FIRST:LAST:xFACTOR. NAME is the path of any run spec setting
or its last word. Several --vary play every combination, all checked before any traffic.
--phase starts the second of two jobs later, in iterations of the first: docs/interference.md.
docs/sweep.md describes the files.
exit codes: 0 all points are complete; 1 a run failed; with --expect those of suites: docs/expect.md
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `sweep` to the command line."""
    parser = subparsers.add_parser(
        "sweep",
        description="Play a run for every value of one or more settings and draw the curve.",
        epilog=_EPILOG,
    )
    add_options(parser, GROUPS)
    parser.add_argument("-f", "--file", metavar="FILE", type=Path, help="vary the run spec in a YAML file")
    parser.add_argument(
        "--vary", metavar="NAME=VALUES", action="append", default=[], help="a setting and its values (repeatable)"
    )
    parser.add_argument(
        "--phase", metavar="VALUES", help="start of the second of two jobs, in solo iterations of the first"
    )
    parser.add_argument(
        "--collective",
        metavar="NAME",
        advanced=True,
        help="collective whose bus bandwidth is shown (default: the one that takes most time)",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder (default: sweeps/<time>-<name>)")
    parser.add_argument("--resume", action="store_true", help="play only the runs missing in --out")
    parser.add_argument("--json", action="store_true", help="print the points as JSON")
    parser.set_defaults(handler=_run, again=None)


def _run(args: argparse.Namespace) -> int:
    from emulator.run_folder.places import check_folder
    from emulator.sweep.axis import VALUES
    from emulator.sweep.grid import new_folder

    experiment = experiment_of(args)
    if (args.phase is None) == (not args.vary):
        raise InputError(f"give --vary NAME=VALUES or --phase VALUES, with values as {VALUES}")
    if args.resume and args.out is None:
        raise InputError("--resume needs --out DIR, the folder of the sweep")
    root = args.out or new_folder(_name_of(experiment))
    check_folder(root, "--out")
    return _play_phases(experiment, root, args) if args.phase is not None else _play_points(experiment, root, args)


def _name_of(experiment: Experiment) -> str:
    from emulator.experiment.play import name_of

    return name_of(experiment) if len(experiment.jobs) == 1 else "-".join(job.name for job in experiment.jobs)


def _play_points(experiment: Experiment, root: Path, args: argparse.Namespace) -> int:
    from emulator.cli.playing import play_job, status
    from emulator.experiment.campaign import CampaignProgress, play_campaign
    from emulator.experiment.workload import LatestJob
    from emulator.sweep.axis import parse_axis
    from emulator.sweep.grid import check_points, make_sweep

    if len(experiment.jobs) > 1:
        raise InputError("--vary varies a run of one job; of a session of two, --phase moves their starts")
    sweep = make_sweep(experiment, [parse_axis(text, experiment) for text in args.vary])
    progress = CampaignProgress(root, sweep.turns)

    def announce(number: int, turn: Turn) -> None:
        notify(f"run {number} of {len(progress.turns)}: {turn.folder(root)}")

    with contextlib.ExitStack() as stack:
        jobs = stack.enter_context(LatestJob())
        with status() as on_step:
            check_points(sweep, jobs, on_step=on_step)
        try:
            play_campaign(
                lambda one, folder: play_job(jobs.load(one.job), one, folder),
                progress,
                resume=args.resume,
                on_turn=announce,
                allowed_failures=len(progress.turns) + 1,  # a failure may be an end of the range
            )
        finally:
            verdict = _show(sweep, progress, args) if progress.outcomes else None
    if progress.complete < len(progress.turns):
        return exit_codes.FAILED
    return exit_codes.DONE if verdict is None else verdict.exit_code


def _show(sweep: Sweep, progress: CampaignProgress, args: argparse.Namespace) -> Outcome | None:
    """Write and print the result; returns its verdict."""
    from emulator.run_folder.stream import write_text
    from emulator.sweep.page import REPORT, sweep_page
    from emulator.sweep.record import record_of, record_to_json, write_record
    from emulator.sweep.table import render_sweep_record
    from emulator.views.html.page.document import render

    root, name = progress.root, _name_of(sweep.points[0].experiment)
    record = record_of(sweep, progress.outcomes, name=name, written=_now(), collective=args.collective)
    write_record(record, root)
    write_text(root / REPORT, render(sweep_page(record)))
    if args.json:
        print_json(record_to_json(record) | {"folder": str(root)})
    else:
        print_tables(*render_sweep_record(record, root))
    return record.verdict


def _play_phases(experiment: Experiment, root: Path, args: argparse.Namespace) -> int:
    from emulator.experiment.session import check_session, load_jobs, prepare_session, prepare_solo
    from emulator.sweep.grid import repeats_of
    from emulator.sweep.phase import PhaseProgress, make_phase_sweep, play_phases

    repeat = repeats_of(experiment)
    sweep = make_phase_sweep(replace(experiment, campaign=None), args.phase, repeat=repeat)
    names = list(sweep.names)

    with load_jobs(sweep.experiment) as jobs:
        check_session(sweep.experiment, jobs)

        def play_solo(one: Experiment, name: str, folder: Path) -> Run:
            at = names.index(name)
            with prepare_solo(one, one.jobs[at], jobs[at]) as prepared:
                return prepared.play(folder)

        def play_both(one: Experiment, folder: Path) -> Session:
            with prepare_session(one, jobs) as prepared:
                return prepared.play(folder, [()] * len(jobs))

        progress = PhaseProgress(root)
        try:
            play_phases(
                sweep,
                progress,
                play_solo=play_solo,
                play_session=play_both,
                resume=args.resume,
                on_run=lambda number, folder: notify(f"run {number} of {sweep.steps}: {folder}"),
            )
        finally:
            if progress.played:
                _show_phases(sweep, progress, args)
    return exit_codes.FAILED if any(one.session is None for one in progress.played) else exit_codes.DONE


def _show_phases(sweep: PhaseSweep, progress: PhaseProgress, args: argparse.Namespace) -> None:
    from emulator.run_folder.stream import write_text
    from emulator.sweep.page import REPORT
    from emulator.sweep.phase_page import phase_page
    from emulator.sweep.phase_record import phase_record
    from emulator.sweep.phase_table import render_phases
    from emulator.sweep.record import record_to_json, write_record
    from emulator.views.html.page.document import render

    record, root = phase_record(sweep, progress, written=_now()), progress.root
    write_record(record, root)
    write_text(root / REPORT, render(phase_page(record)))
    if args.json:
        print_json(record_to_json(record) | {"folder": str(root)})
    else:
        print_tables(*render_phases(record, root))


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
