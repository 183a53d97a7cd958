from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator import exit_codes
from emulator.run_folder.manifest import ABORTED
from emulator.statistics.iterations import MeasuredIteration
from emulator.statistics.metric import IterationKey
from emulator.statistics.metrics import METRICS
from emulator.statistics.summary import RunSummary, summarise
from emulator.verdict.judge import Outcome, Verdict, judge
from emulator.verdict.rules import Bound, Rule, Rules, Selection
from tests.support.runs import collective, ranks, write_run

_KINDS = ("at most", "at least", "below", "above")


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """An all-reduce of two ranks: 100 ns where 80 ns would be ideal, JCT 500 ns."""
    rows = [one for n in (0, 1) for one in collective([0, 0], [100, 100], iteration=n, ideal_ns=80)]
    spans = {n: ranks((0, 500), (0, 400)) for n in (0, 1)}
    return summarise(write_run(tmp_path_factory.mktemp("judge") / "run", rows, iterations=spans))


def rule(metric: str, kind: str, limit: float, where: Selection | None = None) -> Rule:
    return Rule(METRICS[metric], Bound(kind, limit, f"{limit:g}"), where or Selection())  # type: ignore[arg-type]


def judged(summary: RunSummary, *rules: Rule) -> Verdict:
    return judge(summary, Rules("test", rules))


def calibrated(summary: RunSummary, tester_percent: float = 3.0) -> RunSummary:
    """The same, of a calibrated tester that needs this share of each class's time."""
    classes = tuple(replace(one, tester_percent=tester_percent) for one in summary.classes)
    return replace(summary, classes=classes)


def limited(summary: RunSummary) -> RunSummary:
    """The same, with classes whose time the calibrated tester sets."""
    return calibrated(summary, 95.0)


def starved(summary: RunSummary) -> RunSummary:
    """The same, with an agent that had no core for half of the time."""
    return replace(summary, tester=replace(summary.tester, core_wait_fraction=0.5))


def test_a_run_within_its_bounds_passes(summary: RunSummary) -> None:
    verdict = judged(summary, rule("jct", "at most", 500), rule("busbw_to_ideal", "at least", 80))
    assert verdict.outcome is Outcome.PASS
    assert verdict.exit_code == exit_codes.DONE
    assert [one.value for one in verdict.findings if one.rule.metric.name == "busbw_to_ideal"] == [pytest.approx(80)]


def test_one_missed_bound_fails_the_run_and_is_named_first(summary: RunSummary) -> None:
    verdict = judged(calibrated(summary), rule("jct", "at most", 500), rule("busbw_to_ideal", "at least", 90))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.FAIL, exit_codes.EXPECTATION_FAILED)
    assert verdict.decisive is not None
    assert verdict.decisive.rule.metric.name == "busbw_to_ideal"
    assert (verdict.count(Outcome.FAIL), verdict.count(Outcome.PASS)) == (1, 1)


@pytest.mark.parametrize(("metric", "limit"), [("busbw_to_ideal", 90), ("slowest_to_mean", 2)])
def test_a_share_of_ideal_or_a_ratio_of_times_is_undecided_if_the_tester_is_unknown(
    summary: RunSummary, metric: str, limit: float
) -> None:
    verdict = judged(summary, rule("jct", "at most", 500), rule(metric, "at least", limit))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNDECIDED, exit_codes.UNDECIDED)
    assert verdict.findings[0].reason.startswith("the device or the tester may be the reason: calibrate")
    for known in (rule("jct", "at most", 400), rule("cct_p50", "at most", 10)):
        assert judged(summary, known, rule(metric, "at least", limit)).outcome is Outcome.FAIL


def test_of_several_failures_the_one_farthest_from_its_limit_comes_first(summary: RunSummary) -> None:
    verdict = judged(summary, rule("jct", "at most", 490), rule("cct_p50", "at most", 10))
    assert verdict.decisive is not None
    assert verdict.decisive.rule.metric.name == "cct_p50"


def test_of_counters_that_should_be_zero_the_first_rule_decides_not_the_largest_counter(summary: RunSummary) -> None:
    counters = {"retransmits": 5, "out_of_order": 90_000}
    lossy = replace(summary, totals=replace(summary.totals, counters=counters))
    verdict = judged(lossy, rule("retransmissions", "at most", 0), rule("out_of_order", "at most", 0))
    assert [one.rule.metric.name for one in verdict.findings] == ["retransmissions", "out_of_order"]


def test_what_was_not_measured_is_undecided_and_never_passes(summary: RunSummary) -> None:
    for one in (rule("device_drops", "at most", 0), rule("jct_to_ideal", "at most", 1.05)):
        verdict = judged(summary, rule("jct", "at most", 500), one)
        assert (verdict.outcome, verdict.exit_code) == (Outcome.UNDECIDED, exit_codes.UNDECIDED)
        assert verdict.decisive is not None
        assert verdict.decisive.reason == "not measured"


