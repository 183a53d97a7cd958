"""`charkha runs`: list, show, prune and judge the run folders below a root."""

from __future__ import annotations

import argparse
import dataclasses
from datetime import datetime
from functools import partial
from pathlib import Path

from emulator import exit_codes
from emulator.cli.output import print_json, print_line, print_tables
from emulator.cli.parser import Parser, Subparsers, argument, at_least
from emulator.errors import InputError
from emulator.plugins import PluginKind, load
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.store import RUNS, STATUSES, RunFilter, choose_runs, list_runs, plan_removal, remove
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.samples.iterations import measurements
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.worst.stragglers import lateness
from emulator.results.verdict.judge import judge
from emulator.results.verdict.rules import EXAMPLE, load_rules, rules_of
from emulator.units import parse_moment
from emulator.views.as_json import result_to_json, runs_to_json, statistics_to_json, summary_to_json, verdict_to_json
from emulator.views.columns.uncertainty_columns import stated_figures
from emulator.views.terminal import verdict_table
from emulator.views.terminal.store_table import (
    render_removals,
    render_result,
    render_runs,
    render_statistics,
    render_uncertainty,
)
from emulator.views.terminal.summary_table import render

_EPILOG = """examples:
  charkha runs list --firmware '2.1*' --since 7d
  charkha runs show runs/20260102-030405-transformer-8r
  charkha runs prune --status aborted --until 30d        lists the runs; --yes removes them

There is no database: copy, move and delete run folders as you like.
docs/runs.md has queries over many runs.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `runs` to the command line."""
    parser = subparsers.add_parser(
        "runs", description="List, show or prune the run folders below a root (default ACTION: list).", epilog=_EPILOG
    )
    parser.set_defaults(handler=_list, root=RUNS, json=False, **dataclasses.asdict(RunFilter()))
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    _add_list(actions)
    _add_show(actions)
    _add_prune(actions)


def _add_list(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "list",
        help="list the runs below a root, newest first",
        description="List the runs below a root, newest first.",
        epilog="example:\n  charkha runs list --firmware '2.1*' --since 7d\n",
    )
    parser.add_argument("root", metavar="ROOT", nargs="?", type=Path, default=RUNS, help="a folder (default: runs)")
    _add_filters(parser)
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_explain("store_table")
    parser.set_defaults(handler=_list)


