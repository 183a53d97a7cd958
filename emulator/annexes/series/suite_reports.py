"""What a suite leaves next to its runs: report.html, junit.xml, and conformance.json if it has clauses.

The page has the answer, a row per case, every check behind it, and what the suite does not cover. A clause is met by
cases that carry it out and pass, or by what Charkha always does; the suite says which. A clause that Charkha cannot
carry out is listed as not met, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from junitparser import TestCase, TestSuite

from emulator.annexes.series.suite_document import ClauseSection
from emulator.annexes.series.suite_record import CaseRecord, Check, RunRecord, SetRecord, SuiteRecord
from emulator.annexes.series.suite_table import (
    RESULTS,
    Records,
    cases_of,
    check_uncertainty_cell,
    columns_of,
    is_one,
    load_text,
    outcome_of,
    text_of,
)
from emulator.host.files import write_json, write_text
from emulator.results.run_folder.manifest import REPORT
from emulator.results.statistics.metric import Unit
from emulator.results.verdict.judge import Outcome
from emulator.views.columns.columns import Column, Header
from emulator.views.columns.figures import NONE, count_of
from emulator.views.columns.uncertainty_columns import StatedFigure, sources
from emulator.views.html.page.document import (
    Answer,
    Block,
    Facts,
    Page,
    PageSection,
    Table,
    Text,
    link_to,
    render,
    table_of,
)
from emulator.views.html.sections.overview import TONES
from emulator.views.junit import add_properties, result_of, to_text
from emulator.views.verdict_text import metric_cell

JUNIT, CONFORMANCE = "junit.xml", "conformance.json"


def write_reports(records: Records, root: Path) -> None:
    """Write them into the folder of each suite; those of an earlier part are replaced.

    Raises:
        HostError: a file cannot be written.
    """
    for group, record in records.items():
        folder = root / group
        write_text(folder / REPORT, render(report_page(record, folder, folder)))
        write_text(folder / JUNIT, suite_to_xml(record))
        if record.clauses:
            write_json(folder / CONFORMANCE, conformance_to_json(record))
    if not is_one(records):
        write_text(root / REPORT, render(profiles_page(records)))


def report_page(record: SuiteRecord, folder: Path, place: Path) -> Page:
    """The page of the suite in `folder`, in the folder `place`: with links to the reports of its cases."""
    links = {}
    for one in record.cases:
        runs = [one.name, *(run.folder for run in (one.decisive,) if run is not None)]  # a session has its own
        links[one.name] = next(filter(None, (link_to(folder / run / REPORT, place) for run in runs)), "")
    return suite_page(record, links=links)


def suite_to_xml(record: SuiteRecord) -> str:
    """The document: FAIL is a failure; TESTER-LIMITED and UNDECIDED are skipped cases with their reason."""
    suite = TestSuite(f"charkha suite {record.suite}")
    suite.timestamp = record.started
    suite.add_property("outcome", record.outcome.value)
    suite.add_property("not_played", str(record.left))
    for one in record.cases:
        suite.add_testcase(_case(one, record))
    return to_text("charkha suite", [suite])


def _case(one: CaseRecord, record: SuiteRecord) -> TestCase:
    case = TestCase(one.name, f"charkha.suite.{record.suite}")
    case.result = result_of(one.outcome, one.text)
    figures = {name: getattr(one, name) for name in ("clause", "metric", "value", "unit")}
    runs = " ".join(run.run_id for run in one.runs if run.run_id is not None)
    add_properties(case, {"outcome": one.outcome.value, **figures, "jobs": " ".join(one.jobs) or None, "run_ids": runs})
    return case


_CHECKS: tuple[Column[Check], ...] = (
    Column("verdict", cell=lambda one: one.outcome.value, is_number=False),
    Column("metric", cell=lambda one: one.metric, is_number=False),
    Column("of", cell=lambda one: one.about or NONE, is_number=False),
    Column("value", cell=lambda one: metric_cell(one.value, Unit(one.unit))),
    Column("± U", "expanded uncertainty of the value (k = 2)", cell=check_uncertainty_cell),
    Column("rule", cell=lambda one: one.bound, is_number=False),
)
_TRIALS = ("load", "verdict", "why", "run folder")


def suite_page(record: SuiteRecord, *, links: Mapping[str, str] | None = None) -> Page:
    """The page.

    Args:
        record: the result.
        links: case → where its report is, for the page.
    """
    firmware = sorted({run.firmware for case in record.cases for run in case.runs if run.firmware})
    labels = [record.started[:16].replace("T", " "), record.topology or "", *firmware]
    return Page(
        title=f"{record.suite} · charkha suite",
        heading=record.suite,
        sentence=_sentence(record),
        labels=[one for one in labels if one],
        warnings=[f"{record.left} of {count_of(record.planned, 'case')} not played."] if record.left else [],
        sections=[
            _overview(record, links or {}),
            *_clauses(record),
            *map(_case_row, record.cases),
            *_method(record),
        ],
        footer="Written by charkha suite. The folder of each case is a run folder with its own data.",
        answer=Answer(record.outcome.value, record.text, TONES.get(record.outcome, "open")),
    )


def profiles_page(records: Records) -> Page:
    """The page of a suite with several profiles: a row per case, a cell per profile, and what changed."""
    first, outcome, text = next(iter(records.values())), outcome_of(records), text_of(records)
    table = table_of("results", "Results", columns_of(records), cases_of(records))
    return Page(
        title=f"{first.suite} · charkha suite",
        heading=f"{first.suite}: {', '.join(records)}",
        sentence=text,
        labels=[one for one in (first.started[:16].replace("T", " "), first.topology or "") if one],
        warnings=[],
        sections=[PageSection("cases", "Cases", [table], is_wide=True)],
        footer="Written by charkha suite. The folder of each profile is that of a suite, with its own report.",
        answer=Answer(outcome.value, text, TONES.get(outcome, "open")),
    )


def _sentence(record: SuiteRecord) -> str:
    counts = {outcome: sum(one.outcome is outcome for one in record.cases) for outcome in Outcome}
    listed = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    played = f"{count_of(record.planned, 'case')}: {listed or 'none was played'}."
    return " ".join(filter(None, [_sentence_case(record.description), played]))


def _sentence_case(text: str) -> str:
    """The text as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""


