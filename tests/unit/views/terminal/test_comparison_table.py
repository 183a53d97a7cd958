"""Comparisons and trends in the terminal, in words, and as JUnit XML."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from emulator.comparison.comparability import check_comparability
from emulator.comparison.groups import ExcludedRun, RunGroup
from emulator.comparison.verdicts import Comparison, Rules, Verdict, compare
from emulator.run_folder.manifest import Scaling
from emulator.views.comparison_text import (
    fact_lines,
    interval_text,
    needs_text,
    ratio_text,
    statistic_name,
    trend_rows,
    verdict_text,
)
from emulator.views.figures import NONE
from emulator.views.junit.comparison import comparison_to_xml
from emulator.views.terminal.comparison_table import render
from emulator.views.terminal.trend_table import render_trend
from tests.support.recorded import recorded, slowed
from tests.support.terminal import rows_of, shown


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


@pytest.fixture(scope="module")
def versions() -> Comparison:
    runs = recorded("paced")
    return compared(*(RunGroup(f"v{n}", [slowed(run, 1 + 0.1 * n) for run in runs[n:15:3]]) for n in range(3)))


def test_a_class_has_effect_interval_and_verdict(slower: Comparison) -> None:
    text = shown(render(slower))
    assert text.splitlines()[0] == "fw-b against fw-a: 6 runs against 6 runs"
    found = {tuple(row[:1]): row for row in rows_of(text) if row}
    jct = found[("JCT",)]
    one = next(one for one in slower.pairs[0].classes if str(one.key) == "iteration (JCT)")
    assert jct[2] == NONE
    assert ratio_text(one.effect) in jct
    assert interval_text(one.effect) in jct
    assert jct[-1] == "slower"


def test_facts_name_groups_counts_rules_and_runs_left_out(slower: Comparison) -> None:
    facts = dict(fact_lines(slower))
    assert facts["A, the baseline"].startswith("fw-a, 6 runs, ")
    assert facts["B"].startswith("fw-b, 6 of 7 runs count, ")
    assert facts["Verdicts"] == "5 slower"
    assert "a run is represented by its p50 of the class" in facts["Rules"]
    assert "the margin of 3 %" in facts["Rules"]
    assert facts["Left out"] == "paced-20: aborted: lost"


def test_an_inconclusive_class_says_how_many_runs_would_decide(undecided: Comparison) -> None:
    one = undecided.pairs[0].classes[0]
    assert verdict_text(one) == f"inconclusive (n=2, needs {needs_text(one)})"
    assert needs_text(one).startswith("≥ ")
    assert needs_text(replace(one, is_too_few=False, needs=12)) == "12"
    assert needs_text(replace(one, needs=None)) == "> 100"
    assert needs_text(replace(one, verdict=Verdict.SLOWER)) == NONE
    without = replace(one, effect=None)
    assert verdict_text(without) == "inconclusive (n=2)"
    assert verdict_text(replace(without, other=replace(one.other, values_ns=(1.0,)))) == "inconclusive (n=2 and 1)"
    assert "Inconclusive" in dict(fact_lines(undecided))


def test_without_an_effect_there_are_dashes() -> None:
    assert (ratio_text(None), interval_text(None)) == (NONE, NONE)


@pytest.mark.parametrize(("quantile", "name"), [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")])
def test_the_statistic_is_named_after_its_quantile(quantile: float, name: str) -> None:
    assert statistic_name(Rules(quantile=quantile)) == name


def test_a_verdict_about_the_tail_does_not_mention_the_tail_apart() -> None:
    runs = recorded("paced")
    groups = [RunGroup("a", runs[0:4]), RunGroup("b", runs[4:8])]
    tail = dict(fact_lines(compared(*groups, rules=Rules(resamples=199, quantile=0.99))))["Rules"]
    assert "p99 ratio does not influence" not in tail
    assert "p99 ratio does not influence" in dict(fact_lines(compared(*groups)))["Rules"]


def test_groups_named_a_and_b_keep_their_names() -> None:
    runs = recorded("paced")
    text = shown(render(compared(RunGroup("B", runs[0:4]), RunGroup("A", runs[4:8]))))
    header = next(line for line in text.splitlines() if "A / B" in line)
    assert header.split()[:2] == ["B", "A"] or "A / B" in header


def test_groups_without_a_common_class_have_no_table(slower: Comparison) -> None:
    empty = replace(slower, pairs=[replace(slower.pairs[0], classes=[])])
    assert "No class was measured in both groups." in shown(render(empty))


def test_a_forced_comparison_says_so_first() -> None:
    runs = recorded("paced")
    other = [replace(run, manifest=replace(run.manifest, scaling=Scaling(bytes=0.5))) for run in runs[4:8]]
    forced = compared(RunGroup("a", runs[0:4]), RunGroup("b", other))
    for text in (shown(render(forced)), shown(render_trend(forced))):
        first, second, *_ = text.splitlines()
        assert first == "FORCED: these runs are not comparable; do not rely on any verdict below."
        assert second == "  scaling of sizes: 1.0 in a; 0.5 in b"


@pytest.mark.parametrize("width", [70, 80, 100, 140])
def test_tables_fit_the_width(slower: Comparison, versions: Comparison, width: int) -> None:
    for text in (shown(render(slower), width=width), shown(render_trend(versions), width=width)):
        assert max(map(len, text.splitlines())) <= width


def test_a_trend_has_a_ratio_per_version(versions: Comparison) -> None:
    text = shown(render_trend(versions), width=140)
    jct = next(row for row in rows_of(text) if row[:1] == ["iteration"])
    (_, pairs), *_ = (row for row in trend_rows(versions) if str(row[0]) == "iteration (JCT)")
    ratios = [ratio_text(one.effect) for one in pairs if one is not None]
    assert jct[2:] == [*jct[2:4], ratios[0], "slower", ratios[1], "slower"]
    assert "Ratios to v0; = no difference shown, ? inconclusive." in text
    assert "every group is compared with the baseline separately" in " ".join(text.split())


def test_a_class_that_a_version_lacks_is_a_dash(versions: Comparison) -> None:
    first, second = versions.pairs
    lacking = replace(versions, pairs=[first, replace(second, classes=second.classes[1:])])
    gone = str(second.classes[0].key)
    rows = {str(key): pairs for key, pairs in trend_rows(lacking)}
    assert rows[gone][1] is None
    assert rows[gone][0] is not None


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