def test_a_rule_that_no_class_matches_is_undecided(summary: RunSummary) -> None:
    verdict = judged(summary, rule("busbw", "at least", 0, Selection(collective="broadcast")))
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.findings[0].reason == "no class of the run matches"


@pytest.mark.parametrize("spoil", [limited, starved])
def test_a_tester_limited_value_passes_no_lower_bound_and_fails_no_upper_one(
    summary: RunSummary, spoil: type, request: pytest.FixtureRequest
) -> None:
    run = spoil(summary)
    outcomes = {
        (kind, limit): judged(run, rule("cct_p50", kind, limit)).outcome for kind in _KINDS for limit in (50, 200)
    }
    assert outcomes == {
        ("at most", 50): Outcome.TESTER_LIMITED,
        ("at most", 200): Outcome.PASS,
        ("below", 50): Outcome.TESTER_LIMITED,
        ("below", 200): Outcome.PASS,
        ("at least", 50): Outcome.TESTER_LIMITED,
        ("at least", 200): Outcome.TESTER_LIMITED,
        ("above", 50): Outcome.TESTER_LIMITED,
        ("above", 200): Outcome.TESTER_LIMITED,
    }


def with_iterations(summary: RunSummary, *events: int | None) -> RunSummary:
    """The same, with an iteration for each number of retransmissions; the n-th took (n + 1) · 100 ns."""
    found = [MeasuredIteration(n, 100 * (n + 1), {"retransmits": count}) for n, count in enumerate(events)]
    return replace(summary, iterations=tuple(found))


def test_a_rule_on_iterations_holds_for_every_one_and_the_worst_is_named(summary: RunSummary) -> None:
    run = with_iterations(summary, 0, 2, 7, 1)
    (broken,) = judged(run, rule("iteration_retransmissions", "at most", 1)).findings
    assert (broken.outcome, broken.subject, broken.value) == (Outcome.FAIL, IterationKey(2), 7)
    assert (broken.broken, broken.of) == (2, 4)
    (slowest,) = judged(run, rule("iteration_jct", "at most", 400)).findings
    assert (slowest.outcome, slowest.subject, slowest.broken) == (Outcome.PASS, IterationKey(3), 0)
    (fastest,) = judged(run, rule("iteration_jct", "at least", 101)).findings
    assert (fastest.outcome, fastest.subject) == (Outcome.FAIL, IterationKey(0))


def test_a_rule_on_iterations_does_not_pass_if_one_was_not_measured(summary: RunSummary) -> None:
    some = judged(with_iterations(summary, 0, None), rule("iteration_retransmissions", "at most", 1)).findings[0]
    assert (some.outcome, some.reason) == (Outcome.UNDECIDED, "1 of 2 were not measured")
    none = judged(with_iterations(summary), rule("iteration_retransmissions", "at most", 1)).findings[0]
    assert (none.outcome, none.reason) == (Outcome.UNDECIDED, "not measured")
    worse = judged(with_iterations(summary, 5, None), rule("iteration_retransmissions", "at most", 1)).findings[0]
    assert worse.outcome is Outcome.FAIL


def test_a_starved_tester_limits_iterations_too_but_not_their_counters(summary: RunSummary) -> None:
    run = starved(with_iterations(summary, 3))
    outcomes = [
        judged(run, one).outcome
        for one in (rule("iteration_jct", "at most", 1), rule("iteration_retransmissions", "at most", 1))
    ]
    assert outcomes == [Outcome.TESTER_LIMITED, Outcome.FAIL]


def test_counters_are_judged_even_if_the_tester_is_slow(summary: RunSummary) -> None:
    verdict = judged(starved(summary), rule("incomplete", "at most", 0))
    assert verdict.outcome is Outcome.PASS
    assert verdict.tester.problems == ("an agent waited for a core 50 % of the time",)


def test_a_failure_that_is_not_the_testers_outweighs_its_limits(summary: RunSummary) -> None:
    verdict = judged(starved(summary), rule("cct_p50", "at least", 1), rule("incomplete", "above", 0))
    assert verdict.outcome is Outcome.FAIL


def test_an_aborted_run_does_not_pass(summary: RunSummary) -> None:
    verdict = judged(replace(summary, status=ABORTED), rule("jct", "at most", 500))
    assert verdict.outcome is Outcome.UNDECIDED


def test_without_rules_nothing_is_decided(summary: RunSummary) -> None:
    verdict = judge(summary, None)
    assert (verdict.outcome, verdict.findings, verdict.decisive) == (Outcome.UNDECIDED, (), None)


@given(st.sampled_from(_KINDS), st.floats(0, 1e6), st.booleans())
def test_no_pass_without_a_value_that_meets_the_bound(
    summary: RunSummary, kind: str, limit: float, is_limited: bool
) -> None:
    one = rule("cct_p50", kind, limit)
    verdict = judged(limited(summary) if is_limited else summary, one)
    holds = one.bound.holds(100.0)
    assert (verdict.outcome is Outcome.PASS) == (holds and not (is_limited and one.bound.is_lower))
    assert (verdict.outcome is Outcome.FAIL) == (not holds and not is_limited)
