"""Runs of one job judged as one: planted values lie within U, and verdicts and numbers of runs are arithmetic's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from uncertainties import ufloat

from emulator.results.comparison.uncertainty import over_runs, readings_over
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.uncertainty import Repeat, Sources
from emulator.results.verdict.judge import Finding, Outcome, Verdict, judge
from emulator.results.verdict.rules import MetricBound, Rule, Rules, Selection
from emulator.views.columns.uncertainty_columns import stated_figures
from emulator.views.verdict_text import headline
from tests.support.runs import collective, ranks, write_run

TRIALS, FEWEST_WITHIN, WIDEST = 40, 35, 5.0
NS, IDEAL_NS, SIZE_BYTES = 10_000_000, 8_000_000, 1_000
QUIET = Sources(0.0, 0.0, "none", 0.0, "none", None)
Make = Callable[..., RunSummary]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a run of the median time that is given, whose iterations say nothing of chance."""
    rows = [one for n in (0, 1) for one in collective([0, 0], [100, 100], iteration=n, ideal_ns=80)]
    spans = {n: ranks((0, 500), (0, 400)) for n in (0, 1)}
    base = summarise(write_run(tmp_path_factory.mktemp("one") / "run", rows, iterations=spans))

    def make(median_ns: float, sources: Sources = QUIET, *, lost: int | None = None) -> RunSummary:
        repeat = Repeat(1e-9, 40, 10)
        rate, percent = SIZE_BYTES * 1e9 / median_ns, 100 * IDEAL_NS / median_ns
        figures = {"cct_p50_ns": median_ns, "busbw_bytes_per_s": rate, "ideal_percent": percent}
        budgets = sources.budgets(figures, median_ns, by_time=repeat, by_rate=repeat)
        jct = sources.budgets({"jct_ns": median_ns}, median_ns, by_time=repeat, by_rate=repeat)
        classes = tuple(replace(one, tester_percent=3.0, uncertainty=budgets, **figures) for one in base.classes)
        assert base.iteration is not None
        iteration = replace(base.iteration, jct_ns=median_ns, uncertainty=jct)
        totals = replace(base.totals, lost_packets=lost)
        return replace(base, classes=classes, iteration=iteration, totals=totals)

    return make


def rule(metric: str, kind: str, limit: float) -> Rule:
    return Rule(METRICS[metric], MetricBound(kind, limit, f"{limit:g}"), Selection())  # type: ignore[arg-type]


def judged(runs: Sequence[RunSummary], *rules: Rule) -> Verdict:
    return judge(runs[0], Rules("test", rules), others=runs[1:])


def only(runs: Sequence[RunSummary], *rules: Rule) -> Finding:
    (found,) = judged(runs, *rules).findings
    return found


def spread(random: np.random.Generator, runs: int) -> np.ndarray:
    """Runs differ by 0.5 %."""
    return NS * (1 + 0.005 * random.normal(size=runs))


def skewed(random: np.random.Generator, runs: int) -> np.ndarray:
    """Some runs were disturbed; their median is that of the rest. What is planted is the middle of the distribution."""
    return NS * np.exp(0.005 * random.normal(size=runs) + 0.001 * (random.exponential(size=runs) - math.log(2)))


def clocked(random: np.random.Generator, runs: int) -> np.ndarray:
    """The clocks of the agents are off by the same in all runs, within their bound."""
    return spread(random, runs) + random.uniform(-200_000, 200_000)


def stamped(random: np.random.Generator, runs: int) -> np.ndarray:
    return spread(random, runs) + random.uniform(0, 100_000)


