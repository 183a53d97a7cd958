from dataclasses import replace
from pathlib import Path

import pytest

from emulator.results.run_folder.manifest import ABORTED
from emulator.results.statistics.metric import IterationKey, Unit
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.traffic.flow_figures import FlowKey
from emulator.results.verdict.judge import Finding, Outcome, judge
from emulator.results.verdict.rules import MetricBound, Rule, Rules, Selection
from emulator.views.verdict_text import describe_finding, describe_subject, headline, metric_cell, value_cell
from tests.support.runs import collective, ranks, write_run


@pytest.fixture
def summary(tmp_path: Path) -> RunSummary:
    rows = collective([0, 0], [10**6, 10**6], size_bytes=1 << 20, ideal_ns=800_000)
    return summarise(write_run(tmp_path / "run", rows, iterations={0: ranks((0, 2 * 10**6), (0, 10**6))}))


def said(summary: RunSummary, *rules: Rule, is_example: bool = False) -> str:
    return headline(judge(summary, Rules("my rules", rules, is_example)))


AT_MOST_1_MS = Rule(METRICS["jct"], MetricBound("at most", 1e6, "1 ms"), Selection())
AT_MOST_9_MS = Rule(METRICS["jct"], MetricBound("at most", 9e6, "9 ms"), Selection())
IDEAL = Rule(METRICS["busbw_to_ideal"], MetricBound("at least", 90, "90 %"), Selection())


def test_the_first_line_has_the_answer_the_figure_the_bound_and_the_state_of_the_tester(summary: RunSummary) -> None:
    assert said(summary, AT_MOST_9_MS) == "PASS: the one check is met; my rules; tester not calibrated"
    assert said(summary, AT_MOST_9_MS, AT_MOST_1_MS) == (
        "FAIL: jct is 2 ms (at most 1 ms); 1 of 2 checks is FAIL; my rules; tester not calibrated"
    )
    assert said(summary, IDEAL).startswith(
        "UNDECIDED: busbw_to_ideal of all_reduce 2 ranks 1 MiB ring is 80.0 % (at least 90 %): the device or the tester"
    )


def test_a_calibrated_tester_is_not_mentioned_and_the_example_is(summary: RunSummary) -> None:
    calibrated = replace(summary, classes=tuple(replace(one, tester_percent=3.0) for one in summary.classes))
    assert (
        said(calibrated, AT_MOST_9_MS, is_example=True) == "PASS: the one check is met; my rules (the shipped example)"
    )


def test_the_reason_of_the_tester_is_given(summary: RunSummary) -> None:
    starved = replace(summary, tester=replace(summary.tester, core_wait_fraction=0.4))
    assert said(starved, AT_MOST_1_MS).startswith(
        "TESTER-LIMITED: jct is 2 ms (at most 1 ms): an agent waited for a core 40 % of the time"
    )


def test_an_aborted_run_says_so(summary: RunSummary) -> None:
    assert said(replace(summary, status=ABORTED), AT_MOST_9_MS).startswith("UNDECIDED: the run did not complete")


def test_what_was_not_measured_is_named(summary: RunSummary) -> None:
    drops = Rule(METRICS["device_drops"], MetricBound("at most", 0, "0"), Selection())
    assert said(summary, drops).startswith("UNDECIDED: device_drops: not measured (at most 0)")


def test_without_rules_the_first_line_says_what_happened(summary: RunSummary) -> None:
    assert headline(judge(summary, None)) == (
        "Played 2 iterations of two on 2 ranks: 2 ms each, 0 % exposed communication"
    )
    lossy = replace(summary, totals=replace(summary.totals, lost_packets=3), status=ABORTED)
    assert headline(judge(lossy, None)).endswith("exposed communication, 3 lost, the run did not complete")
    clean = replace(summary, totals=replace(summary.totals, lost_packets=0))
    assert headline(judge(clean, None)).endswith(", nothing lost")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.5e6, Unit.NS, "1.5 ms"),
        (1.2e9, Unit.BYTES_PER_S, "1.20 GB/s"),
        (90.0, Unit.PERCENT, "90.0 %"),
        (1.05, Unit.RATIO, "1.05"),
        (12345.0, Unit.COUNT, "12,345"),
        (1 << 20, Unit.BYTES, "1 MiB"),
    ],
)
def test_values_carry_their_unit(value: float, unit: Unit, text: str) -> None:
    assert metric_cell(value, unit) == text


@pytest.mark.parametrize(("bound", "text"), [("105 %", "170 %"), ("1.05", "1.70")])
def test_a_ratio_is_written_as_its_bound_is(bound: str, text: str) -> None:
    rule = Rule(METRICS["jct_to_ideal"], MetricBound("at most", 1.05, bound), Selection())
    assert value_cell(Finding(rule, None, 1.7, Outcome.FAIL)) == text


def test_the_run_as_a_subject_needs_no_words() -> None:
    assert describe_subject(None) == ""
    assert describe_subject(ClassKey("send_recv", 2, 1024, "")) == " of send_recv 2 ranks 1 KiB"
    assert describe_subject(IterationKey(3)) == " of iteration 3"
    flow = FlowKey(0, 4, 17, "h0:eth0", "")
    assert describe_subject(flow) == " of flow 0 (h0:eth0) → 4 QP 17"
    worst = Finding(Rule(METRICS["iteration_jct"], AT_MOST_1_MS.bound, Selection()), IterationKey(3), 2e6, Outcome.FAIL)
    assert describe_finding(worst) == "iteration_jct of iteration 3 is 2 ms (at most 1 ms)"
    more = replace(worst, broken=2, of=9)
    assert describe_finding(more).endswith("is 2 ms (at most 1 ms), as 2 of 9 iterations do not meet")
