import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator import exit_codes
from emulator.results.run_folder.manifest import ABORTED
from emulator.results.statistics.class_summary import NetworkPart
from emulator.results.statistics.metric import IterationKey, Reading
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.iterations import MeasuredIteration
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.traffic.dut_counters import UNREAD
from emulator.results.statistics.uncertainty import Budget, Component
from emulator.results.verdict.judge import Outcome, Verdict, judge, judge_tester
from emulator.results.verdict.rules import MetricBound, Rule, Rules, Selection
from tests.support.runs import collective, ranks, write_run

_KINDS = ("at most", "at least", "below", "above")


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """An all-reduce of two ranks: 100 ns where 80 ns would be ideal, JCT 500 ns."""
    rows = [one for n in (0, 1) for one in collective([0, 0], [100, 100], iteration=n, ideal_ns=80)]
    spans = {n: ranks((0, 500), (0, 400)) for n in (0, 1)}
    return summarise(write_run(tmp_path_factory.mktemp("judge") / "run", rows, iterations=spans))


def rule(metric: str, kind: str, limit: float, where: Selection | None = None) -> Rule:
    return Rule(METRICS[metric], MetricBound(kind, limit, f"{limit:g}"), where or Selection())  # type: ignore[arg-type]


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
    assert verdict.decisive.rule.metric.name == "busbw_to_ideal"
    assert (verdict.count(Outcome.FAIL), verdict.count(Outcome.PASS)) == (1, 1)


@pytest.mark.parametrize(("metric", "limit"), [("busbw_to_ideal", 90), ("slowest_to_mean", 2)])
def test_a_share_of_ideal_or_a_ratio_of_times_is_undecided_if_the_tester_is_unknown(
    summary: RunSummary, metric: str, limit: float
) -> None:
    verdict = judged(summary, rule("jct", "at most", 500), rule(metric, "at least", limit))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNDECIDED, exit_codes.UNDECIDED)
    assert verdict.findings[0].reason.startswith(
        "the device or the tester may be the reason: `charkha agent calibrate`"
    )
    for known in (rule("jct", "at most", 400), rule("cct_p50", "at most", 10)):
        assert judged(summary, known, rule(metric, "at least", limit)).outcome is Outcome.FAIL


def test_of_several_failures_the_one_farthest_from_its_limit_comes_first(summary: RunSummary) -> None:
    verdict = judged(summary, rule("jct", "at most", 490), rule("cct_p50", "at most", 10))
    assert verdict.decisive.rule.metric.name == "cct_p50"


def test_of_counters_that_should_be_zero_the_first_rule_decides_not_the_largest_counter(summary: RunSummary) -> None:
    counters = {"retransmits": 5, "out_of_order": 90_000}
    lossy = replace(summary, totals=replace(summary.totals, counters=counters))
    verdict = judged(lossy, rule("retransmissions", "at most", 0), rule("out_of_order", "at most", 0))
    assert [one.rule.metric.name for one in verdict.findings] == ["retransmissions", "out_of_order"]


def test_what_was_not_measured_is_undecided_and_never_passes(summary: RunSummary) -> None:
    for one, reason in (
        (rule("device_drops", "at most", 0), "not measured"),
        (rule("jct_to_ideal", "at most", 1.05), "not measured"),
        (rule("frames_lost", "at most", 0), "no device counted frames"),
    ):
        verdict = judged(summary, rule("jct", "at most", 500), one)
        assert (verdict.outcome, verdict.exit_code) == (Outcome.UNDECIDED, exit_codes.UNDECIDED)
        assert verdict.decisive.reason == reason


def test_counters_that_broke_off_do_not_say_that_the_device_dropped_little(summary: RunSummary) -> None:
    whole = replace(summary, totals=replace(summary.totals, dut={"rx_dropped": 3}, is_dut_monitored=True))
    broken = replace(whole, warnings={f"{UNREAD}: s1 sent nothing": 1})
    for one, limit, outcome in (
        (whole, 3, Outcome.PASS),
        (whole, 2, Outcome.FAIL),
        (broken, 3, Outcome.UNDECIDED),
        (broken, 2, Outcome.FAIL),
    ):
        assert judged(one, rule("device_drops", "at most", limit)).outcome is outcome
    decisive = judged(broken, rule("device_drops", "at most", 3)).decisive
    assert decisive is not None
    assert decisive.reason == f"{UNREAD}: s1 sent nothing"


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
        ("at least", 200): Outcome.FAIL,  # the tester can only have added to the 100 ns
        ("above", 50): Outcome.TESTER_LIMITED,
        ("above", 200): Outcome.FAIL,
    }


