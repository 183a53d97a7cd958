"""`charkha runs`: the run folders below a root: list, look, prune."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options.arguments import argument, at_least
from emulator.errors import InputError
from emulator.run_folder.pruning import plan_removal, remove
from emulator.run_folder.record import read_run
from emulator.run_folder.store import RUNS, STATUSES, RunFilter, StoredRun, list_runs, stored_run
from emulator.statistics.distribution import distributions
from emulator.statistics.measurements import measurements
from emulator.statistics.stragglers import lateness
from emulator.statistics.summary import summarise
from emulator.views.terminal.console import console
from emulator.views.terminal.store_table import (
    render_removals,
    render_runs,
    render_statistics,
    runs_to_json,
    statistics_to_json,
)
from emulator.views.terminal.summary_table import render, to_json
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_AGO = re.compile(r"(\d{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_EXAMPLE = """example:
  charkha runs list --firmware '2.1*' --since 7d
  charkha runs show runs/20260102-030405-transformer-8r
  charkha runs prune --status aborted --until 30d        says what would go; --yes removes it

The folders are the store: copy, move and delete them as you like. docs/runs.md has queries over many runs.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `runs` to the command line."""
    parser = subparsers.add_parser(
        "runs",
        help="list, show and prune run folders",
        description="List, show and prune the run folders below a root.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=list_command, root=RUNS, json=False, **dataclasses.asdict(RunFilter()))
    actions = parser.add_subparsers(title="actions", metavar="ACTION", help="default: list")
    _add_list(actions)
    _add_show(actions)
    _add_prune(actions)


def _add_list(actions: Subparsers) -> None:
    parser = actions.add_parser("list", help="the runs below a root, newest first")
    parser.add_argument("root", metavar="ROOT", nargs="?", type=Path, default=RUNS, help="default: runs")
    _add_filters(parser)
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.set_defaults(handler=list_command)


def _add_show(actions: Subparsers) -> None:
    parser = actions.add_parser("show", help="one run: its table, percentiles, stragglers")
    parser.add_argument("run", metavar="RUN", type=Path, help="a run folder")
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.set_defaults(handler=show_command)


def _add_prune(actions: Subparsers) -> None:
    parser = actions.add_parser("prune", help="remove run folders; without --yes only says which")
    parser.add_argument("runs", metavar="RUN", nargs="*", type=Path, help="run folders (default: those of the filters)")
    parser.add_argument("--root", type=Path, default=RUNS, help="where filters look (default: runs)")
    _add_filters(parser)
    parser.add_argument("--keep", metavar="N", type=at_least(0), default=0, help="but not the N newest of them")
    parser.add_argument("--yes", action="store_true", help="remove them")
    parser.set_defaults(handler=prune_command)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("filters (patterns as in file names)")
    group.add_argument("--trace", metavar="PATTERN", help="path or name of the trace, or the beginning of its digest")
    group.add_argument("--dut", metavar="PATTERN", help="vendor, model, name or kind of the device under test")
    group.add_argument("--firmware", metavar="PATTERN", help="its firmware, or the name of its profile")
    when = argument(_moment)
    group.add_argument(
        "--since",
        metavar="WHEN",
        type=when,
        help="began then or later: 2026-01-31, 2026-01-31T18:00, 12h, 7d or 2w ago",
    )
    group.add_argument("--until", metavar="WHEN", type=when, help="began before")
    group.add_argument("--status", choices=STATUSES)


def _moment(text: str) -> datetime:
    ago = _AGO.fullmatch(text)
    now = datetime.now().astimezone()
    try:
        if ago:
            return now - timedelta(hours=int(ago[1]) * _HOURS[ago[2]])
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r}: write a date as 2026-01-31 or 2026-01-31T18:00, or 12h, 7d, 2w ago") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)


def _filter(args: argparse.Namespace) -> RunFilter:
    return RunFilter(args.trace, args.dut, args.firmware, args.since, args.until, args.status)


def list_command(args: argparse.Namespace) -> int:
    """List runs; prints a table, or JSON.

    Raises:
        InputError: the root is no folder.
    """
    runs = list_runs(args.root, _filter(args))
    if args.json:
        print(json.dumps(runs_to_json(runs), indent=2))
    elif runs:
        print(render_runs(runs, args.root))
    else:
        print(f"no such run below {visible(str(args.root))}")
    return 0


def show_command(args: argparse.Namespace) -> int:
    """Show a run; prints tables, or JSON.

    Raises:
        ResultError: it is no run folder, or a damaged one.
    """
    run = read_run(args.run)
    summary, found = summarise(run), measurements(run)
    classes, late = distributions(found), [lateness(run, "post"), lateness(run, "done")]
    if args.json:
        statistics = statistics_to_json(classes, late, incomplete=found.incomplete)
        print(json.dumps(to_json(summary) | {"run_folder": str(run.folder), "statistics": statistics}, indent=2))
        return 0
    out = console()
    out.print(render(summary, width=out.width))
    out.print()
    out.print(render_statistics(classes, late, incomplete=found.incomplete))
    return 0


def prune_command(args: argparse.Namespace) -> int:
    """Say which runs would be removed, or remove them.

    Raises:
        InputError: neither runs nor filters were given.
        HostError: a folder cannot be removed.
    """
    removals = plan_removal(_chosen(args)[args.keep :])
    if args.yes:
        for one in removals:
            if one.kept_because is None:
                remove(one)
    console().print(render_removals(removals, is_done=args.yes))
    return 0


def _chosen(args: argparse.Namespace) -> list[StoredRun]:
    """Newest first."""
    which = _filter(args)
    if args.runs:
        if not which.is_empty:
            raise InputError("give run folders or filters, not both")
        runs = {folder.absolute(): stored_run(folder) for folder in args.runs}
        return sorted(runs.values(), key=lambda run: -(run.created.timestamp() if run.created else 0))
    if which.is_empty and not args.keep:
        raise InputError("name run folders, a filter or --keep N: all runs at once are not pruned")
    return list_runs(args.root, which)
