"""Play an experiment, with progress on stderr and the result on stdout: for `run`, `bench` and `controller`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from emulator import exit_codes
from emulator.cli.output import notify, print_json, print_tables
from emulator.errors import InputError, RunInterrupted
from emulator.experiment.spec.spec import Experiment

if TYPE_CHECKING:
    from emulator.cli.parser import Parser
    from emulator.cli.player import CommandPlayer
    from emulator.experiment.series import CampaignProgress
    from emulator.experiment.settle.workload import LoadedJob


def add_output_options(parser: Parser) -> None:
    """Add the options for the run folder and the output."""
    from emulator.cli.parser import argument
    from emulator.experiment.play.live_address import LiveAddress, parse_live_address

    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", type=Path, help="run folder (default: runs/<time>-<name>)")
    output.add_argument("--json", action="store_true", help="print the facts of the table as JSON")
    output.add_argument(
        "--print-spec", action="store_true", advanced=True, help="print the run spec as YAML and exit; no traffic"
    )
    output.add_argument(
        "--live",
        metavar="PORT",
        nargs="?",
        type=argument(parse_live_address),
        const=LiveAddress(),
        advanced=True,
        help="serve the report during the run, at 127.0.0.1 or [ADDRESS:]PORT (default: a free port)",
    )
    output.add_argument(
        "--resume", action="store_true", advanced=True, help="with --repeat: keep the complete runs in --out"
    )


def play_and_show(experiment: Experiment, args: argparse.Namespace) -> int:
    """Play one run or a campaign, and print its table or JSON.

    Args:
        experiment: what to play.
        args: those of `add_output_options`.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    from emulator.controller.roster.local_agents import dismiss_early, start_early

    if not (args.print_spec or experiment.agents.by_hand or experiment.agents.listen):
        start_early(experiment.agents.count)
    try:
        return _play_and_show(experiment, args)
    finally:
        dismiss_early()


def _play_and_show(experiment: Experiment, args: argparse.Namespace) -> int:
    # These imports take most of a second, which --help does not need.
    from emulator.cli.player import CommandPlayer
    from emulator.cli.showing import show, show_aborted
    from emulator.experiment.play.play import name_of, new_run_folder
    from emulator.experiment.spec.document import to_yaml
    from emulator.results.run_folder.places import check_folder
    from emulator.results.verdict.rules import load_rules

    if args.print_spec:
        print(to_yaml(experiment), end="")
        return 0
    if args.out is not None:
        check_folder(args.out, "--out")
    if experiment.observe.expect is not None:
        load_rules(experiment.observe.expect)  # refused before any traffic
    _check_jobs(experiment, args)
    folder = args.out or new_run_folder(name_of(experiment))
    with CommandPlayer(live=args.live, allow_commands=getattr(args, "allow_commands", False)) as player:
        if experiment.campaign is not None:
            return _play_campaign(experiment, player, folder, args)
        try:
            played = player(experiment, folder, solo=getattr(args, "solo", False))
        except RunInterrupted:
            show_aborted(folder, args)
            raise
        exit_code = show(played, args)
    return exit_code if experiment.observe.expect is not None else exit_codes.DONE


def _check_jobs(experiment: Experiment, args: argparse.Namespace) -> None:
    """Refuse options that are for one job only, or for several."""
    if len(experiment.jobs) == 1:
        if getattr(args, "solo", False):
            raise InputError("--solo is for several jobs: this one is alone as it is")
        return
    if experiment.campaign is not None:
        raise InputError(
            "--repeat and --profiles are for runs of one job: play the session again, or sweep its settings"
        )
    if args.live is not None:
        raise InputError("--live shows the report of one run: leave it out; every job of a session has a report.html")


def notify_of_import(job: LoadedJob) -> None:
    """Say on stderr what the import of a trace guessed and dropped, a line for each kind."""
    for line in job.loaded.imported.lines():
        notify(line)


@contextlib.contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """A status line on stderr; yields the function that changes it."""
    if not sys.stderr.isatty():
        yield lambda _: None  # a spinner that nobody sees takes a tenth of the start
        return
    from rich.console import Console
    from rich.status import Status

    with Status("", console=Console(stderr=True)) as status:
        yield status.update


def _play_campaign(experiment: Experiment, player: CommandPlayer, root: Path, args: argparse.Namespace) -> int:
    from emulator.experiment.series import CampaignProgress, Turn, play_campaign, schedule
    from emulator.results.statistics.samples.classes import count_classes

    (job,) = player.load(experiment)
    progress = CampaignProgress(root, schedule(experiment, classes=count_classes(job.workload)))

    def on_turn(number: int, turn: Turn) -> None:
        notify(f"run {number} of {len(progress.turns)}: {turn.folder(root)}")

    exit_code = exit_codes.DONE
    try:
        play_campaign(player, progress, resume=args.resume, on_turn=on_turn)
    finally:
        if progress.outcomes:
            exit_code = _show_campaign(progress, args)
    return exit_codes.FAILED if progress.complete < len(progress.outcomes) else exit_code


def _show_campaign(progress: CampaignProgress, args: argparse.Namespace) -> int:
    from emulator.plugins import PluginKind, load
    from emulator.views.terminal.campaign_table import render

    found, plain = load(PluginKind.HOOKS, "campaign_sets")(progress), progress.to_plain()
    if args.json:
        print_json(plain | found.to_json())
    else:
        print_tables(*found.verdicts(), render(plain["runs"]), "", *found.lines(), progress.advice)
    return int(found.exit_code)
