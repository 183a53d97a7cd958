"""A comparison in words and figures."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import GroupComparison
from emulator.views.comparison_text import trend_rows, write_comparison
from tests.support.recorded import compared, recorded, three_versions


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
