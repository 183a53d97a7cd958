"""`charkha suite`: play the cases of a suite, each judged by its rules."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from emulator.annexes.series.record import new_folder
from emulator.annexes.series.suite_document import Case, Suite, find_suite, read_suite
from emulator.annexes.series.suite_record import SuiteRecord
from emulator.annexes.series.suite_reports import write_reports
from emulator.annexes.series.suite_runner import SUITES, latest_folder, play_suites
from emulator.annexes.series.suite_table import (
    RESULTS,
    Records,
    cases_of,
    columns_of,
    is_one,
    outcome_column,
    outcome_of,
    results_to_json,
    text_of,
)
from emulator.cli.options import add_options, given, options_at
from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.parser import Parser, Subparsers
from emulator.cli.player import CommandPlayer
from emulator.errors import InputError
from emulator.experiment.series import groups_of
from emulator.experiment.spec.parts import merge
from emulator.option import Level
from emulator.results.run_folder.places import check_folder
from emulator.shipped import shipped_suites
from emulator.views.columns.columns import Column
from emulator.views.columns.figures import NONE
from emulator.views.columns.result_columns import STYLES
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

_OF_ALL_CASES = {
    "network.topology": "topology of all cases (default: that of each case)",
    "network.lab": "the lab, if the topology has several",
    "device.profile": "firmware profile of all cases",
    "campaign.profiles": "play every case with each firmware profile",
}
OPTIONS = [
    replace(one, group="", facts=replace(one.facts, summary=text, unset="", level=Level.COMMON))
    for path, text in _OF_ALL_CASES.items()
    for one in options_at(path)
]
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
            add_options(action, OPTIONS, with_set=Level.COMMON)
            action.add_argument("--out", metavar="DIR", type=Path, help="folder (default: suites/<time>-<name>)")
        if name != "show":
            action.add_argument("--json", action="store_true", help="print the same as JSON")


def _list(args: argparse.Namespace) -> None:
    print_json(list_to_json()) if args.json else print_tables(render_list())


def _show(args: argparse.Namespace) -> None:
    print_tables(*render_suite(read_suite(find_suite(args.suite))))


def _history(args: argparse.Namespace) -> None:
    records = read_history(args.folders)
    print_json(history_to_json(records)) if args.json else print_tables(*render_histories(records))


def _read(args: argparse.Namespace, profile: str | None) -> Suite:
    over = given(args, OPTIONS)
    over.pop("campaign", None)
    return read_suite(
        find_suite(args.suite),
        over=over if profile is None else merge(over, {"device": {"profile": profile}}),
        settings=args.set,
    )


def _run(args: argparse.Namespace) -> int:
    part = given(args, OPTIONS)
    profiles = part.get("campaign", {}).get("profiles")
    if profiles and "device" in part:
        raise InputError("give --profile or --profiles, not both")
    suites = {group: _read(args, profile) for group, profile in groups_of(profiles or ())} or {"": _read(args, None)}
    name = next(iter(suites.values())).name
    if profiles and args.is_resumed and args.out is None:
        raise InputError("--profiles needs --out DIR, the folder of the suites to resume")
    root = args.out or (latest_folder(name) if args.is_resumed else new_folder(SUITES, name))
    check_folder(root, "--out")

    def announce(group: str, number: int, folder: Path) -> None:
        cases, beside = suites[group].cases, f" with {group}" if group else ""
        notify(f"case {number} of {len(cases)}: {cases[number - 1].name}{beside}, into {folder}")

    records: Records = {}
    try:
        with CommandPlayer() as player:
            for so_far in play_suites(suites, root, player, resume=args.is_resumed, on_run=announce):
                records = so_far
    finally:
        if records:
            write_reports(records, root)
            print_json(results_to_json(records)) if args.json else print_tables(*render_results(records, root))
    return outcome_of(records).exit_code


_ACTIONS = {
    "list": (_list, "list the suites that Charkha ships", "--json"),
    "show": (_show, "show the cases of a suite and their rules", "smoke"),
    "run": (_run, "play a suite into a new folder", "smoke --out suites/first"),
    "resume": (_run, "continue a suite that was interrupted", "smoke --out suites/first"),
    "history": (_history, "show the outcomes of suites over time", "suites/*"),
}


def _rules_text(one: Case) -> str:
    bound = [] if one.interference is None else [f"interference {one.interference}"]
    return "; ".join([*map(str, one.rules.rules), *bound])


_CASES: tuple[Column[Case], ...] = (
    Column("case", cell=lambda one: one.name, is_number=False),
    Column("clause", cell=lambda one: visible(one.clause or NONE), is_number=False, is_optional=True),
    Column("about", cell=lambda one: visible(one.about or NONE), is_number=False, is_optional=True, folds=30),
    Column("rules", cell=_rules_text, is_number=False, folds=30, sacrifice=1),
)
_SUITES: tuple[Column[Suite], ...] = (
    Column("suite", cell=lambda one: one.name, is_number=False),
    Column("cases", cell=lambda one: str(len(one.cases))),
    Column("description", cell=lambda one: visible(one.description), is_number=False, folds=40),
)


def list_to_json() -> list[dict[str, Any]]:
    """The suites that come with Charkha."""
    return [
        {"name": one.name, "description": one.description, "source": one.source, "cases": [c.name for c in one.cases]}
        for one in map(read_suite, shipped_suites().values())
    ]


def render_results(records: Records, folder: Path) -> Sequence[RenderableType]:
    """The answer, a row per case, and where everything is."""
    outcome = outcome_of(records)
    answer = Text.assemble((outcome.value, STYLES[outcome]), f": {visible(text_of(records))}")
    table: RenderableType
    if is_one(records):
        table, where = FittedTable(RESULTS, next(iter(records.values())).cases), "Folder of the suite"
    else:
        table, where = FittedTable(columns_of(records), cases_of(records)), "Folder of the suites, with report.html"
    return [answer, *([Text(), table] if cases_of(records) else []), f"{where}: {visible(str(folder))}"]


def render_list() -> RenderableType:
    """The suites that come with Charkha."""
    return FittedTable(_SUITES, [read_suite(path) for path in shipped_suites().values()])


def render_suite(suite: Suite) -> Sequence[RenderableType]:
    """What a suite plays, and what it does not cover."""
    about = f": {suite.description}" if suite.description else ""
    lines = [f"{suite.name}{about}", f"After: {suite.source}"][: 1 + bool(suite.source)]
    missing = [f"Not covered: {one}" for one in suite.not_covered]
    return [*map(visible, lines), FittedTable(_CASES, suite.cases), *map(visible, missing)]


def read_history(folders: Iterable[Path]) -> list[SuiteRecord]:
    """The results in folders of suites, oldest first; what was played with several profiles has a folder for each.

    Raises:
        InputError: a folder is not that of a suite.
    """
    found = (one for folder in folders for one in _folders_of_suites(folder))
    return sorted(map(SuiteRecord.read, found), key=lambda one: one.started)


def _folders_of_suites(folder: Path) -> Sequence[Path]:
    if (folder / SuiteRecord.FILE).exists():
        return [folder]
    return sorted(one.parent for one in folder.glob(f"*/{SuiteRecord.FILE}")) or [folder]


def history_to_json(records: Sequence[SuiteRecord]) -> list[dict[str, Any]]:
    """The result of every date, oldest first."""
    return [one.to_plain() for one in records]


def render_histories(records: Sequence[SuiteRecord]) -> Iterator[RenderableType]:
    """A table per suite, under its name if there are several."""
    suites = sorted({one.suite for one in records})
    for number, suite in enumerate(suites):
        if len(suites) > 1:
            yield Text(f"{visible(suite)}" if not number else f"\n{visible(suite)}", style="bold")
        yield _history_table([one for one in records if one.suite == suite])


def _history_table(records: Sequence[SuiteRecord]) -> RenderableType:
    """A row per case, a column per date."""
    names = dict.fromkeys(one.name for record in records for one in record.cases)
    first: Column[str] = Column("case", cell=lambda name: name, is_number=False)
    return FittedTable(
        [first, *(outcome_column(one.started[:16].replace("T", "\n"), one) for one in records)], list(names)
    )
