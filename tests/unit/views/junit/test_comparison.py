"""A comparison as JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree

from emulator.results.comparison.verdicts import Comparison
from emulator.views.junit.comparison import comparison_to_xml
from tests.support.recorded import slower_firmware, too_few_runs


def cases(comparison: Comparison, *, is_strict: bool = False) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(comparison_to_xml(comparison, is_strict=is_strict)).iter("testcase"))


def test_junit_fails_slower_classes() -> None:
    root = ElementTree.fromstring(comparison_to_xml(slower_firmware()))
    (suite,) = root.iter("testsuite")
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("fw-b against fw-a", "5", "5")
    case = next(one for one in root.iter("testcase") if one.get("name") == "iteration (JCT)")
    (failure,) = case.iter("failure")
    assert failure.get("type") == "slower"
    assert (failure.get("message") or "").startswith("slower: ")
    names = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert names["verdict"] == "slower"
    assert {"ratio", "interval", "holm_p", "baseline_runs", "other_runs"} <= names.keys()


def test_junit_skips_inconclusive_classes_unless_strict() -> None:
    assert all(
        [child.tag for child in case if child.tag != "properties"] == ["skipped"] for case in cases(too_few_runs())
    )
    strict = cases(too_few_runs(), is_strict=True)
    assert all([child.tag for child in case if child.tag != "properties"] == ["failure"] for case in strict)
