"""What the JUnit documents have in common."""

from __future__ import annotations

from xml.etree import ElementTree

from junitparser import Failure, TestCase, TestSuite

from emulator.views.junit.document import add_properties, to_text


def test_totals_of_all_suites_are_those_of_the_document() -> None:
    suites = [TestSuite("one"), TestSuite("two")]
    failed = TestCase("b")
    failed.result = [Failure("slower")]
    suites[0].add_testcase(TestCase("a"))
    suites[1].add_testcase(failed)
    text = to_text("charkha", suites)
    root = ElementTree.fromstring(text)
    assert (root.get("name"), root.get("tests"), root.get("failures")) == ("charkha", "2", "1")
    assert text.endswith(">\n")


def test_only_known_single_figures_become_properties() -> None:
    case = TestCase("a")
    add_properties(case, {"known": 1.5, "zero": 0, "unknown": None, "list": [1], "parts": {"a": 1}, "pair": (1, 2)})
    suite = TestSuite("one")
    suite.add_testcase(case)
    found = {
        one.get("name"): one.get("value") for one in ElementTree.fromstring(to_text("x", [suite])).iter("property")
    }
    assert found == {"known": "1.5", "zero": "0"}


def test_names_and_values_are_escaped() -> None:
    case = TestCase('<"&>')
    add_properties(case, {"trace": "<script>&"})
    suite = TestSuite("one")
    suite.add_testcase(case)
    text = to_text("x", [suite])
    assert "<script>" not in text
    (found,) = ElementTree.fromstring(text).iter("testcase")
    assert found.get("name") == '<"&>'
