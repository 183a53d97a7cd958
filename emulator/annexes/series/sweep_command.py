"""`charkha sweep`: a run at every value of one or more settings, and the curve over them."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from emulator import exit_codes
from emulator.cli.commands.run import OPTIONS, experiment_of
from emulator.cli.options import add_options
from emulator.cli.output import notify, print_json, print_tables
from emulator.errors import InputError
from emulator.option import Level

if TYPE_CHECKING:
    from emulator.annexes.series.sweep_grid import GridSweep
    from emulator.cli.parser import Subparsers
    from emulator.experiment.series import CampaignProgress, Turn
    from emulator.experiment.spec.spec import Experiment
    from emulator.results.verdict.judge import Outcome

_EPILOG = """example:
  charkha sweep lab/examples/transformer-8r --vary qps=1,2,4

  charkha sweep -f run.yaml --vary size=64K:16M:x4 --vary path-mtu=1024,4096 --repeat 4
  charkha sweep -f session.yaml --vary job.start=0ms:200ms:10ms

Values: 1,2,4 or FIRST:LAST:STEP or FIRST:LAST:xFACTOR. NAME is the path of any run spec setting
or its last word. Several --vary play every combination, all checked before any traffic.
job.start of several jobs starts the last one later, and shows interference: docs/interference.md.
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
    add_options(parser, OPTIONS, with_set=Level.FULL)
    parser.add_argument("-f", "--file", metavar="FILE", type=Path, help="vary the run spec in a YAML file")
    parser.add_argument(
        "--vary", metavar="NAME=VALUES", action="append", default=[], help="a setting and its values (repeatable)"
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
    from emulator.annexes.series.record import new_folder
    from emulator.annexes.series.sweep_grid import SWEEPS, VALUES
    from emulator.experiment.play.play import name_of
    from emulator.results.run_folder.places import check_folder

    experiment = experiment_of(args)
    if not args.vary:
        raise InputError(f"give --vary NAME=VALUES, with values as {VALUES}")
    if args.resume and args.out is None:
        raise InputError("--resume needs --out DIR, the folder of the sweep")
    root = args.out or new_folder(SWEEPS, name_of(experiment))
    check_folder(root, "--out")
    return _play_points(experiment, root, args)


def _play_points(experiment: Experiment, root: Path, args: argparse.Namespace) -> int:
    from emulator.annexes.series.sweep_grid import check_points, make_sweep, parse_axis, solo_once
    from emulator.cli.player import CommandPlayer
    from emulator.cli.playing import status
    from emulator.experiment.series import CampaignProgress, play_campaign

    sweep = make_sweep(experiment, [parse_axis(text, experiment) for text in args.vary])
    progress = CampaignProgress(root, sweep.turns)

    def announce(number: int, turn: Turn) -> None:
        notify(f"run {number} of {len(progress.turns)}: {turn.folder(root)}")

    with CommandPlayer() as player:
        with status() as on_step:
            check_points(sweep, player.jobs, on_step=on_step)
        try:
            play_campaign(
                solo_once(player),
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


def _show(sweep: GridSweep, progress: CampaignProgress, args: argparse.Namespace) -> Outcome | None:
    """Write and print the result; returns its verdict."""
    from emulator.annexes.series.sweep_page import sweep_page
    from emulator.annexes.series.sweep_record import record_of
    from emulator.annexes.series.sweep_table import render_sweep_record
    from emulator.experiment.play.play import name_of
    from emulator.host.files import write_text
    from emulator.results.run_folder.manifest import REPORT
    from emulator.views.html.page.document import render

    root, name = progress.root, name_of(sweep.points[0].experiment)
    record = record_of(sweep, progress.outcomes, name=name, written=_now(), collective=args.collective)
    record.write(root)
    write_text(root / REPORT, render(sweep_page(record)))
    if args.json:
        print_json(record.to_plain() | {"folder": str(root)})
    else:
        print_tables(*render_sweep_record(record, root))
    return record.verdict


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
