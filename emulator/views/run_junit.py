"""A run as JUnit XML, for a CI to show: a case for the run, one per class of collectives, figures as properties."""

from __future__ import annotations

import dataclasses

from junitparser import Error, JUnitXml, Properties, Property, TestCase, TestSuite

from emulator.run_folder.manifest import COMPLETE
from emulator.run_folder.record import Run
from emulator.statistics.summary import ClassSummary, RunSummary, summarise
from emulator.units import NS_PER_S


def to_xml(run: Run) -> str:
    """The document; a run that did not complete is an error, as are measurements that not every member reported.

    Raises:
        ResultError: the run cannot be read.
    """
    summary = summarise(run)
    suite = TestSuite(f"charkha {summary.trace}")
    suite.timestamp = run.manifest.created
    suite.add_testcase(_run_case(summary))
    for one in summary.classes:
        suite.add_testcase(_class_case(one, summary))
    document = JUnitXml("charkha")
    document.add_testsuite(suite)
    document.update_statistics()
    return str(document.tostring(), "utf-8") + "\n"


def _run_case(summary: RunSummary) -> TestCase:
    iteration = summary.iteration
    case = TestCase("run completes", "charkha.run", iteration.jct_ns / NS_PER_S if iteration else None)
    if summary.status != COMPLETE:
        case.result = [Error(summary.reason or "", summary.status)]
    elif summary.totals.incomplete:
        case.result = [Error(f"{summary.totals.incomplete} measurements that not every member reported", "incomplete")]
    facts = {"run_id": summary.run_id, "ranks": summary.ranks, **dataclasses.asdict(summary.trials)}
    if iteration is not None:
        facts |= dataclasses.asdict(iteration)
    _add_properties(case, facts | dict(summary.totals.counters))
    return case


def _class_case(one: ClassSummary, summary: RunSummary) -> TestCase:
    name = f"{one.collective} {one.members} ranks {one.size_bytes} B {one.algorithm}".rstrip()
    seconds = one.cct_p50_ns / NS_PER_S if one.cct_p50_ns is not None else None
    case = TestCase(name, f"charkha.{one.collective}", seconds)
    _add_properties(case, dataclasses.asdict(one) | {"scale_bytes": summary.scaling.bytes})
    return case


def _add_properties(case: TestCase, facts: dict[str, object]) -> None:
    properties = Properties()
    for name, value in facts.items():
        if value is not None and not isinstance(value, tuple | list | dict):
            properties.add_property(Property(name, str(value)))
    case.append(properties)