@pytest.mark.parametrize(
    ("ideal", "tester", "is_starved", "metric", "kind", "limit", "outcome"),
    [  # ideal and tester in % of the measured 100 ns; 1000 B in 100 ns are 10 GB/s
        (80, 3, False, "busbw_to_ideal", "at least", 80, Outcome.PASS),
        (80, 3, False, "busbw_to_ideal", "at least", 90, Outcome.FAIL),  # perfect: 80 / 84.8 = 94.3 %
        (80, 9, False, "busbw_to_ideal", "at least", 90, Outcome.TESTER_LIMITED),  # perfect: 80 / 94.4 = 84.7 %
        (80, 9, False, "busbw_to_ideal", "at least", 84, Outcome.FAIL),
        (80, 9, True, "busbw_to_ideal", "at least", 84, Outcome.TESTER_LIMITED),
        (95, 3, True, "busbw_to_ideal", "at least", 90, Outcome.PASS),
        (95, 3, True, "busbw_to_ideal", "at most", 96, Outcome.TESTER_LIMITED),
        (80, 3, False, "cct_p50", "at most", 100, Outcome.PASS),
        (80, 3, False, "cct_p50", "at most", 85, Outcome.FAIL),  # perfect: 80 + 1.6 * 3 = 84.8 ns
        (80, 3, False, "cct_p50", "at most", 84, Outcome.TESTER_LIMITED),
        (80, 3, True, "cct_p50", "at most", 83, Outcome.TESTER_LIMITED),
        (80, 3, True, "cct_p50", "at most", 100, Outcome.PASS),
        (None, 50, False, "cct_p50", "at most", 80, Outcome.FAIL),  # no ideal: what the tester adds to nothing
        (None, 50, False, "cct_p50", "at most", 79, Outcome.TESTER_LIMITED),
        (80, 3, False, "busbw", "at least", 11.7e9, Outcome.FAIL),  # perfect: 10 GB/s / 0.848 = 11.79 GB/s
        (80, 3, False, "busbw", "at least", 11.8e9, Outcome.TESTER_LIMITED),
        (80, 3, False, "busbw", "at least", 10e9, Outcome.PASS),
        (80, 3, False, "slowest_to_mean", "below", 0.9, Outcome.TESTER_LIMITED),  # the tester may make 84.8 / 80
        (80, 3, True, "slowest_to_mean", "below", 1.1, Outcome.TESTER_LIMITED),  # either way: not even a pass
        (80, 3, False, "slowest_to_mean", "below", 1.1, Outcome.PASS),
        (80, 3, True, "incomplete", "at most", 0, Outcome.PASS),
        (80, 3, True, "incomplete", "above", 0, Outcome.FAIL),
    ],
)
def test_a_failure_is_what_a_perfect_device_would_not_have_shown_with_this_tester(
    summary: RunSummary,
    ideal: float | None,
    tester: float,
    is_starved: bool,
    metric: str,
    kind: str,
    limit: float,
    outcome: Outcome,
) -> None:
    run = calibrated(summary, tester)
    run = replace(run, classes=tuple(replace(one, ideal_percent=ideal) for one in run.classes))
    (found,) = judged(starved(run) if is_starved else run, rule(metric, kind, limit)).findings
    assert found.outcome is outcome


def test_both_figures_stand_beside_a_failure(summary: RunSummary) -> None:
    (found,) = judged(calibrated(summary, 3.0), rule("busbw_to_ideal", "at least", 90)).findings
    assert (found.value, found.perfect) == (pytest.approx(80), pytest.approx(80 / 0.848))


def test_the_jct_of_a_perfect_device_has_the_testers_time_in_it(summary: RunSummary) -> None:
    # 500 ns measured, 400 ns ideal; one collective of 100 ns an iteration, of which the tester adds 20 ns, at most 32.
    assert summary.iteration is not None
    run = replace(calibrated(summary, 20.0), iteration=replace(summary.iteration, roofline_ratio=1.25))
    for limit, outcome in ((1.09, Outcome.FAIL), (1.07, Outcome.TESTER_LIMITED), (1.25, Outcome.PASS)):
        (found,) = judged(run, rule("jct_to_ideal", "at most", limit)).findings
        assert (found.outcome, found.perfect) == (outcome, pytest.approx(1.08))


