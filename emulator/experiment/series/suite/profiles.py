"""A suite with several firmware profiles: in turns, a suite folder for each below one root, and one page of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text as Line

from emulator.experiment.series.suite.document import Suite
from emulator.experiment.series.suite.listing import outcome_column
from emulator.experiment.series.suite.record import CaseRecord, SuiteRecord
from emulator.experiment.series.suite.reports import REPORT
from emulator.experiment.series.suite.runner import play_suite
from emulator.experiment.series.turns import Play
from emulator.host.files import write_text
from emulator.results.run_folder.claim import claimed
from emulator.results.verdict.judge import Outcome, gravest
from emulator.views.columns.columns import Column
from emulator.views.columns.figures import NONE, count_of
from emulator.views.columns.verdict_columns import STYLES
from emulator.views.html.page.document import Answer, Page, PageSection, render, table_of
from emulator.views.html.sections.verdict import TONES
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

Records = Mapping[str, SuiteRecord]
"""Group of a profile → the result of its suite."""


def play_profiles(
    suites: Mapping[str, Suite], root: Path, play: Play, *, resume: bool, on_run: Callable[[str, int, Path], None]
) -> Iterator[Records]:
    """Play every case with each profile before the next case; yields the results so far.

    Args:
        suites: group of a profile → the suite with it.
        root: each group gets the folder of a suite below it.
        play: plays one run, or one session.
        resume: continue in a root with suites of these profiles.
        on_run: called before each run with the group, the number of the case, from 1, and the folder.

    Raises:
        EmulatorError, KeyboardInterrupt: as `play_suite`.
    """
    records: dict[str, SuiteRecord] = {}
    with claimed(root, is_new=not resume), ExitStack() as stack:
        playing = {
            group: stack.enter_context(
                closing(play_suite(suite, root / group, play, resume=resume, on_run=partial(on_run, group)))
            )
            for group, suite in suites.items()
        }
        for _ in range(1 + max(len(suite.cases) for suite in suites.values())):
            for group, results in playing.items():
                records[group] = next(results)
                yield dict(records)


def outcome_of(records: Records) -> Outcome:
    """The gravest of all profiles."""
    return gravest(one.outcome for one in records.values())


def profiles_to_json(records: Records) -> dict[str, Any]:
    """The outcome, what changed with the profile by case, and the result of every profile."""
    return {
        "outcome": outcome_of(records).value,
        "changes": {name: changes(records, name) for name in _cases(records)},
        "profiles": {group: one.to_plain() for group, one in records.items()},
    }


def changes(records: Records, case: str) -> list[str]:
    """What another profile changes against the first one: the outcome, or the figure that decides."""
    first, *others = ({one.name: one for one in record.cases}.get(case) for record in records.values())
    groups = list(records)[1:]
    return [
        f"{group}: {text}"
        for group, other in zip(groups, others, strict=True)
        if first is not None and other is not None and (text := _change(first, other))
    ]


def _change(first: CaseRecord, other: CaseRecord) -> str:
    if other.outcome is not first.outcome:
        return f"{first.outcome.value} → {other.outcome.value}"
    if not first.value or other.value is None or first.metric != other.metric or first.value == other.value:
        return ""
    return f"{first.metric} {other.value / first.value - 1:+.1%}"


def profiles_page(records: Records) -> Page:
    """The page: a row per case, a cell per profile, and what changed."""
    first, outcome = next(iter(records.values())), outcome_of(records)
    return Page(
        title=f"{first.suite} · charkha suite",
        heading=f"{first.suite}: {', '.join(records)}",
        sentence=_sentence(records),
        labels=[one for one in (first.started[:16].replace("T", " "), first.topology or "") if one],
        warnings=[],
        sections=[
            PageSection(
                "cases", "Cases", [table_of("results", "Results", _columns(records), _cases(records))], is_wide=True
            )
        ],
        footer="Written by charkha suite. The folder of each profile is that of a suite, with its own report.",
        answer=Answer(outcome.value, _sentence(records), TONES.get(outcome, "open")),
    )


def write_profiles_page(records: Records, root: Path) -> None:
    """Write it into the root.

    Raises:
        HostError: it cannot be written.
    """
    write_text(root / REPORT, render(profiles_page(records)))


def render_profiles(records: Records, root: Path) -> Sequence[RenderableType]:
    """The answer, a row per case, and where everything is."""
    outcome = outcome_of(records)
    answer = Line.assemble((outcome.value, STYLES[outcome]), f": {visible(_sentence(records))}")
    cases = _cases(records)
    table: list[RenderableType] = [Line(), FittedTable(_columns(records), cases)] if cases else []
    return [answer, *table, f"Folder of the suites, with report.html: {visible(str(root))}"]


def _sentence(records: Records) -> str:
    altered = [name for name in _cases(records) if any(" → " in one for one in changes(records, name))]
    verdicts = f"the verdict of {', '.join(altered)} changes" if altered else "no verdict changes"
    left = sum(one.left for one in records.values())
    missing = f"{count_of(left, 'case')} not played" if left else ""
    return "; ".join(filter(None, [f"{verdicts} with the profile" if _cases(records) else "", missing]))


def _cases(records: Records) -> list[str]:
    return list(dict.fromkeys(case.name for record in records.values() for case in record.cases))


def _columns(records: Records) -> list[Column[str]]:
    first: Column[str] = Column("case", "name of the case, and of its folder", cell=lambda name: name, is_number=False)
    change: Column[str] = Column(
        "change",
        "against the first profile: another verdict, or the figure that decides (one run each)",
        cell=lambda name: "; ".join(changes(records, name)) or NONE,
        is_number=False,
        folds=30,
    )
    return [first, *(outcome_column(group, record) for group, record in records.items()), change]
