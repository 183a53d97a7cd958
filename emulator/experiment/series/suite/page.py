"""The report of a suite: the answer, a row per case, every check behind it, and what the suite does not cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from emulator.experiment.series.suite.conformance import conformance
from emulator.experiment.series.suite.document import ClauseSection
from emulator.experiment.series.suite.record import CaseRecord, Check, RunRecord, SuiteRecord
from emulator.experiment.series.suite.table import RESULTS, load_text
from emulator.results.statistics.metric import Unit
from emulator.results.verdict.judge import Outcome
from emulator.views.columns.columns import Column, Header
from emulator.views.columns.figures import NONE, count_of
from emulator.views.html.page.document import Answer, Block, Facts, Page, PageSection, Table, Text, table_of
from emulator.views.html.sections.verdict import TONES
from emulator.views.text.verdict_text import metric_cell

_CHECKS: tuple[Column[Check], ...] = (
    Column("verdict", cell=lambda one: one.outcome.value, is_number=False),
    Column("metric", cell=lambda one: one.metric, is_number=False),
    Column("of", cell=lambda one: one.about or NONE, is_number=False),
    Column("value", cell=lambda one: metric_cell(one.value, Unit(one.unit))),
    Column("rule", cell=lambda one: one.bound, is_number=False),
)
_TRIALS = ("load", "verdict", "why", "run folder")


def suite_page(
    record: SuiteRecord, clauses: Sequence[ClauseSection] = (), *, reports: Mapping[str, str] | None = None
) -> Page:
    """The page.

    Args:
        record: the result.
        clauses: of the document that the suite follows.
        reports: case -> path of its report, relative to the page.
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
            _overview(record, reports or {}),
            *_clauses(clauses, record),
            *map(_case, record.cases),
            *_method(record),
        ],
        footer="Written by charkha suite. The folder of each case is a run folder with its own data.",
        answer=Answer(record.outcome.value, record.text, TONES.get(record.outcome, "open")),
    )


def _sentence(record: SuiteRecord) -> str:
    counts = {outcome: sum(one.outcome is outcome for one in record.cases) for outcome in Outcome}
    listed = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    return f"{_sentence_case(record.description)} {count_of(record.planned, 'case')}: {listed or 'none was played'}."


def _sentence_case(text: str) -> str:
    """The text as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""


def _overview(record: SuiteRecord, reports: Mapping[str, str]) -> PageSection:
    links = [quote(reports.get(one.name, "")) for one in record.cases]
    return PageSection(
        "cases", "Cases", [table_of("results", "Results", RESULTS, record.cases, links=links)], is_wide=True
    )


def _clauses(clauses: Sequence[ClauseSection], record: SuiteRecord) -> Iterator[PageSection]:
    if clauses:
        rows = [list(one) for one in conformance(clauses, record)]
        headers = [Header(name, is_number=False) for name in ("clause", "requirement", "status", "why")]
        yield PageSection("conformance", "Conformance", [Table("clauses", record.source, headers, rows)], is_wide=True)


def _case(one: CaseRecord) -> PageSection:
    blocks: list[Block] = [Text(f"{one.name}-answer", f"{one.outcome.value}: {one.text}.")]
    if any(run.load is not None for run in one.runs):
        blocks.append(_trials(one))
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


def _trials(one: CaseRecord) -> Table:
    rows = [
        [
            load_text(run.load, one.unit),
            run.outcome.value,
            run.why,
            run.folder,
        ]
        for run in one.runs
    ]
    return Table(f"{one.name}-trials", "Trials", [Header(name, is_number=name == "load") for name in _TRIALS], rows)


def _method(record: SuiteRecord) -> Iterator[PageSection]:
    facts = [("Source", record.source), ("Topology", record.topology or "loopback"), ("Started", record.started)]
    facts += [("Not covered", one) for one in record.not_covered]
    yield PageSection("method", "Method", [Facts("method-facts", "Suite", [one for one in facts if one[1]])])
