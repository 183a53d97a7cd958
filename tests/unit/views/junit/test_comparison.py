"""A comparison as JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from emulator.comparison.comparability import check_comparability
from emulator.comparison.groups import ExcludedRun, RunGroup
from emulator.comparison.verdicts import Comparison, Rules, compare
from emulator.views.junit.comparison import comparison_to_xml
from tests.support.recorded import recorded, slowed


def compared(*groups: RunGroup, rules: Rules | None = None) -> Comparison:
    return compare(groups, check_comparability(groups), rules or Rules(resamples=199))


@pytest.fixture(scope="module")
def slower() -> Comparison:
    runs = recorded("paced")
    return compared(
        RunGroup("fw-a", runs[0:12:2]),
        RunGroup("fw-b", [slowed(run, 1.2) for run in runs[1:12:2]], [ExcludedRun(runs[20].folder, "aborted: lost")]),
    )


@pytest.fixture(scope="module")
def undecided() -> Comparison:
    runs = recorded("paced")
    return compared(RunGroup("fw-a", runs[0:4:2]), RunGroup("fw-b", [slowed(run, 1.2) for run in runs[1:4:2]]))


def cases(comparison: Comparison, *, is_strict: bool = False) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(comparison_to_xml(comparison, is_strict=is_strict)).iter("testcase"))


def test_junit_fails_slower_classes(slower: Comparison) -> None:
    root = ElementTree.fromstring(comparison_to_xml(slower))
    (suite,) = root.iter("testsuite")
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("fw-b against fw-a", "5", "5")
    case = next(one for one in root.iter("testcase") if one.get("name") == "iteration (JCT)")
    (failure,) = case.iter("failure")
    assert failure.get("type") == "slower"
    assert (failure.get("message") or "").startswith("slower: ")
    names = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert names["verdict"] == "slower"
    assert {"ratio", "interval", "holm_p", "baseline_runs", "other_runs"} <= names.keys()


def test_junit_skips_inconclusive_classes_unless_strict(undecided: Comparison) -> None:
    assert all([child.tag for child in case if child.tag != "properties"] == ["skipped"] for case in cases(undecided))
    strict = cases(undecided, is_strict=True)
    assert all([child.tag for child in case if child.tag != "properties"] == ["failure"] for case in strict)
