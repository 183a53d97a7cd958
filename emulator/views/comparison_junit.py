"""A comparison as JUnit XML: a suite per pair of groups, a case per class, so that a CI shows what became slower."""

from __future__ import annotations

from collections.abc import Mapping

from junitparser import Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite

from emulator.comparison.machine import to_json
from emulator.comparison.verdicts import ClassComparison, Comparison, PairComparison, Verdict
from emulator.units import NS_PER_S
from emulator.views.terminal.comparison_table import duration_text, interval_text, ratio_text, verdict_text


def to_xml(comparison: Comparison, *, is_strict: bool = False) -> str:
    """The document: slower is a failure, inconclusive is skipped, or with a strict gate a failure too."""
    document = JUnitXml("charkha compare")
    for pair in comparison.pairs:
        document.add_testsuite(_suite(pair, comparison, is_strict=is_strict))
    document.update_statistics()
    text: str = document.tostring().decode()
    return text + "\n"


def _suite(pair: PairComparison, comparison: Comparison, *, is_strict: bool) -> TestSuite:
    suite = TestSuite(f"{pair.other.name} against {pair.baseline.name}")
    suite.timestamp = pair.other.runs[-1].manifest.created
    for name in ("margin", "quantile", "forced"):
        suite.add_property(name, str(to_json(comparison)[name]))
    for one in pair.classes:
        suite.add_testcase(_case(one, is_strict=is_strict))
    return suite


def _case(one: ClassComparison, *, is_strict: bool) -> TestCase:
    seconds = None if one.other.median_ns is None else one.other.median_ns / NS_PER_S
    case = TestCase(str(one.key), f"charkha.compare.{one.key.collective}", seconds)
    message = _message(one)
    if one.verdict is Verdict.SLOWER or (is_strict and one.verdict is Verdict.INCONCLUSIVE):
        case.result = [Failure(message, one.verdict.value)]
    elif one.verdict is Verdict.INCONCLUSIVE:
        case.result = [Skipped(message)]
    _add_properties(case, {"verdict": verdict_text(one), "ratio": ratio_text(one.effect), **_numbers(one)})
    return case


def _message(one: ClassComparison) -> str:
    times = f"{duration_text(one.baseline.median_ns)} to {duration_text(one.other.median_ns)}"
    p = "" if one.holm_p is None else f", Holm's p {one.holm_p:.2g}"
    why = f": {one.why}" if one.why else ""
    return f"{verdict_text(one)}{why}: {times}, ratio {ratio_text(one.effect)} ({interval_text(one.effect)}){p}"


def _numbers(one: ClassComparison) -> Mapping[str, object]:
    return {
        "interval": interval_text(one.effect),
        "holm_p": one.holm_p,
        "p99_ratio": None if one.tail is None else one.tail.ratio,
        "baseline_runs": one.baseline.runs,
        "other_runs": one.other.runs,
        "needs_runs": one.needs,
    }


def _add_properties(case: TestCase, facts: Mapping[str, object]) -> None:
    properties = Properties()
    for name, value in facts.items():
        if value is not None:
            properties.add_property(Property(name, str(value)))
    case.append(properties)
