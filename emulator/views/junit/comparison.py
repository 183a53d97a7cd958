"""A comparison as JUnit XML, for CI systems: a suite per pair of groups, a case per class."""

from __future__ import annotations

from collections.abc import Mapping

from junitparser import Failure, Skipped, TestCase, TestSuite

from emulator.results.comparison.verdicts import ClassComparison, Comparison, PairComparison, Verdict
from emulator.units import NS_PER_S
from emulator.views.columns.comparison_columns import interval_text, p_text, ratio_text, verdict_text
from emulator.views.columns.figures import duration_cell
from emulator.views.junit.document import add_properties, to_text


def comparison_to_xml(comparison: Comparison, *, is_strict: bool = False) -> str:
    """The document.

    Args:
        is_strict: an inconclusive class is a failure, as a slower one; otherwise it is skipped.
    """
    suites = (_suite(pair, comparison, is_strict=is_strict) for pair in comparison.pairs)
    return to_text("charkha compare", suites)


def _suite(pair: PairComparison, comparison: Comparison, *, is_strict: bool) -> TestSuite:
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
    if one.verdict is Verdict.SLOWER or (is_strict and one.verdict is Verdict.INCONCLUSIVE):
        case.result = [Failure(message, one.verdict.value)]
    elif one.verdict is Verdict.INCONCLUSIVE:
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
