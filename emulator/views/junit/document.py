"""What the JUnit documents of runs, comparisons and suites have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from junitparser import Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from emulator.results.verdict.judge import Outcome


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