@pytest.mark.parametrize("metric", ["cct_p99", "cct_max"])
def test_a_tail_fails_only_if_the_median_does(summary: RunSummary, metric: str) -> None:
    tail = tuple(replace(one, cct_p99_ns=900.0, cct_max_ns=900.0) for one in calibrated(summary).classes)
    run = replace(summary, classes=tail)
    for limit, outcome in ((99, Outcome.FAIL), (100, Outcome.TESTER_LIMITED), (900, Outcome.PASS)):
        assert judged(run, rule(metric, "at most", limit)).outcome is outcome


def test_a_maximum_fails_if_it_misses_without_the_testers_waits_too(summary: RunSummary) -> None:
    tail = {"cct_max_ns": 900.0, "core_wait_fraction": 0.05, "cct_max_without_waits_ns": 600.0}
    run = replace(summary, classes=tuple(replace(one, **tail) for one in calibrated(summary).classes))
    for limit, outcome in ((599, Outcome.FAIL), (600, Outcome.TESTER_LIMITED), (900, Outcome.PASS)):
        assert judged(run, rule("cct_max", "at most", limit)).outcome is outcome


def test_a_class_is_in_doubt_by_its_own_waits_whatever_the_rest_of_the_run_does(summary: RunSummary) -> None:
    def run(own: float | None) -> RunSummary:
        classes = tuple(replace(one, core_wait_fraction=own) for one in calibrated(summary).classes)
        return starved(replace(summary, classes=classes))

    for own, outcome in ((0.1, Outcome.FAIL), (0.3, Outcome.TESTER_LIMITED), (None, Outcome.TESTER_LIMITED)):
        assert judged(run(own), rule("busbw_to_ideal", "at least", 90)).outcome is outcome


@pytest.mark.parametrize(
    ("metric", "kind", "limit", "most"), [("busbw_to_ideal", "at least", 90, 0.11), ("cct_p50", "at most", 90, 0.09)]
)
def test_a_class_fails_only_if_it_misses_without_its_waits_too(
    summary: RunSummary, metric: str, kind: str, limit: float, most: float
) -> None:
    def run(own: float) -> RunSummary:
        return replace(summary, classes=tuple(replace(one, core_wait_fraction=own) for one in summary.classes))

    summary = calibrated(summary)  # 80 % of ideal, 100 ns
    (short,) = judged(run(most), rule(metric, kind, limit)).findings
    (enough,) = judged(run(most + 0.02), rule(metric, kind, limit)).findings
    assert (short.outcome, enough.outcome) == (Outcome.FAIL, Outcome.TESTER_LIMITED)
    assert "without its waits for a core" in enough.reason


def test_a_share_of_ideal_is_no_evidence_where_others_crossed_the_same_ports(summary: RunSummary) -> None:
    def run(others: float) -> RunSummary:
        classes = tuple(replace(one, others=others) for one in calibrated(summary).classes)
        return replace(summary, classes=classes)

    (alone,) = judged(run(0.05), rule("busbw_to_ideal", "at least", 90)).findings
    (shared,) = judged(run(0.06), rule("busbw_to_ideal", "at least", 90)).findings
    assert (alone.outcome, shared.outcome, shared.perfect) == (Outcome.FAIL, Outcome.UNDECIDED, None)
    assert shared.reason.startswith("other collectives crossed its ports")
    assert judged(run(0.06), rule("busbw_to_ideal", "at least", 80)).outcome is Outcome.PASS


def test_one_slow_iteration_is_no_evidence_and_most_of_them_are(summary: RunSummary) -> None:
    run = with_iterations(summary, 0, 0, 0)  # 100, 200, 300 ns
    for limit, outcome in ((150, Outcome.FAIL), (250, Outcome.TESTER_LIMITED), (300, Outcome.PASS)):
        assert judged(run, rule("iteration_jct", "at most", limit)).outcome is outcome


@pytest.mark.parametrize("metric", ["retransmissions", "unexplained_retransmissions"])
def test_counts_of_loss_are_in_doubt_where_a_receiving_host_dropped(summary: RunSummary, metric: str) -> None:
    def run(drops: int) -> RunSummary:
        counts = {"counters": {"retransmits": 5}, "unexplained_retransmissions": 5, "receiver_drops": drops}
        return replace(summary, totals=replace(summary.totals, **counts))

    assert judged(starved(run(0)), rule(metric, "at most", 0)).outcome is Outcome.FAIL
    assert judged(run(1), rule(metric, "at most", 0)).outcome is Outcome.TESTER_LIMITED