def _overview(record: SuiteRecord, links: Mapping[str, str]) -> PageSection:
    found = [links.get(one.name, "") for one in record.cases]
    return PageSection(
        "cases", "Cases", [table_of("results", "Results", RESULTS, record.cases, links=found)], is_wide=True
    )


def _clauses(record: SuiteRecord) -> Iterator[PageSection]:
    if record.clauses:
        rows = [list(one) for one in conformance(record)]
        headers = [Header(name, is_number=False) for name in ("clause", "requirement", "status", "why")]
        yield PageSection("conformance", "Conformance", [Table("clauses", record.source, headers, rows)], is_wide=True)


def _case_row(one: CaseRecord) -> PageSection:
    blocks: list[Block] = [Text(f"{one.name}-answer", f"{one.outcome.value}: {one.text}.")]
    if any(run.load is not None for run in one.runs):
        blocks.append(_trials(one))
    elif one.as_one is not None:
        blocks += [_checks_as_one(one, one.as_one), _runs(one)]
    else:
        blocks += [_checks(one, run) for run in one.runs if run.checks]
    about = " ".join(filter(None, [_sentence_case(one.about), _clause(one)]))
    return PageSection(f"case-{one.name}", one.name, blocks, about)


def _clause(one: CaseRecord) -> str:
    return "" if one.clause is None else f"Clause {one.clause}."


def _checks(one: CaseRecord, run: RunRecord) -> Table:
    of_job = "" if run.job is None else f"-{run.job}"
    title = "Checks" if run.job is None else f"Checks of job {run.job}"
    return table_of(f"{one.name}-checks{of_job}", title, _CHECKS, run.checks, f"Run {run.run_id} in {run.folder}")


def _checks_as_one(one: CaseRecord, runs: SetRecord) -> Table:
    figures = [
        StatedFigure(check.about, check.metric, check.uncertainty, Unit(check.unit))
        for check in runs.checks
        if check.uncertainty is not None
    ]
    about = f"Over {runs.runs} runs. {sources(figures)}".strip()
    return table_of(f"{one.name}-checks", "Checks", _CHECKS, runs.checks, about)


def _runs(one: CaseRecord) -> Table:
    rows = [[run.folder, run.outcome.value, run.why] for run in one.runs]
    headers = [Header(name, is_number=False) for name in ("run folder", "verdict of the run alone", "why")]
    return Table(f"{one.name}-runs", "Runs", headers, rows)


def _trials(one: CaseRecord) -> Table:
    rows = [[load_text(run.load, one.unit), run.outcome.value, run.why, run.folder] for run in one.runs]
    rows += [
        [load_text(runs.load, one.unit), runs.outcome.value, runs.why, f"{runs.runs} runs as one"] for runs in one.sets
    ]
    return Table(f"{one.name}-trials", "Trials", [Header(name, is_number=name == "load") for name in _TRIALS], rows)


def _method(record: SuiteRecord) -> Iterator[PageSection]:
    facts = [("Source", record.source), ("Topology", record.topology or "loopback"), ("Started", record.started)]
    facts += [("Not covered", one) for one in record.not_covered]
    yield PageSection("method", "Method", [Facts("method-facts", "Suite", [one for one in facts if one[1]])])


MET, NOT_MET = "met", "not met"


class Conformance(NamedTuple):
    """A clause, whether it is met, and why."""

    clause: str
    title: str
    status: str
    why: str


def conformance(record: SuiteRecord) -> list[Conformance]:
    """Every clause of a suite, in its order."""
    return [Conformance(one.clause, one.title, *_judge(one, record)) for one in record.clauses]


def conformance_to_json(record: SuiteRecord) -> dict[str, Any]:
    """The document: the source, and every clause."""
    return {
        "charkha_conformance": 1,
        "suite": record.suite,
        "source": record.source,
        "started": record.started,
        "clauses": [one._asdict() for one in conformance(record)],
    }


def _judge(one: ClauseSection, record: SuiteRecord) -> tuple[str, str]:
    if one.cases is None:
        return (MET, one.met) if one.met is not None else (NOT_MET, one.not_met or "")
    missing = "; ".join(_missing(one.cases, record))
    if missing:
        return NOT_MET, missing
    return MET, f"{count_of(len(one.cases), 'case')} passed: {', '.join(one.cases)}"


def _missing(names: Sequence[str], record: SuiteRecord) -> Iterator[str]:
    found = {case.name: case for case in record.cases}
    for name in names:
        if name not in found:
            yield f"{name} was not played"
        elif found[name].outcome is not Outcome.PASS:
            yield f"{name} is {found[name].outcome.value}: {found[name].text}"