CASES = {
    "spread": (spread, QUIET),
    "skewed": (skewed, QUIET),
    "clock": (clocked, Sources(200_000, 0.0, "none", 0.0, "none", None)),
    "stamp": (stamped, Sources(0.0, 100_000, "late", 0.0, "none", None)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("metric", ["cct_p50", "busbw", "jct"])
@pytest.mark.parametrize("count", [6, 12])
def test_what_was_planted_lies_within_the_uncertainty_of_several_runs(
    run_of: Make, case: str, metric: str, count: int
) -> None:
    planted = {"cct_p50": NS, "busbw": SIZE_BYTES * 1e9 / NS, "jct": NS}[metric]
    draw, sources = CASES[case]
    found = []
    for seed in range(TRIALS):
        values = draw(np.random.default_rng([seed, count, list(CASES).index(case)]), count)
        (one,) = readings_over(METRICS[metric], [run_of(value, sources) for value in values]) or ()
        assert one.budget is not None
        assert one.budget.expanded is not None
        found.append((abs(one.budget.value - planted), one.budget.expanded))
    assert sum(error <= expanded for error, expanded in found) >= FEWEST_WITHIN
    assert np.median([expanded / max(error, 1e-12) for error, expanded in found]) <= WIDEST


@pytest.mark.parametrize("count", [4, 6, 12])
def test_in_many_trials_about_95_percent_lie_within(count: int) -> None:
    within = 0
    for seed in range(1000):
        found = over_runs(spread(np.random.default_rng([seed, count]), count), ())
        within += abs(found.value - NS) <= 2 * (found.components[0].standard or 0)
    assert 935 <= within <= 970


def test_an_error_that_all_runs_share_would_not_be_covered_by_their_spread(run_of: Make) -> None:
    """The same trials as with a clock that is off, with the spread alone."""
    within = 0
    for seed in range(TRIALS):
        values = clocked(np.random.default_rng([seed, 8, len("clock")]), 8)
        (one,) = readings_over(METRICS["cct_p50"], [run_of(value) for value in values]) or ()
        assert one.budget is not None
        within += abs(one.budget.value - NS) <= (one.budget.expanded or 0)
    assert within < FEWEST_WITHIN


def even(count: int, deviation: float) -> list[float]:
    """Times around NS whose logarithms have exactly this standard deviation, and whose estimate is exactly NS."""
    at = np.linspace(-1, 1, count)
    return [float(value) for value in NS * np.exp(at * deviation / np.std(at, ddof=1))]


def expected_u(count: int, deviation: float, *bounds: float) -> float:
    """The oracle: Student's t on runs, and bounds that are rectangular; relative."""
    t = stats.t.ppf(NormalDist().cdf(2), count - 1)
    parts = [
        ufloat(0, float(t / 2 * deviation / math.sqrt(count))),
        *(ufloat(0, bound / math.sqrt(3)) for bound in bounds),
    ]
    return 2 * float(sum(parts).std_dev)


@pytest.mark.parametrize("count", [4, 6, 12])
@pytest.mark.parametrize(
    ("kind", "side", "outcome"),
    [  # the limit lies so many U above the value
        ("at most", 1.05, Outcome.PASS),
        ("at most", 0.95, Outcome.UNDECIDED),
        ("at most", -0.95, Outcome.UNDECIDED),
        ("at most", -1.05, Outcome.FAIL),
        ("at least", 1.05, Outcome.FAIL),
        ("at least", -1.05, Outcome.PASS),
    ],
)
def test_a_limit_is_met_missed_or_within_the_uncertainty(
    run_of: Make, count: int, kind: str, side: float, outcome: Outcome
) -> None:
    sources = Sources(30_000, 0.0, "none", 0.0, "none", None)
    u = expected_u(count, 0.01, 30_000 / NS)
    found = only([run_of(one, sources) for one in even(count, 0.01)], rule("cct_p50", kind, NS * (1 + side * u)))
    assert found.value == pytest.approx(NS)
    assert found.uncertainty == pytest.approx(NS * u, rel=1e-6)
    assert found.outcome is outcome
    assert (found.needs is not None) is (outcome is Outcome.UNDECIDED)


@pytest.mark.parametrize(("count", "off"), [(4, 0.010), (4, 0.005), (6, 0.003), (6, 0.0007), (10, 0.0001)])
def test_so_many_runs_decide_as_it_says_and_one_fewer_does_not(run_of: Make, count: int, off: float) -> None:
    """With the same spread and middle: played, not computed."""
    limit = rule("cct_p50", "at most", NS * (1 + off))
    found = only([run_of(one) for one in even(count, 0.01)], limit)
    assert found.outcome is Outcome.UNDECIDED
    needs = found.needs or 0
    assert needs > count
    assert found.reason.endswith(f"about {needs:,} runs would decide")
    if needs < 200:
        assert only([run_of(one) for one in even(needs, 0.01)], limit).outcome is Outcome.PASS
        assert only([run_of(one) for one in even(needs - 1, 0.01)], limit).outcome is Outcome.UNDECIDED
    else:  # so many are not played: t is 2
        assert needs == pytest.approx((2 * 0.01 / off) ** 2, rel=0.01)


def test_runs_that_are_added_decide_about_when_they_should(run_of: Make) -> None:
    """Drawn, not even: from 4 runs on until the check is decided, in every trial to PASS, as it was planted."""
    limit, random = rule("cct_p50", "at most", NS * 1.004), np.random.default_rng(7)
    ratios, outcomes = [], []
    for _ in range(TRIALS):
        runs = [run_of(one) for one in NS * (1 + 0.01 * random.normal(size=16))]
        first = only(runs, limit)
        if first.outcome is not Outcome.UNDECIDED or not first.needs:
            continue
        while (found := only(runs, limit)).outcome is Outcome.UNDECIDED and len(runs) < 400:
            runs.append(run_of(NS * (1 + 0.01 * random.normal())))
        outcomes.append(found.outcome)
        ratios.append(len(runs) / first.needs)
    assert len(outcomes) > TRIALS / 3
    assert sum(one is Outcome.PASS for one in outcomes) >= FEWEST_WITHIN / TRIALS * len(outcomes)
    assert 0.3 <= np.median(ratios) <= 3


def test_more_runs_do_not_decide_what_all_of_them_have_in_common(run_of: Make) -> None:
    sources = Sources(100_000, 0.0, "none", 0.0, "none", None)
    found = only([run_of(one, sources) for one in even(6, 0.01)], rule("cct_p50", "at most", NS + 50_000))
    assert (found.outcome, found.needs) == (Outcome.UNDECIDED, 0)
    assert found.reason.endswith("more runs would not decide")


@pytest.mark.parametrize(("limit", "outcome"), [(1.001 * NS, Outcome.PASS), (0.999 * NS, Outcome.FAIL)])
def test_of_too_few_runs_the_value_alone_is_compared(run_of: Make, limit: float, outcome: Outcome) -> None:
    found = only([run_of(NS)] * 3, rule("cct_p50", "at most", limit))
    assert (found.outcome, found.uncertainty) == (outcome, None)
    assert found.no_uncertainty == "3 runs, and 4 are the fewest"


def test_counts_are_judged_in_each_run_and_the_gravest_decides(run_of: Make) -> None:
    runs = [run_of(NS, lost=lost) for lost in (0, 0, 3, 0)]
    limit = rule("retransmissions", "at most", 0)
    counted = [
        replace(one, totals=replace(one.totals, counters={"retransmits": one.totals.lost_packets or 0})) for one in runs
    ]
    verdict = judged(counted, limit)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].value == 3
    assert verdict.findings[0].reason == "in 1 of 4 runs"
    assert headline(verdict).endswith("1 of 1 check is FAIL; over 4 runs; test")
    assert judged(counted[:2], limit).outcome is Outcome.PASS


def test_what_one_run_did_not_measure_is_not_judged_over_all(run_of: Make) -> None:
    whole, limit = run_of(NS), rule("busbw", "at least", 1)
    lacking = replace(whole, classes=tuple(replace(one, busbw_bytes_per_s=None) for one in whole.classes))
    found = only([whole] * 4 + [lacking], limit)
    assert (found.outcome, found.value, found.reason) == (Outcome.UNDECIDED, None, "not measured in 1 of 5 runs")
    assert only([whole] * 4 + [replace(whole, classes=())], limit).reason == "not measured in 1 of 5 runs"


def test_a_starved_run_makes_the_set_tester_limited(run_of: Make) -> None:
    runs = [run_of(one) for one in even(6, 0.001)]
    starved = replace(runs[0], tester=replace(runs[0].tester, core_wait_fraction=0.5))
    found = only([*runs[1:], starved], rule("jct", "at most", NS))
    assert found.outcome is Outcome.TESTER_LIMITED
    assert found.reason.endswith("(1 of 6 runs)")


def test_the_figures_of_one_run_and_of_several_are_stated_the_same_way(run_of: Make) -> None:
    one = run_of(NS, Sources(0.0, 100.0, "stamps", 0.003, "rates", 0.001))
    alone, several = list(stated_figures(one)), list(stated_figures(*[one] * 6))
    names = [(row.of, row.figure) for row in alone]
    assert names == [(row.of, row.figure) for row in several]
    assert [name for _, name in names] == ["jct", "cct_p50", "busbw", "busbw_to_ideal"]
    ideal = several[-1].budget
    assert [part.name for part in ideal.components] == ["repeat", "clock", "stamp", "reference", "steal"]
    assert (ideal.runs, ideal.value) == (6, pytest.approx(80))
    assert ideal.expanded == pytest.approx(80 * expected_u(6, 1e-12, 100 / NS, 0.003, 0.001))
