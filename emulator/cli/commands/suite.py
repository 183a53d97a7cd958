"""`charkha suite`: play the cases of a suite, each judged by its rules."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.cli.options.converters import argument
from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.parser import Parser, Subparsers
from emulator.cli.player import CommandPlayer
from emulator.errors import InputError
from emulator.experiment.series.campaign import groups_of
from emulator.experiment.series.suite.document import Suite, find_suite, read_suite
from emulator.experiment.series.suite.listing import (
    history_to_json,
    list_to_json,
    read_history,
    render_history,
    render_list,
    render_suite,
)
from emulator.experiment.series.suite.profiles import (
    Records,
    outcome_of,
    play_profiles,
    profiles_to_json,
    render_profiles,
    write_profiles_page,
)
from emulator.experiment.series.suite.reports import write_reports
from emulator.experiment.series.suite.runner import SUITES, latest_folder, play_suite
from emulator.experiment.series.suite.table import render_result
from emulator.experiment.series.turns import new_folder
from emulator.experiment.spec.spec import parse_names
from emulator.results.run_folder.places import check_folder

_EPILOG = """example:
  charkha suite run smoke

  charkha suite run sonic-ccl --topology leaf-spine.yaml --out suites/fw-2.1
  charkha suite resume sonic-ccl --topology leaf-spine.yaml --out suites/fw-2.1
  charkha suite run plan.yaml --topology leaf-spine.yaml --profiles fw-a,fw-b
  charkha suite history suites/*

Complete cases are never played twice. docs/suites.md describes the files.
exit codes: 0 all cases PASS; 5 FAIL; 6 TESTER-LIMITED; 7 UNDECIDED (the worst decides)
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `suite` and its actions to the command line."""
    parser = subparsers.add_parser(
        "suite", description="Play a test plan: a list of cases, each judged by its rules.", epilog=_EPILOG
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, (handler, summary, example) in _ACTIONS.items():
        epilog = f"example:\n  charkha suite {name} {example}\n"
        action: Parser = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.", epilog=epilog)
        action.set_defaults(handler=handler, is_resumed=name == "resume")
        if name == "history":
            action.add_argument("folders", metavar="DIR", nargs="+", type=Path, help="folders of suites")
        elif name != "list":
            action.add_argument("suite", metavar="NAME|FILE", help="a suite that Charkha ships, or a YAML file")
        if name in ("run", "resume"):
            _add_run_options(action)
            action.add_argument("--out", metavar="DIR", type=Path, help="folder (default: suites/<time>-<name>)")
        if name != "show":
            action.add_argument("--json", action="store_true", help="print the same as JSON")


def _list(args: argparse.Namespace) -> None:
    print_json(list_to_json()) if args.json else print_tables(render_list())


def _show(args: argparse.Namespace) -> None:
    print_tables(*render_suite(read_suite(find_suite(args.suite))))


def _history(args: argparse.Namespace) -> None:
    records = read_history(args.folders)
    print_json(history_to_json(records)) if args.json else print_tables(render_history(records))


def _add_run_options(action: Parser) -> None:
    action.add_argument("--topology", metavar="FILE", help="topology of all cases (default: that of each case)")
    action.add_argument("--lab", metavar="ID", help="the lab, if the topology has several")
    profiles = action.add_mutually_exclusive_group()
    profiles.add_argument("--profile", metavar="NAME|FILE", help="firmware profile of all cases")
    profiles.add_argument(
        "--profiles", metavar="A,B", type=argument(parse_names), help="play every case with each firmware profile"
    )
    action.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=argument(_parse_setting),
        help="a run spec setting of all cases, such as qps=4 (repeatable)",
    )


def _parse_setting(text: str) -> tuple[str, str]:
    """Name and value of a setting.

    Raises:
        ValueError: not of the form NAME=VALUE.
    """
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise ValueError(f"{text!r}: write NAME=VALUE")
    return name, value


def _read(args: argparse.Namespace, profile: str | None) -> Suite:
    network = {key: value for key in ("topology", "lab") if (value := getattr(args, key)) is not None}
    over = {"network": network} if network else {}
    if profile is not None:
        over["device"] = {"profile": profile}
    return read_suite(find_suite(args.suite), over=over, settings=args.set)


def _run(args: argparse.Namespace) -> int:
    suite = _read(args, args.profile)
    if args.profiles and args.is_resumed and args.out is None:
        raise InputError("--profiles needs --out DIR, the folder of the suites to resume")
    root = args.out or (latest_folder(suite.name) if args.is_resumed else new_folder(SUITES, suite.name))
    check_folder(root, "--out")
    if args.profiles:
        return _run_profiles(root, args)

    def announce(number: int, folder: Path) -> None:
        notify(f"case {number} of {len(suite.cases)}: {suite.cases[number - 1].name}, into {folder}")

    record = None
    try:
        with CommandPlayer() as player:
            for so_far in play_suite(suite, root, player, resume=args.is_resumed, on_run=announce):
                record = so_far
    finally:
        if record is not None:
            write_reports(suite, record, root)
            print_json(record.to_plain()) if args.json else print_tables(*render_result(record, root))
    return so_far.outcome.exit_code


def _run_profiles(root: Path, args: argparse.Namespace) -> int:
    suites = {group: _read(args, profile) for group, profile in groups_of(args.profiles)}

    def announce(group: str, number: int, folder: Path) -> None:
        cases = suites[group].cases
        notify(f"case {number} of {len(cases)}: {cases[number - 1].name} with {group}, into {folder}")

    records: Records = {}
    try:
        with CommandPlayer() as player:
            for so_far in play_profiles(suites, root, player, resume=args.is_resumed, on_run=announce):
                records = so_far
    finally:
        for group, record in records.items():
            write_reports(suites[group], record, root / group)
        if records:
            write_profiles_page(records, root)
            print_json(profiles_to_json(records)) if args.json else print_tables(*render_profiles(records, root))
    return outcome_of(records).exit_code


_ACTIONS = {
    "list": (_list, "list the suites that Charkha ships", "--json"),
    "show": (_show, "show the cases of a suite and their rules", "smoke"),
    "run": (_run, "play a suite into a new folder", "smoke --out suites/first"),
    "resume": (_run, "continue a suite that was interrupted", "smoke --out suites/first"),
    "history": (_history, "show the outcomes of suites over time", "suites/*"),
}
