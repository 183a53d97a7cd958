"""JUnit XML of runs and comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from junitparser import Failure, TestCase, TestSuite

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.reader import Run
from emulator.views.junit import add_properties, comparison_to_xml, run_to_xml, to_text
from tests.support.approved import approved
from tests.support.recorded import slower_firmware, too_few_runs
from tests.support.runs import Row, collective, pair, ranks, write_run


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


def played(folder: Path, samples: Sequence[Row] | None = None) -> Run:
    usual = [*collective([0, 0], [2_000_000, 1_500_000], size_bytes=1 << 20), *pair(0, 50_000, instance=1)]
    spent = {0: ranks((0, 3_000_000), (0, 2_000_000))}
    return write_run(folder, samples or usual, iterations=spent, flows=[FlowCounters(0, 1, retransmits=3)])


def indented(documents: Mapping[str, str]) -> str:
    lines = []
    for name, text in documents.items():
        root = ElementTree.fromstring(text)
        ElementTree.indent(root, " ")
        lines += [f"== {name}", ElementTree.tostring(root, encoding="unicode"), ""]
    return "\n".join(lines)


def test_the_document_of_a_run_is_what_was_approved(tmp_path: Path) -> None:
    """A class is a case with its median as time; a list is no figure; one sample has no 99th percentile."""
    run = played(tmp_path / "run")
    lacking = [*collective([0, 0], [10, 10]), collective([0, 0], [10, 10], iteration=1)[0]]
    cases = {
        "complete": run,
        "aborted": replace(run, manifest=replace(run.manifest, status="aborted", reason="agent a0 lost")),
        "measurements without every member": played(tmp_path / "lacking", lacking),
        "no iteration has no time": write_run(tmp_path / "none", []),
    }
    approved("junit/run", indented({name: run_to_xml(one) for name, one in cases.items()}))


def test_the_document_of_a_comparison_is_what_was_approved() -> None:
    """Slower classes fail; inconclusive ones are skipped unless somebody is strict."""
    slower, open_ = slower_firmware(), too_few_runs()
    cases = {
        "slower": comparison_to_xml(slower),
        "inconclusive": comparison_to_xml(open_),
        "inconclusive, strict": comparison_to_xml(open_, is_strict=True),
    }
    approved("junit/comparison", indented(cases))
