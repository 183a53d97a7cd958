"""Sentences about runs, verdicts, comparisons and networks, as somebody has read and approved them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.planner.forecast import Forecast
from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import ClassVerdict, ComparisonRules
from emulator.results.run_folder.manifest import ABORTED
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.metric import IterationKey, Unit
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.traffic.flow_figures import FlowKey
from emulator.results.statistics.traffic.network_traffic import NetworkTraffic, PortLoad
from emulator.results.statistics.worst.worst_flows import LossFocus
from emulator.results.verdict.judge import Finding, Outcome, judge
from emulator.results.verdict.rules import MetricBound, Rule, Rules, Selection
from emulator.views.columns.comparison_columns import (
    interval_text,
    needs_text,
    ratio_text,
    statistic_name,
    verdict_text,
)
from emulator.views.comparison_text import fact_lines
from emulator.views.network_text import (
    describe_flows,
    describe_forecast,
    describe_loss_focus,
    describe_network,
    explain_ideal,
    gbit_cell,
)
from emulator.views.verdict_text import describe_finding, describe_subject, headline, metric_cell, value_cell
from tests.support.approved import approved
from tests.support.recorded import compared, recorded, too_few_runs
from tests.support.runs import collective, ranks, write_run

Cases = Mapping[str, Iterable[str] | str]


def bound(metric: str, kind: str, limit: float, text: str) -> Rule:
    return Rule(METRICS[metric], MetricBound(kind, limit, text), Selection())  # type: ignore[arg-type]


def verdicts(folder: Path) -> Cases:
    rows = collective([0, 0], [10**6, 10**6], size_bytes=1 << 20, ideal_ns=800_000)
    run = summarise(write_run(folder / "run", rows, iterations={0: ranks((0, 2 * 10**6), (0, 10**6))}))
    calibrated = replace(run, classes=tuple(replace(one, tester_percent=3.0) for one in run.classes))
    lost = replace(run, totals=replace(run.totals, lost_packets=3), status=ABORTED)
    in_1_ms, in_9_ms = bound("jct", "at most", 1e6, "1 ms"), bound("jct", "at most", 9e6, "9 ms")

    def said(summary: RunSummary, *rules: Rule, is_example: bool = False) -> str:
        return headline(judge(summary, Rules("my rules", rules, is_example) if rules else None))

    return {
        "the only check is met": said(run, in_9_ms),
        "one of two is not": said(run, in_9_ms, in_1_ms),
        "a share of an ideal, the tester is not known": said(run, bound("busbw_to_ideal", "at least", 90, "90 %")),
        "a calibrated tester is not mentioned, the example is": said(calibrated, in_9_ms, is_example=True),
        "an agent had no core": said(replace(run, tester=replace(run.tester, core_wait_fraction=0.4)), in_1_ms),
        "aborted": said(replace(run, status=ABORTED), in_9_ms),
        "not measured": said(run, bound("device_drops", "at most", 0, "0")),
        "no rules": said(run),
        "no rules, aborted, some lost": said(lost),
        "no rules, nothing lost": said(replace(run, totals=replace(run.totals, lost_packets=0))),
    }


def findings(_: Path) -> Cases:
    units = {
        Unit.NS: 1.5e6,
        Unit.BYTES_PER_S: 1.2e9,
        Unit.PERCENT: 90.0,
        Unit.RATIO: 1.05,
        Unit.COUNT: 12345.0,
        Unit.BYTES: 1 << 20,
    }
    subjects = (
        *(None, ClassKey("send_recv", 2, 1024, ""), IterationKey(3)),
        FlowKey(0, 4, 17, "h0:eth0", ""),
    )
    rule = Rule(METRICS["iteration_jct"], MetricBound("at most", 1e6, "1 ms"), Selection())
    worst = Finding(rule, IterationKey(3), 2e6, Outcome.FAIL)
    ratios = (
        Finding(bound("jct_to_ideal", "at most", 1.05, text), None, 1.7, Outcome.FAIL) for text in ("105 %", "1.05")
    )
    return {
        "values carry their unit": [f"{unit.name}: {metric_cell(value, unit)}" for unit, value in units.items()],
        "a ratio is written as its bound is": map(value_cell, ratios),
        "subjects": [repr(describe_subject(one)) for one in subjects],
        "findings": [describe_finding(worst), describe_finding(replace(worst, broken=2, of=9))],
    }


def comparisons(_: Path) -> Cases:
    few = too_few_runs().pairs[0].classes[0]
    runs = recorded("paced")
    groups = [RunGroup("a", runs[0:4]), RunGroup("b", runs[4:8])]
    tail = compared(*groups, rules=ComparisonRules(resamples=199, quantile=0.99))
    without = replace(few, effect=None)
    one_run = replace(without, other=replace(few.other, values_ns=(1.0,)))
    needs = (few, replace(few, is_too_few=False, needs=12), replace(few, needs=None))
    return {
        "inconclusive": map(verdict_text, (few, without, one_run)),
        "runs that would decide": map(needs_text, (*needs, replace(few, verdict=ClassVerdict.SLOWER))),
        "no effect": (ratio_text(None), interval_text(None)),
        "statistics": (statistic_name(ComparisonRules(quantile=one)) for one in (0.5, 0.99, 0.999)),
        "a verdict about the tail does not mention the tail apart": dict(fact_lines(tail))["Rules"],
    }


def networks(_: Path) -> Cases:
    port = PortLoad("h0:eth0", "sent", 0.95e9, 10**9)
    loads = (
        NetworkTraffic(0.5, 1 << 20, 1e6, port),
        NetworkTraffic(1.0, 4096, None, None),
        NetworkTraffic(1.0, 4096, 1.0, PortLoad("a:b", "sent", 8e9, None)),
    )
    foci = (
        LossFocus("a:1", "b:2", 9, 10),
        LossFocus("", "b:2", 9, 10, "sw0:p1"),
        LossFocus("", "b:2", 9, 10, "b:2", "in queues"),
        LossFocus("", "b:2", 9, 10),
    )
    counters = {"packets": 12_345, "retransmits": 0, "timeouts": 0, "naks": 0, "out_of_order": 3}

    def row(percent: float | None, cct_ns: float, size_bytes: int = 1 << 20) -> ClassSummary:
        return ClassSummary("all_reduce", 8, size_bytes, "ring", 1, 9, None, None, percent, cct_ns, *[None] * 5)

    forecasts = ((3_000_000, True), (3_000_000, False), (0, False))
    return {
        "traffic": map(describe_network, loads),
        "a rate": gbit_cell(8e9),
        "losses name one end or both": map(describe_loss_focus, foci),
        "flows show loss always, the rest where there was some": (describe_flows(counters), repr(describe_flows({}))),
        "above the ideal": explain_ideal([row(101.0, 1e6), row(100.2, 1e6), row(97.0, 1e6)]),
        "small messages": explain_ideal([row(0.006, 700_000, 4), row(5.0, 500_000, 4096), row(4.0, 9e8)]),
        "ordinary shares": explain_ideal([row(92.0, 1e6), row(4.0, 9e8), row(None, 1e6)]),
        "forecasts": (describe_forecast(Forecast(6, 1, 14, [1 << 20, 2 << 20], *one)) for one in forecasts),
    }


@pytest.mark.parametrize("make", [verdicts, findings, comparisons, networks], ids=lambda make: make.__name__)
def test_sentences_are_what_was_approved(make: Callable[[Path], Cases], tmp_path: Path) -> None:
    lines = []
    for name, said in make(tmp_path).items():
        lines += [f"== {name}", *([said] if isinstance(said, str) else said), ""]
    approved(f"sentences/{make.__name__}", "\n".join(lines))
