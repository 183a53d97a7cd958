"""JUnit XML of runs and comparisons."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from junitparser import Failure, TestCase, TestSuite

from emulator.control.observations import FlowCounters
from emulator.results.comparison.verdicts import GroupComparison
from emulator.results.run_folder.reader import Run
from emulator.views.junit import add_properties, comparison_to_xml, run_to_xml, to_text
from tests.support.recorded import slower_firmware, too_few_runs
from tests.support.runs import collective, pair, ranks, write_run


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


def played(folder: Path) -> Run:
    samples = [*collective([0, 0], [2_000_000, 1_500_000], size_bytes=1 << 20), *pair(0, 50_000, instance=1)]
    flows = [FlowCounters(0, 1, retransmits=3)]
    return write_run(folder, samples, iterations={0: ranks((0, 3_000_000), (0, 2_000_000))}, flows=flows)


def parsed(run: Run) -> dict[str, ElementTree.Element]:
    (suite,) = ElementTree.fromstring(run_to_xml(run)).iter("testsuite")
    return {case.get("name") or "": case for case in suite.iter("testcase")}


def properties(case: ElementTree.Element) -> dict[str | None, str | None]:
    return {one.get("name"): one.get("value") for one in case.iter("property")}


def test_a_complete_run_passes_with_its_job_completion_time(tmp_path: Path) -> None:
    case = parsed(played(tmp_path / "run"))["run completes"]
    assert (case.get("classname"), float(case.get("time") or 0)) == ("charkha.run", 0.003)
    assert [child.tag for child in case] == ["properties"]
    found = properties(case)
    assert (found["ranks"], found["included"], found["retransmits"]) == ("2", "2", "3")
    assert "excluded" not in found  # a list is not a figure


def test_a_class_is_a_case_with_its_median_as_time(tmp_path: Path) -> None:
    found = parsed(played(tmp_path / "run"))
    case = found["all_reduce 2 ranks 1048576 B ring"]
    assert (case.get("classname"), float(case.get("time") or 0)) == ("charkha.all_reduce", 0.002)
    assert float(properties(case)["cct_p50_ns"] or 0) == 2_000_000
    assert "cct_p99_ns" not in properties(case)  # one sample has no 99th percentile
    assert any(name.startswith("send_recv 2 ranks") for name in found)


def test_a_run_that_was_aborted_is_an_error_with_its_reason(tmp_path: Path) -> None:
    run = played(tmp_path / "run")
    aborted = replace(run, manifest=replace(run.manifest, status="aborted", reason="agent a0 lost"))
    (error,) = parsed(aborted)["run completes"].iter("error")
    assert (error.get("type"), error.get("message")) == ("aborted", "agent a0 lost")


def test_measurements_without_every_member_are_an_error(tmp_path: Path) -> None:
    samples = [*collective([0, 0], [10, 10]), collective([0, 0], [10, 10], iteration=1)[0]]
    run = write_run(tmp_path / "run", samples, iterations={0: ranks((0, 10), (0, 10))})
    (error,) = parsed(run)["run completes"].iter("error")
    assert (error.get("type"), error.get("message")) == ("incomplete", "1 measurements that not every member reported")


def test_totals_count_errors(tmp_path: Path) -> None:
    run = played(tmp_path / "run")
    aborted = replace(run, manifest=replace(run.manifest, status="aborted"))
    root = ElementTree.fromstring(run_to_xml(aborted))
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("3", "1", "0")


def test_a_run_without_iterations_has_no_time(tmp_path: Path) -> None:
    case = parsed(write_run(tmp_path / "run", []))["run completes"]
    assert case.get("time") is None


def cases(comparison: GroupComparison, *, is_strict: bool = False) -> list[ElementTree.Element]:
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