def test_what_crosses_no_port_has_no_share_of_its_rate(summary: RunSummary) -> None:
    local, remote = (replace(summary.classes[0], where=where) for where in ("in a host", "between hosts"))
    both = replace(summary, crosses_ports=True, classes=(replace(local, ideal_percent=None), remote))
    (found,) = judged(both, rule("busbw_to_ideal", "at least", 80)).findings
    assert (found.outcome, found.subject) == (Outcome.PASS, remote.key)
    (found,) = judged(replace(both, classes=both.classes[:1]), rule("busbw_to_ideal", "at least", 80)).findings
    assert (found.outcome, found.reason) == (Outcome.UNDECIDED, "no class of the run matches")


def test_a_run_on_one_host_has_one_row_for_a_rule_on_the_rate_of_ports(summary: RunSummary) -> None:
    classes = tuple(replace(summary.classes[0], size_bytes=size, ideal_percent=None) for size in (1_000, 2_000))
    alone = replace(summary, classes=classes, crosses_ports=False)
    (found,) = judged(alone, rule("busbw_to_ideal", "at least", 80)).findings
    assert (found.outcome, found.subject) == (Outcome.UNDECIDED, None)
    assert found.reason.startswith("nothing crossed a port")
    assert len(judged(replace(alone, crosses_ports=True), rule("busbw_to_ideal", "at least", 80)).findings) == 2


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
    assert (verdict.outcome is Outcome.FAIL) == (not holds and (one.bound.is_lower or not is_limited))


def with_tester(summary: RunSummary, **facts: object) -> RunSummary:
    return replace(summary, tester=replace(summary.tester, **facts))  # type: ignore[arg-type]


def test_a_quiet_tester_has_no_problem(summary: RunSummary) -> None:
    quiet = with_tester(summary, core_wait_fraction=0.2, steal_fraction=0.02, post_lateness_median_ns=10)
    assert judge_tester(quiet).problems == ()
    assert judge_tester(quiet).doubt() == ""


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"core_wait_fraction": 0.21}, "an agent waited for a core 21 % of the time"),
        ({"steal_fraction": 0.021}, "the hypervisor took 2.1 % of the cores' time (steal)"),
        ({"post_lateness_median_ns": 11}, "posts were 11 ns late at the median, the shortest cct is 100 ns"),
    ],
)
def test_each_sign_of_a_slow_tester_is_named_with_its_figure(
    summary: RunSummary, facts: dict[str, float], problem: str
) -> None:
    assert judge_tester(with_tester(summary, **facts)).problems == (problem,)


def test_a_class_is_judged_by_the_waits_during_its_own_collectives(summary: RunSummary) -> None:
    state = judge_tester(with_tester(summary, core_wait_fraction=0.5, post_lateness_median_ns=900))
    assert state.doubt(Reading(None, 1.0)) == "an agent waited for a core 50 % of the time"
    assert state.doubt(Reading(None, 1.0, core_wait_fraction=0.3)) == "an agent waited for a core 30 % of the time"
    assert state.doubt(Reading(None, 1.0, core_wait_fraction=0.1)) == ""
    stolen = judge_tester(with_tester(summary, steal_fraction=0.1))
    assert stolen.doubt(Reading(None, 1.0, core_wait_fraction=0.1)).startswith("the hypervisor took 10.0 %")


def test_drops_in_a_receiving_host_are_the_testers(summary: RunSummary) -> None:
    lossy = replace(summary, totals=replace(summary.totals, receiver_drops=1234))
    assert judge_tester(lossy).doubt() == "the receiving hosts dropped datagrams 1,234 times: their buffers were full"


def test_calibration_is_known_by_the_share_of_any_class(summary: RunSummary) -> None:
    assert not judge_tester(summary).is_calibrated
    calibrated = replace(summary, classes=tuple(replace(one, tester_percent=3.0) for one in summary.classes))
    assert judge_tester(calibrated).is_calibrated


def part(ideal_percent: float, **more: NetworkPart | Mapping[str, Budget] | None) -> NetworkPart:
    """What a network's part shows that reaches this share of ideal, in a time of as many ns."""
    return NetworkPart(10_000 / ideal_percent, None, 10_000 / ideal_percent, 1.0, 1.0, 1.0, ideal_percent, **more)


