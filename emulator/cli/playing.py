"""Play an experiment, with progress on stderr and the result on stdout: for `run`, `bench` and `controller`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from emulator import exit_codes
from emulator.cli.output import notify, print_json, print_tables
from emulator.errors import InputError, RunInterrupted
from emulator.experiment.spec.spec import Experiment

if TYPE_CHECKING:
    from emulator.cli.parser import Parser
    from emulator.experiment.play.live_address import LiveAddress
    from emulator.experiment.play.outcome import Outcome
    from emulator.experiment.series.campaign import CampaignProgress
    from emulator.experiment.settle.workload import LoadedJob
    from emulator.results.run_folder.reader import Run
    from emulator.results.verdict.judge import Verdict


_MOST_CLASSES = 40
"""Classes that a run prints: requests of inference have a size each."""


def add_output_options(parser: Parser) -> None:
    """Add the options for the run folder and the output."""
    from emulator.cli.options.converters import argument
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
    # These imports take most of a second, which --help does not need.
    from emulator.experiment.play.play import has_samples, name_of, new_run_folder
    from emulator.experiment.settle.workload import load_job
    from emulator.experiment.spec.document import to_yaml
    from emulator.results.run_folder.places import check_folder
    from emulator.results.run_folder.reader import read_run
    from emulator.results.verdict.rules import load_rules

    if args.print_spec:
        print(to_yaml(experiment), end="")
        return 0
    if args.out is not None:
        check_folder(args.out, "--out")
    if experiment.observe.expect is not None:
        load_rules(experiment.observe.expect)  # refused before any traffic
    if len(experiment.jobs) > 1:
        from emulator.cli.playing_sessions import play_and_show_session

        return play_and_show_session(experiment, args)
    if getattr(args, "solo", False):
        raise InputError("--solo is for several jobs: this one is alone as it is")
    with contextlib.ExitStack() as stack:
        with status() as on_step:
            job = stack.enter_context(load_job(experiment.job, on_step=on_step))
        notify_of_import(job)
        folder = args.out or new_run_folder(name_of(experiment))
        play_one = partial(play_job, job, live=args.live)
        if experiment.campaign is not None:
            return _play_campaign(experiment, play_one, job, folder, args)
        try:
            run = play_one(experiment, folder)
        except RunInterrupted:
            if has_samples(folder):
                _show(read_run(folder), experiment, args)
            raise
        verdict = _show(run, experiment, args)
    return verdict.exit_code if experiment.observe.expect is not None else exit_codes.DONE


def notify_of_import(job: LoadedJob) -> None:
    """Say on stderr what the import of a trace guessed and dropped, a line for each kind."""
    for line in job.loaded.imported.lines():
        notify(line)


@contextlib.contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """A status line on stderr; yields the function that changes it."""
    from rich.console import Console
    from rich.status import Status

    with Status("", console=Console(stderr=True)) as status:
        yield status.update


def play_into(experiment: Experiment, folder: Path) -> Run:
    """Play one run into a folder; nothing goes to stdout.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    from emulator.experiment.settle.workload import load_job

    with contextlib.ExitStack() as stack:
        with status() as on_step:
            job = stack.enter_context(load_job(experiment.job, on_step=on_step))
        notify_of_import(job)
        return play_job(job, experiment, folder)


def play_job(job: LoadedJob, experiment: Experiment, folder: Path, *, live: LiveAddress | None = None) -> Run:
    """Play a run of a loaded job into a folder; progress goes to stderr.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    from emulator.experiment.play.log import RunLog
    from emulator.experiment.play.play import prepare
    from emulator.views.terminal.progress import RunProgress

    with prepare(experiment, job, notify=notify) as prepared:
        facts = prepared.facts
        progress = RunProgress(
            nodes=prepared.nodes,
            iterations=facts.iterations,
            dialling=prepared.connecting,
            address=experiment.agents.listen or "",
        )
        with progress:
            return prepared.play(folder, observers=[progress, RunLog()], live=live)


def _show(run: Run, experiment: Experiment, args: argparse.Namespace) -> Verdict:
    from emulator.experiment.play.outcome import outcome_of

    outcome = outcome_of(run, experiment.job)
    if args.json:
        print_json(outcome.to_json())
    else:
        print_outcome(outcome, args)
    return outcome.verdict


def print_outcome(outcome: Outcome, args: argparse.Namespace) -> None:
    """Print the table of a run."""
    from emulator.views.html.writing import REPORT
    from emulator.views.terminal.pair_table import render_pairs
    from emulator.views.terminal.summary_table import render, render_beside
    from emulator.views.terminal.sweep import NCCL_TESTS, render_sweep
    from emulator.views.terminal.verdict_table import render_findings, render_headline
    from emulator.views.text.verdict_text import NO_RULES, headline

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


def _play_campaign(
    experiment: Experiment,
    play_one: Callable[[Experiment, Path], Run],
    job: LoadedJob,
    root: Path,
    args: argparse.Namespace,
) -> int:
    from emulator.experiment.series.campaign import CampaignProgress, Turn, play_campaign, schedule
    from emulator.results.statistics.samples.classes import count_classes

    progress = CampaignProgress(root, schedule(experiment, classes=count_classes(job.workload)))

    def on_turn(number: int, turn: Turn) -> None:
        notify(f"run {number} of {len(progress.turns)}: {turn.folder(root)}")

    try:
        play_campaign(play_one, progress, resume=args.resume, on_turn=on_turn)
    finally:
        if progress.outcomes:
            _show_campaign(progress, args)
    return 1 if progress.complete < len(progress.outcomes) else 0


def _show_campaign(progress: CampaignProgress, args: argparse.Namespace) -> None:
    from emulator.views.terminal.campaign_table import render

    plain = progress.to_plain()
    if args.json:
        print_json(plain)
    else:
        print_tables(render(plain["runs"]), progress.advice)