def _add_show(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "show",
        help="show one run: its table, percentiles, stragglers",
        description="Show one run: its table, percentiles of every class, and late ranks.",
        epilog="example:\n  charkha runs show runs/20260102-030405-transformer-8r\n",
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_explain("summary_table", "store_table", after="run")
    parser.set_defaults(handler=_show, explain=False)


def _add_prune(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "prune",
        help="remove run folders; without --yes, list what would be removed",
        description="Remove run folders. Without --yes, list what would be removed.",
        epilog="example:\n  charkha runs prune --status aborted --until 30d --yes\n",
    )
    parser.add_argument("runs", metavar="RUN", nargs="*", type=Path, help="run folders (default: those of the filters)")
    parser.add_argument("--root", metavar="DIR", type=Path, default=RUNS, help="where filters look (default: runs)")
    _add_filters(parser)
    parser.add_argument("--keep", metavar="N", type=at_least(0), default=0, help="keep the N newest of them")
    parser.add_argument("--yes", action="store_true", help="remove them")
    parser.set_defaults(handler=_prune)


def _add_filters(parser: Parser) -> None:
    group = parser.add_argument_group("filters (patterns as in file names)")
    group.add_argument("--trace", metavar="PATTERN", help="path or name of the trace, or the start of its digest")
    group.add_argument("--dut", metavar="PATTERN", help="vendor, model, name or kind of the device under test")
    group.add_argument("--firmware", metavar="PATTERN", help="firmware of the device, or the name of its profile")
    when = argument(partial(parse_moment, now=datetime.now().astimezone()))
    since = "started then or later: 2026-01-31, 2026-01-31T18:00, or 12h, 7d, 2w ago"
    group.add_argument("--since", metavar="WHEN", type=when, help=since)
    group.add_argument("--until", metavar="WHEN", type=when, help="started before then")
    group.add_argument("--status", choices=STATUSES, help="how the run ended")


def _filter(args: argparse.Namespace) -> RunFilter:
    return RunFilter(**{field.name: getattr(args, field.name) for field in dataclasses.fields(RunFilter)})


def _list(args: argparse.Namespace) -> None:
    runs = list_runs(args.root, _filter(args))
    if args.json:
        print_json(runs_to_json(runs))
    elif runs:
        print_tables(render_runs(runs, args.root))
    else:
        print_line(f"no such run below {args.root}")


def _show(args: argparse.Namespace) -> None:
    run = read_run(args.run)
    summary = summarise(run)
    if args.explain:
        print_tables(render_uncertainty(list(stated_figures(summary))))
        return
    found = measurements(run)
    manifest = dataclasses.replace(run.manifest, figures=judge(summary, rules_of(run)).figures)
    classes, late = distributions(found), [lateness(run, "post"), lateness(run, "done")]
    if args.json:
        statistics = statistics_to_json(classes, late, incomplete=found.incomplete)
        facts = {"run_folder": str(run.folder), **result_to_json(manifest), "statistics": statistics}
        print_json(summary_to_json(summary) | facts)
    else:
        statistics_table = render_statistics(classes, late, incomplete=found.incomplete)
        print_tables(render_result(manifest), "", render(summary), "", statistics_table)


def _prune(args: argparse.Namespace) -> None:
    removals = plan_removal(choose_runs(args.runs, _filter(args), root=args.root, keep=args.keep))
    if args.yes:
        for one in removals:
            if one.kept_because is None:
                remove(one)
    print_tables(render_removals(removals, is_done=args.yes))


_JUDGE_EPILOG = """example:
  charkha runs judge runs/20261121-101500-transformer-8r rules.yaml
  charkha runs judge runs/ab/fw-a rules.yaml

The first line is the verdict: PASS, FAIL, TESTER-LIMITED or UNDECIDED.
docs/expect.md describes rules and metrics.
exit codes: 0 PASS; 2 bad input; 5 FAIL; 6 TESTER-LIMITED; 7 UNDECIDED
"""


def add_judge(subparsers: Subparsers) -> None:
    """Add `judge` to the command line."""
    parser = subparsers.add_parser(
        "judge", description="Judge a run by rules: bounds on its metrics.", epilog=_JUDGE_EPILOG
    )
    several = "run folder, or a folder or a quoted pattern of runs that are judged as one"
    parser.add_argument("run", metavar="RUN", nargs="?", type=Path, help=several)
    parser.add_argument(
        "rules", metavar="RULES", nargs="?", help="rules file (default: those of the run, else the shipped `example`)"
    )
    parser.add_argument("--metrics", action="store_true", help="list all metrics and exit")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_explain("verdict_table", "store_table", after="run")
    parser.set_defaults(handler=_judge, explain=False)


def _judge(args: argparse.Namespace) -> int:
    if args.metrics:
        print(verdict_table.metrics_table())
        return exit_codes.DONE
    if args.run is None:
        raise InputError("give a run folder: charkha runs judge RUN [RULES]")
    several: int | None = load(PluginKind.HOOKS, "judge_set")(args)
    if several is not None:
        return several
    run = read_run(args.run)
    rules = load_rules(args.rules) if args.rules is not None else rules_of(run) or load_rules(EXAMPLE)
    verdict = judge(summarise(run), rules)
    if args.explain:
        print_tables(render_uncertainty(list(stated_figures(verdict.summary))))
    elif args.json:
        print_json(verdict_to_json(verdict))
    else:
        print_tables(verdict_table.render(verdict))
    return verdict.exit_code