def split(summary: RunSummary, *, network: float, at_best: float, perfect: float) -> RunSummary:
    """The same, with a network's part that reaches such shares of ideal."""
    found = part(network, at_best=part(at_best), perfect=part(perfect))
    return replace(
        summary, classes=tuple(replace(one, network=found, core_wait_fraction=0.6) for one in summary.classes)
    )


@pytest.mark.parametrize(
    ("network", "at_best", "perfect", "outcome"),
    [
        (95, 97, 90, Outcome.PASS),
        (70, 75, 95, Outcome.FAIL),
        (89, 91, 95, Outcome.TESTER_LIMITED),
        (70, 75, 85, Outcome.TESTER_LIMITED),
        (200, 300, 95, Outcome.TESTER_LIMITED),
    ],
    ids=["meets", "misses", "within its error", "no perfect device would meet it", "around the ports"],
)
def test_a_share_of_ideal_that_misses_its_limit_is_judged_by_the_networks_part(
    summary: RunSummary, network: float, at_best: float, perfect: float, outcome: Outcome
) -> None:
    found = judged(
        split(summary, network=network, at_best=at_best, perfect=perfect), rule("busbw_to_ideal", "at least", 90)
    )
    assert found.outcome is outcome
    assert found.decisive.network == network
    assert found.decisive.value == pytest.approx(80)  # what it was for the whole time


def test_a_whole_time_that_meets_its_limit_passes_whatever_the_network_shows(summary: RunSummary) -> None:
    found = judged(split(summary, network=10, at_best=10, perfect=10), rule("busbw_to_ideal", "at least", 70))
    assert found.outcome is Outcome.PASS


def test_the_network_is_not_cleared_if_the_rest_can_be_the_repair_of_losses(summary: RunSummary) -> None:
    clean = split(summary, network=95, at_best=97, perfect=95)
    lossy = replace(clean, totals=replace(clean.totals, lost_packets=3, receiver_drops=0))
    assert judged(clean, rule("busbw_to_ideal", "at least", 90)).outcome is Outcome.PASS
    assert lossy.totals.lost
    assert judged(lossy, rule("busbw_to_ideal", "at least", 90)).outcome is Outcome.TESTER_LIMITED


def budget(value: float, chance: float, *, late: float = 0.0, iterations: int = 40) -> Budget:
    """U is twice the root of the squares of what comes from chance and from late stamps."""
    parts = (Component("repeat", chance, "A", "blocks"), Component("stamp", late, "B", "stamps"))
    standard = math.hypot(chance, late)
    return Budget(value, standard, 2 * standard, parts, iterations=iterations)


def stated(summary: RunSummary, **budgets: Budget) -> RunSummary:
    """The same run, calibrated, with these budgets of its class."""
    return replace(
        summary, classes=tuple(replace(one, uncertainty=budgets) for one in calibrated(summary, 1.0).classes)
    )


@pytest.mark.parametrize(
    ("metric", "kind", "limit", "chance", "outcome"),
    [  # 80 % of ideal in 100 ns
        ("busbw_to_ideal", "at least", 78, 0.9, Outcome.PASS),
        ("busbw_to_ideal", "at least", 78, 1.1, Outcome.UNDECIDED),
        ("busbw_to_ideal", "at least", 82, 0.9, Outcome.FAIL),
        ("busbw_to_ideal", "at least", 82, 1.1, Outcome.UNDECIDED),
        ("busbw_to_ideal", "above", 60, 9.9, Outcome.PASS),
        ("cct_p50", "at most", 103, 1.4, Outcome.PASS),
        ("cct_p50", "at most", 103, 1.6, Outcome.UNDECIDED),
        ("cct_p50", "at most", 97, 1.4, Outcome.FAIL),
        ("cct_p50", "at most", 97, 1.6, Outcome.UNDECIDED),
        ("cct_p50", "at least", 103, 1.4, Outcome.FAIL),
        ("cct_p50", "at least", 103, 1.6, Outcome.UNDECIDED),
    ],
)
def test_a_bound_within_the_uncertainty_is_undecided(
    summary: RunSummary, metric: str, kind: str, limit: float, chance: float, outcome: Outcome
) -> None:
    value, name = (80.0, "ideal_percent") if metric == "busbw_to_ideal" else (100.0, "cct_p50_ns")
    (found,) = judged(stated(summary, **{name: budget(value, chance)}), rule(metric, kind, limit)).findings
    assert (found.outcome, found.uncertainty, found.no_uncertainty) == (outcome, pytest.approx(2 * chance), "")
    assert ("iterations would decide" in found.reason) is (outcome is Outcome.UNDECIDED)


