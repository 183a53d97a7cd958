"""Runs and comparisons as JUnit XML, for CI systems, and what documents of suites share with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from emulator.results.comparison.verdicts import ClassComparison, GroupComparison, PairComparison
from emulator.results.comparison.verdicts import ClassVerdict as ClassVerdict
from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.run_folder.reader import Run
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.verdict.judge import Outcome, Verdict, judge
from emulator.results.verdict.rules import rules_of
from emulator.units import NS_PER_S
from emulator.views.columns.comparison_columns import interval_text, p_text, ratio_text, verdict_text
from emulator.views.columns.figures import duration_cell
from emulator.views.verdict_text import describe_finding, describe_subject, headline


def to_text(name: str, suites: Iterable[TestSuite]) -> str:
    """A document with its suites and their totals, as XML."""
    document = JUnitXml(name)
    for suite in suites:
        document.add_testsuite(suite)
    document.update_statistics()
    return str(document.tostring(), "utf-8") + "\n"


def result_of(outcome: Outcome, text: str) -> list[FinalResult]:
    """The result of a case: FAIL is a failure; what could not be decided is skipped, with its reason."""
    if outcome is Outcome.PASS:
        return []
    return [Failure(text, outcome.value)] if outcome is Outcome.FAIL else [Skipped(text, outcome.value)]


def add_properties(case: TestCase, figures: Mapping[str, object]) -> None:
    """Add every known single figure to a case as a property."""
    properties = Properties()
    for name, value in figures.items():
        if value is not None and not isinstance(value, tuple | list | dict):
            properties.add_property(Property(name, str(value)))
    case.append(properties)


def run_to_xml(run: Run) -> str:
    """The document. A run that did not complete is an error, and so are measurements that a member did not report.

    Raises:
        ResultError: the run cannot be read.
    """
    summary = summarise(run)
    verdict = judge(summary, rules_of(run))
    suite = TestSuite(f"charkha {summary.trace}")
    suite.timestamp = run.manifest.created
    for case in _verdict_cases(verdict):
        suite.add_testcase(case)
    suite.add_testcase(_run_case(summary))
    for one in summary.classes:
        suite.add_testcase(_class_case(one, summary))
    return to_text("charkha", [suite])


def _verdict_cases(verdict: Verdict) -> Iterator[TestCase]:
    """The verdict, then a case per check: FAIL is a failure; what could not be decided is skipped, with the reason."""
    if verdict.rules is None:
        return
    case = TestCase("verdict", "charkha.verdict")
    case.result = result_of(verdict.outcome, headline(verdict))
    yield case
    for one in verdict.findings:
        # Which iteration or flow is the worst changes from run to run; the name of a case does not.
        about = "" if one.rule.metric.scope.is_many else describe_subject(one.subject)
        case = TestCase(f"{one.rule}{about}", "charkha.verdict")
        case.result = result_of(one.outcome, describe_finding(one))
        add_properties(case, {"value": one.value, "unit": one.rule.metric.unit.value, "outcome": one.outcome.value})
        yield case


def _run_case(summary: RunSummary) -> TestCase:
    iteration = summary.iteration
    case = TestCase("run completes", "charkha.run", iteration.jct_ns / NS_PER_S if iteration else None)
    incomplete = summary.totals.incomplete
    if summary.status != COMPLETE:
        case.result = [Error(summary.reason or "", summary.status)]
    elif incomplete:
        case.result = [Error(f"{incomplete} measurements that not every member reported", "incomplete")]
    figures = {"run_id": summary.run_id, "ranks": summary.ranks, **dataclasses.asdict(summary.trials)}
    if iteration is not None:
        figures |= dataclasses.asdict(iteration)
    add_properties(case, figures | dict(summary.totals.counters))
    return case


def _class_case(one: ClassSummary, summary: RunSummary) -> TestCase:
    name = (
        f"{one.collective} {one.members} ranks {one.size_bytes} B {one.algorithm}".rstrip() + f" {one.where}".rstrip()
    )
    seconds = one.cct_p50_ns / NS_PER_S if one.cct_p50_ns is not None else None
    case = TestCase(name, f"charkha.{one.collective}", seconds)
    add_properties(case, dataclasses.asdict(one) | {"scale_bytes": summary.scaling.bytes})
    return case


def comparison_to_xml(comparison: GroupComparison, *, is_strict: bool = False) -> str:
    """The document.

    Args:
        is_strict: an inconclusive class is a failure, as a slower one; otherwise it is skipped.
    """
    suites = (_suite(pair, comparison, is_strict=is_strict) for pair in comparison.pairs)
    return to_text("charkha compare", suites)


def _suite(pair: PairComparison, comparison: GroupComparison, *, is_strict: bool) -> TestSuite:
    suite = TestSuite(f"{pair.other.name} against {pair.baseline.name}")
    suite.timestamp = pair.other.runs[-1].manifest.created
    suite.add_property("margin", str(comparison.rules.margin))
    suite.add_property("quantile", str(comparison.rules.quantile))
    suite.add_property("forced", str(comparison.is_forced))
    for one in pair.classes:
        suite.add_testcase(_case(one, is_strict=is_strict))
    return suite


def _case(one: ClassComparison, *, is_strict: bool) -> TestCase:
    seconds = None if one.other.median_ns is None else one.other.median_ns / NS_PER_S
    case = TestCase(str(one.key), f"charkha.compare.{one.key.collective}", seconds)
    message = _message(one)
    if one.verdict is ClassVerdict.SLOWER or (is_strict and one.verdict is ClassVerdict.INCONCLUSIVE):
        case.result = [Failure(message, one.verdict.value)]
    elif one.verdict is ClassVerdict.INCONCLUSIVE:
        case.result = [Skipped(message)]
    add_properties(case, {"verdict": verdict_text(one), "ratio": ratio_text(one.effect), **_figures(one)})
    return case


def _message(one: ClassComparison) -> str:
    times = f"{duration_cell(one.baseline.median_ns)} to {duration_cell(one.other.median_ns)}"
    p = "" if one.holm_p is None else f", Holm's p {p_text(one)}"
    why = f": {one.why}" if one.why else ""
    return f"{verdict_text(one)}{why}: {times}, ratio {ratio_text(one.effect)} ({interval_text(one.effect)}){p}"


def _figures(one: ClassComparison) -> Mapping[str, object]:
    return {
        "interval": interval_text(one.effect),
        "holm_p": one.holm_p,
        "p99_ratio": None if one.tail is None else one.tail.ratio,
        "baseline_runs": one.baseline.runs,
        "other_runs": one.other.runs,
        "needs_runs": one.needs,
    }
