"""Runs of the same job as one: their verdict, what their figures are over all of them, and how far off these may be.

For `charkha runs judge` and `charkha report` of a folder of runs, and for campaigns, suites and sweeps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from emulator import exit_codes
from emulator.cli.output import notify, print_json, print_tables
from emulator.errors import InputError
from emulator.experiment.series import CampaignProgress
from emulator.results.comparison.comparability import check_comparability
from emulator.results.comparison.groups import ExcludedRun, read_groups
from emulator.results.comparison.uncertainty import over_runs
from emulator.results.run_folder.manifest import REPORT, RunFigures
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.session import is_session
from emulator.results.run_folder.store import find_runs, is_run_folder
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.uncertainty import Budget
from emulator.results.verdict.judge import Verdict, gravest, judge
from emulator.results.verdict.rules import EXAMPLE, Rules, load_rules, rules_of
from emulator.views.as_json import verdict_to_json
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, count_of, duration_cell
from emulator.views.columns.uncertainty_columns import UNCERTAINTY_COLUMNS, StatedFigure, sources, stated_figures
from emulator.views.html.page.document import Answer, Page, PageSection, link_to, table_of
from emulator.views.html.sections.overview import answer, checks
from emulator.views.terminal import verdict_table
from emulator.views.terminal.store_table import render_uncertainty
from emulator.visible import visible

_ABOUT = (
    "Value ± U contains the true value in about 95 % of cases (GUM, coverage factor 2). Chance is in the spread of the "
    "runs; what all runs have in common, such as the clock, does not shrink with their number."
)


@dataclass(frozen=True, slots=True)
class RunSet:
    """Runs that repeat each other, at least one.

    Attributes:
        name: of the set, for people.
        summaries: of the runs, in their order.
        excluded: runs of the set that do not count.
    """

    name: str
    runs: Sequence[Run]
    summaries: Sequence[RunSummary]
    excluded: Sequence[ExcludedRun] = ()

    @classmethod
    def of(
        cls,
        runs: Sequence[Run],
        name: str = "",
        excluded: Sequence[ExcludedRun] = (),
        summaries: Sequence[RunSummary] | None = None,
    ) -> RunSet:
        """That of these runs.

        Args:
            summaries: of the runs, if they are known.

        Raises:
            ResultError: a table of a run is missing or damaged.
        """
        return cls(name, runs, summaries or [summarise(one) for one in runs], excluded)

    @property
    def rules(self) -> Rules | None:
        """Those that the first run was played with; None: it had none.

        Raises:
            InputError: they cannot be read.
        """
        return rules_of(self.runs[0])

    def judge(self, rules: Rules | None) -> Verdict:
        """All runs as one."""
        return judge(self.summaries[0], rules, others=self.summaries[1:])

    @property
    def figures(self) -> list[StatedFigure]:
        """Over all runs, each with its budget; of a single run, those of the run."""
        return list(stated_figures(*self.summaries))

    @property
    def shown(self) -> RunFigures:
        """What lists show of the runs as one, without a verdict."""
        lost = [one.totals.lost for one in self.summaries if one.totals.lost is not None]
        jct_ns = None if self.jct is None else round(self.jct.value)
        return RunFigures(verdict=None, jct_ns=jct_ns, lost=max(lost, default=None))

    @property
    def jct(self) -> Budget | None:
        """The time of an iteration over the runs, which are the units of its chance; None: no iteration counts."""
        found = [one.iteration.uncertainty["jct_ns"] for one in self.summaries if one.iteration is not None]
        return over_runs(np.array([one.value for one in found]), found) if found else None

    def to_json(self, verdict: Verdict) -> dict[str, Any]:
        """The verdict, the folders of the runs, and the budget of every figure."""
        return {
            **verdict_to_json(verdict),
            "text": f"{self._answer(verdict).word}: {self._answer(verdict).text}",
            "runs": [str(one.folder) for one in self.runs],
            "excluded": [{"run": str(one.folder), "reason": one.reason} for one in self.excluded],
            "uncertainty": [
                {"of": one.of, "figure": one.figure, "unit": one.unit.value, **asdict(one.budget)}
                for one in self.figures
            ],
        }

    def _answer(self, verdict: Verdict) -> Answer:
        if verdict.rules is not None:
            return answer(verdict)
        return Answer(
            "Played", f"{count_of(len(self.runs), 'run')}, {_jct_text('an iteration takes', self.jct)}", "open"
        )

    def page(self, place: Path) -> Page:
        """The page, in the folder `place`: the verdict, the runs with links to their reports, and the budgets."""
        verdict, figures = self.judge(self.rules), self.figures
        links = [link_to(one.folder / REPORT, place) for one in self.runs]
        budgets = table_of("uncertainty", "Uncertainty", UNCERTAINTY_COLUMNS, figures, sources(figures))
        rows = list(zip(self.runs, self.summaries, strict=True))
        return Page(
            title=f"{self.name} · charkha",
            heading=f"{self.name}: {count_of(len(self.runs), 'run')} of the same job",
            sentence=f"{_jct_text('An iteration takes', self.jct)}.",
            labels=[count_of(len(self.runs), "run"), self.runs[0].manifest.created.replace("T", " ")[:19]],
            warnings=[f"{one.folder.name} does not count: {one.reason}." for one in self.excluded],
            sections=[
                *checks(verdict),
                PageSection("figures", "Figures over the runs", [budgets], _ABOUT, is_wide=True),
                PageSection("runs", "Runs", [table_of("run-table", "Runs", _RUNS, rows, links=links)]),
            ],
            footer="Written by charkha report. The folder of each run has its own data.",
            answer=self._answer(verdict),
        )


def stated_cell(budget: Budget | None, cell: Callable[[float], str]) -> str:
    """U of a figure, `not stated`, or a dash if there is no figure."""
    return NONE if budget is None else "not stated" if budget.expanded is None else cell(budget.expanded)


_Row = tuple[Run, RunSummary]


def _median(row: _Row) -> Budget | None:
    return None if row[1].iteration is None else row[1].iteration.uncertainty["jct_ns"]


_RUNS: tuple[Column[_Row], ...] = (
    Column("run", "its folder", cell=lambda row: visible(row[0].folder.name), is_number=False),
    Column("began", cell=lambda row: row[0].manifest.created.replace("T", " ")[:19], is_number=False),
    Column("iterations", "measured", cell=lambda row: str(row[1].trials.included)),
    Column(
        "JCT",
        "median time of an iteration of this run",
        cell=lambda row: NONE if (one := _median(row)) is None else duration_cell(one.value),
        style=bold,
    ),
    Column(
        "± U",
        "expanded uncertainty of the run's own median (k = 2)",
        cell=lambda row: stated_cell(_median(row), duration_cell),
    ),
)


def read_set(argument: str) -> RunSet:
    """The runs that an argument matches, as a group of `charkha compare`.

    Raises:
        InputError: there are none, or they do not repeat each other.
        ResultError: one is damaged, or none is complete.
    """
    (group,) = read_groups([argument])
    if refused := check_comparability([group]).refused:
        raise InputError(f"{argument}: its runs do not repeat each other: {' | '.join(map(str, refused))}")
    return RunSet.of([read_run(one.folder) for one in group.runs], group.name, group.excluded)


def judge_set(args: argparse.Namespace) -> int | None:
    """`charkha runs judge` of a folder or a pattern of runs; returns the exit code, None: it is a single run.

    Raises:
        InputError, ResultError: as for `read_set`, or the rules cannot be read.
    """
    path: Path = args.run
    is_many = path.is_dir() or any(letter in str(path) for letter in "*?[")
    if not is_many or is_run_folder(path) or is_session(path):
        return None
    found = read_set(str(path))
    for one in found.excluded:
        notify(f"{one.folder} does not count: {one.reason}")
    verdict = found.judge(load_rules(args.rules) if args.rules else found.rules or load_rules(EXAMPLE))
    if args.explain:
        print_tables(render_uncertainty(found.figures))
    elif args.json:
        print_json(found.to_json(verdict))
    else:
        print_tables(verdict_table.render(verdict))
    return verdict.exit_code


def set_in(folder: Path) -> RunSet | None:
    """The runs below a folder that is no run itself; None: there are none.

    Raises:
        InputError, ResultError: as for `read_set`.
    """
    if is_run_folder(folder) or is_session(folder) or not folder.is_dir() or not any(True for _ in find_runs(folder)):
        return None
    return read_set(str(folder))


@dataclass(frozen=True, slots=True)
class CampaignSets:
    """The complete runs of a campaign: group → those of it, with their verdict by the rules that they were played with.

    Attributes:
        groups: only those with a complete run.
    """

    groups: Mapping[str, tuple[RunSet, Verdict]]

    @property
    def exit_code(self) -> int:
        """That of the gravest verdict; 0 without rules."""
        found = [verdict.outcome for _, verdict in self.groups.values() if verdict.rules is not None]
        return gravest(found).exit_code if found else exit_codes.DONE

    def verdicts(self) -> Iterator[RenderableType]:
        """A line per group, then an empty one; nothing without rules."""
        judged = {group: verdict for group, (_, verdict) in self.groups.items() if verdict.rules is not None}
        for group, verdict in judged.items():
            yield Text.assemble(visible(f"{group}: " if group else ""), verdict_table.render_headline(verdict))
        if judged:
            yield Text()

    def lines(self) -> Iterator[str]:
        """The time of an iteration over the runs, a line per group."""
        for group, (found, _) in self.groups.items():
            yield _jct_text(f"JCT over the runs{visible(group and f' of {group}')}:", found.jct)

    def to_json(self) -> dict[str, Any]:
        """`jct` and `sets` of every group; times in ns."""
        jct = {group or None: found.jct for group, (found, _) in self.groups.items()}
        return {
            "jct": [{"group": group, **asdict(budget)} for group, budget in jct.items() if budget is not None],
            "sets": [
                {"group": group or None, **found.to_json(verdict)} for group, (found, verdict) in self.groups.items()
            ],
        }


def campaign_sets(progress: CampaignProgress) -> CampaignSets:
    """What the complete runs of a campaign come to.

    Raises:
        ResultError: a run cannot be read.
        InputError: the rules of a run cannot be read.
    """
    runs: dict[str, list[Run]] = {}
    for one in progress.outcomes:
        if one.played is not None and one.played.is_run:
            runs.setdefault(one.turn.group, []).append(one.played.run)
    sets = {group: RunSet.of(each, group) for group, each in runs.items()}
    return CampaignSets({group: (one, one.judge(one.rules)) for group, one in sets.items()})


def _jct_text(begin: str, jct: Budget | None) -> str:
    """`JCT over the runs: 12.3 ms ± 40 µs (k = 2)`, or why U is not stated."""
    if jct is None:
        return f"{begin} not measured"
    if jct.expanded is None:
        return f"{begin} {duration_cell(jct.value)} U not stated: {jct.why}"
    return f"{begin} {duration_cell(jct.value)} ± {duration_cell(jct.expanded)} (k = {jct.k})"