def test_an_undecided_check_says_how_many_iterations_would_decide(summary: RunSummary) -> None:
    run = stated(summary, cct_p50_ns=budget(100, 2))
    (found,) = judged(run, rule("cct_p50", "at most", 102)).findings
    assert found.reason == "the bound is within its uncertainty (U 4 %): about 160 iterations would decide"
    (found,) = judged(run, rule("cct_p50", "at most", 100.0)).findings
    assert found.reason == "the bound is within its uncertainty (U 4 %): more iterations would not decide"


def test_late_stamps_do_not_spoil_a_pass_but_a_fail(summary: RunSummary) -> None:
    run = stated(summary, cct_p50_ns=budget(100, 0.1, late=3))
    assert judged(run, rule("cct_p50", "at most", 101)).outcome is Outcome.PASS
    assert judged(run, rule("cct_p50", "at most", 95)).outcome is Outcome.UNDECIDED
    assert judged(run, rule("cct_p50", "at most", 93)).outcome is Outcome.FAIL
    assert judged(run, rule("cct_p50", "at least", 98)).outcome is Outcome.UNDECIDED
    assert judged(run, rule("cct_p50", "at least", 101)).outcome is Outcome.FAIL


def test_without_a_stated_uncertainty_the_value_alone_is_compared(summary: RunSummary) -> None:
    unknown = Budget(100.0, None, None, (), "one iteration")
    for limit, outcome in ((100, Outcome.PASS), (99, Outcome.FAIL)):
        (found,) = judged(stated(summary, cct_p50_ns=unknown), rule("cct_p50", "at most", limit)).findings
        assert (found.outcome, found.uncertainty, found.no_uncertainty) == (outcome, None, "one iteration")
    counted = judged(summary, rule("incomplete", "at most", 0)).findings[0]
    assert (counted.outcome, counted.no_uncertainty) == (Outcome.PASS, "exact: a count")
    (tail,) = judged(calibrated(summary), rule("cct_max", "at most", 100)).findings
    assert tail.no_uncertainty == "only of medians and what follows from them"


def test_a_doubtful_tester_stays_the_reason_whatever_the_uncertainty(summary: RunSummary) -> None:
    run = starved(stated(summary, cct_p50_ns=budget(100, 5)))
    assert judged(run, rule("cct_p50", "at most", 95)).outcome is Outcome.TESTER_LIMITED


@pytest.mark.parametrize(
    ("limit", "network", "at_best", "outcome"),
    [  # 80 % of ideal measured; 88 % in the network, 89 % at best
        (85, 1.4, 0.1, Outcome.PASS),
        (85, 1.6, 0.1, Outcome.UNDECIDED),
        (92, 9.0, 1.4, Outcome.FAIL),
        (92, 0.1, 1.6, Outcome.UNDECIDED),
    ],
)
def test_where_the_network_decides_its_uncertainty_does(
    summary: RunSummary, limit: float, network: float, at_best: float, outcome: Outcome
) -> None:
    best = part(89.0, uncertainty={"ideal_percent": budget(89, at_best)})
    found = part(88.0, at_best=best, perfect=part(100.0), uncertainty={"ideal_percent": budget(88, network)})
    run = stated(summary, ideal_percent=budget(80, 20))
    run = replace(run, classes=tuple(replace(one, network=found) for one in run.classes))
    assert judged(run, rule("busbw_to_ideal", "at least", limit)).outcome is outcome


def test_a_scattering_tester_does_not_hide_a_network_that_surely_meets_its_bound(summary: RunSummary) -> None:
    run = stated(summary, ideal_percent=budget(80, 5))
    for network, chance, is_lossy, outcome in (
        (88.0, 1.4, False, Outcome.PASS),
        (88.0, 6.0, False, Outcome.UNDECIDED),
        (88.0, 1.4, True, Outcome.UNDECIDED),
    ):
        found = part(network, uncertainty={"ideal_percent": budget(network, chance)})
        split_run = replace(
            run,
            classes=tuple(replace(one, network=found) for one in run.classes),
            totals=replace(run.totals, lost_packets=3 if is_lossy else 0),
        )
        assert judged(split_run, rule("busbw_to_ideal", "at least", 79)).outcome is outcome
