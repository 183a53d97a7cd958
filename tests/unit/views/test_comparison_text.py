"""A comparison in words and figures."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import ClassVerdict, ComparisonRules, GroupComparison
from emulator.views.columns.comparison_columns import (
    interval_text,
    needs_text,
    ratio_text,
    statistic_name,
    verdict_text,
)
from emulator.views.columns.figures import NONE
from emulator.views.comparison_text import fact_lines, trend_rows, write_comparison
from tests.support.recorded import compared, recorded, slower_firmware, three_versions, too_few_runs


def test_facts_name_groups_counts_rules_and_runs_left_out() -> None:
    facts = dict(fact_lines(slower_firmware()))
    assert facts["A, the baseline"].startswith("fw-a, 6 runs, ")
    assert facts["B"].startswith("fw-b, 6 of 7 runs count, ")
    assert facts["Verdicts"] == "5 slower"
    assert "a run is represented by its p50 of the class" in facts["Rules"]
    assert "the margin of 3 %" in facts["Rules"]
    assert facts["Left out"] == "paced-20: aborted: lost"


def test_an_inconclusive_class_says_how_many_runs_would_decide() -> None:
    one = too_few_runs().pairs[0].classes[0]
    assert verdict_text(one) == f"inconclusive (n=2, needs {needs_text(one)})"
    assert needs_text(one).startswith("≥ ")
    assert needs_text(replace(one, is_too_few=False, needs=12)) == "12"
    assert needs_text(replace(one, needs=None)) == "> 100"
    assert needs_text(replace(one, verdict=ClassVerdict.SLOWER)) == NONE
    without = replace(one, effect=None)
    assert verdict_text(without) == "inconclusive (n=2)"
    assert verdict_text(replace(without, other=replace(one.other, values_ns=(1.0,)))) == "inconclusive (n=2 and 1)"
    assert "Inconclusive" in dict(fact_lines(too_few_runs()))


def test_without_an_effect_there_are_dashes() -> None:
    assert (ratio_text(None), interval_text(None)) == (NONE, NONE)


@pytest.mark.parametrize(("quantile", "name"), [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")])
def test_the_statistic_is_named_after_its_quantile(quantile: float, name: str) -> None:
    assert statistic_name(ComparisonRules(quantile=quantile)) == name


def test_a_verdict_about_the_tail_does_not_mention_the_tail_apart() -> None:
    runs = recorded("paced")
    groups = [RunGroup("a", runs[0:4]), RunGroup("b", runs[4:8])]
    tail = dict(fact_lines(compared(*groups, rules=ComparisonRules(resamples=199, quantile=0.99))))["Rules"]
    assert "p99 ratio does not affect" not in tail
    assert "p99 ratio does not affect" in dict(fact_lines(compared(*groups)))["Rules"]


def test_a_class_that_a_version_lacks_is_a_dash() -> None:
    first, second = three_versions().pairs
    lacking = replace(three_versions(), pairs=[first, replace(second, classes=second.classes[1:])])
    gone = str(second.classes[0].key)
    rows = {str(key): pairs for key, pairs in trend_rows(lacking)}
    assert rows[gone][1] is None
    assert rows[gone][0] is not None


@pytest.fixture(scope="module")
def same() -> GroupComparison:
    runs = recorded("paced")
    return compared(RunGroup("a", runs[0:4:2]), RunGroup("b", runs[1:4:2]))


def test_nothing_is_written_if_nothing_is_requested(tmp_path: Path, same: GroupComparison) -> None:
    write_comparison(same, html=None, junit=None, is_strict=False)
    assert not list(tmp_path.iterdir())


def test_a_page_names_both_groups(tmp_path: Path, same: GroupComparison) -> None:
    write_comparison(same, html=tmp_path / "page.html", junit=None, is_strict=False)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert "<html" in (tmp_path / "page.html").read_text()


def test_an_inconclusive_class_fails_only_if_strict(tmp_path: Path, same: GroupComparison) -> None:
    failures = []
    for is_strict in (False, True):
        write_comparison(same, html=None, junit=tmp_path / "junit.xml", is_strict=is_strict)
        failures.append(len(list(ElementTree.parse(tmp_path / "junit.xml").iter("failure"))))
    assert failures[0] == 0
    assert failures[1] > 0
