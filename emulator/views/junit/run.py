"""A run as JUnit XML, for CI systems: a case for the run, a case per class of collectives, figures as properties."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from junitparser import Error, TestCase, TestSuite

from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.run_folder.reader import Run
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.verdict.judge import Verdict, judge
from emulator.results.verdict.rules import rules_of
from emulator.units import NS_PER_S
from emulator.views.junit.document import add_properties, result_of, to_text
from emulator.views.text.verdict_text import describe_finding, describe_subject, headline


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
