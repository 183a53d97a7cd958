"""Budgets over runs: what comes from their spread, what they have in common, and what cancels in a ratio."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from uncertainties import ufloat

from emulator.results.comparison.comparability import Comparability
from emulator.results.comparison.groups import MeasuredRun
from emulator.results.comparison.inference import ratio, ratio_interval
from emulator.results.comparison.uncertainty import of_ratio, over_runs, reaching
from emulator.results.comparison.verdicts import ClassVerdict, ComparisonRules, compare, compare_pair
from emulator.results.statistics.method.bootstrap import Interval
from emulator.results.statistics.uncertainty import Budget, Repeat, Sources
from emulator.views.as_json import comparison_to_json
from emulator.views.columns.uncertainty_columns import compared_figures
from tests.support.recorded import group, recorded, slowed

RUNS = np.array([1.00e6, 1.01e6, 1.02e6, 1.00e6, 1.01e6, 1.03e6])
PAGE = Path(__file__).parents[4] / "docs/uncertainty.md"


def known(
    value: float = 1e6, *, clock_ns: float = 300.0, stamp_ns: float | None = 600.0, steal: float = 0.001
) -> Budget:
    """What a run of 40 iterations says of its median; its own chance is far too small."""
    sources = Sources(clock_ns, stamp_ns, "stamps" if stamp_ns else "no stamps", 0.003, "rates", steal)
    repeat = Repeat(1e-6, 40, 10)
    return sources.budgets({"cct_p50_ns": value}, value, by_time=repeat, by_rate=repeat)["cct_p50_ns"]


def parts(budget: Budget) -> dict[str, float | None]:
    return {one.name: one.standard for one in budget.components}


def test_over_runs_chance_is_in_their_spread_and_bounds_do_not_shrink() -> None:
    found = over_runs(RUNS, [known()] * 6)
    third, t = math.sqrt(3), stats.t.ppf(stats.norm.cdf(2), 5)
    wanted = ufloat(1e6, t / 2 * np.std(np.log(RUNS), ddof=1) / math.sqrt(6) * found.value) + sum(
        ufloat(0, bound / third) for bound in (300 * found.value / 1e6, 600 * found.value / 1e6, 0.001 * found.value)
    )
    assert found.standard == pytest.approx(wanted.std_dev)
    assert found.expanded == pytest.approx(2 * wanted.std_dev)
    assert (found.runs, [one.kind for one in found.components]) == (6, ["A", "B", "B", "B"])
    assert found.components[0].source.startswith("6 runs")


@pytest.mark.parametrize(("count", "why"), [(1, "one run"), (2, "2 runs, and 4 are the fewest")])
def test_too_few_runs_have_no_uncertainty(count: int, why: str) -> None:
    found = over_runs(RUNS[:count], [known()] * count)
    assert (found.expanded, found.why) == (None, why)


def test_what_one_run_does_not_know_is_not_known_of_all() -> None:
    budgets = [*[known()] * 5, known(stamp_ns=None)]
    assert parts(over_runs(RUNS, budgets))["stamp"] is None
    assert "stamps not known" in over_runs(RUNS, []).why


AROUND = Interval(1.09, 1.11)


def compared(baseline: Budget, other: Budget, *, value: float = 1.1, why: str = "") -> Budget:
    return of_ratio(value, AROUND, ([baseline] * 6, [other] * 6), count=6, runs="6 runs against 6", why=why)


def test_errors_that_both_groups_have_cancel_in_a_ratio() -> None:
    """The oracle divides two times that share their errors."""
    one, steal = known(1e6), 0.002
    other = known(1.1e6, steal=steal)
    stamp, clock, taken = (ufloat(0, bound / math.sqrt(3)) for bound in (600, 300, 1))
    quotient = (1.1e6 + stamp + clock + 1.1e6 * steal * taken) / (1e6 + stamp + clock + 1e6 * 0.001 * taken)
    found = compared(one, other)
    assert found.standard == pytest.approx(math.hypot(quotient.std_dev, 0.02 / 4), rel=1e-6)
    assert parts(found)["reference"] == 0
    same = parts(compared(one, one, value=1.0))
    assert same == {"repeat": pytest.approx(0.005), "clock": 0, "stamp": 0, "steal": 0, "reference": 0}
    assert "cancel" in found.components[-1].source


def test_what_is_not_known_of_a_ratio_is_said() -> None:
    assert of_ratio(1.1, None, ([known()], [known()]), count=1, runs="").why == "one run"
    assert of_ratio(1.1, AROUND, ([known()], [known()]), count=3, runs="").why == "3 runs, and 4 are the fewest"
    assert compared(known(), known(), why="one after the other").why == "one after the other"
    assert compared(known(), known(stamp_ns=None)).why == "no stamps"


def test_late_stamps_widen_an_interval_only_away_from_one() -> None:
    late = compared(known(1e6, stamp_ns=50_000.0), known(1.1e6, stamp_ns=50_000.0))
    found = reaching(Interval(1.09, 1.11), late)
    assert found.low == pytest.approx(1.09, abs=1e-4)
    assert found.high > 1.111
    faster = compared(known(1.1e6, stamp_ns=50_000.0), known(1e6, stamp_ns=50_000.0), value=1 / 1.1)
    found = reaching(Interval(0.9, 0.92), faster)
    assert found.high == pytest.approx(0.92, abs=1e-4)
    assert found.low < 0.899


RULES = ComparisonRules(resamples=999)


def with_budgets(name: str, first: int, *, slower: float = 1.0, steal: float = 0.0) -> list[MeasuredRun]:
    """Six recorded runs in which every class is known to the same bounds."""
    runs = [slowed(one, slower) for one in recorded(name)[first : first + 12 : 2]]
    return [
        replace(
            run,
            uncertainty={
                key: {"cct_p50_ns": known(times.percentile_ns(0.5) or 1, steal=steal), "jct_ns": known(steal=steal)}
                for key, times in run.measurements.classes.items()
            },
        )
        for run in runs
    ]


def test_a_difference_within_its_uncertainty_is_not_decided() -> None:
    """The hypervisor took 40 % from one group: that can be all of a difference of a fifth."""
    sure = compare_pair(group("a", with_budgets("paced", 0)), group("b", with_budgets("paced", 1, slower=1.2)), RULES)
    runs = with_budgets("paced", 1, slower=1.2, steal=0.4)
    unsure = compare_pair(group("a", with_budgets("paced", 0)), group("b", runs), RULES)
    assert sure.count(ClassVerdict.SLOWER) >= 3
    assert unsure.count(ClassVerdict.SLOWER) == 0
    for one in sure.classes:
        assert one.effect is not None
        assert one.uncertainty.expanded is not None
        if one.verdict is ClassVerdict.SLOWER:
            assert one.effect.ratio - 1 > one.uncertainty.towards(better=False)


def test_a_comparison_shows_its_budgets_in_json_and_explained() -> None:
    groups = group("a", with_budgets("paced", 0)), group("b", with_budgets("paced", 1))
    found = compare(groups, Comparability([], []), RULES)
    document = json.loads(json.dumps(comparison_to_json(found), allow_nan=False))
    row = document["pairs"][0]["classes"][0]
    assert {one["name"] for one in row["uncertainty"]["components"]} >= {"repeat", "clock", "stamp", "reference"}
    assert row["uncertainty"]["components"][0].keys() == {"name", "standard", "kind", "source"}
    assert row["baseline"]["uncertainty"]["k"] == 2
    figures = [one.figure for one in compared_figures(found.pairs[0])]
    assert figures[:3] == ["ratio", "a", "b"]


def test_groups_that_did_not_take_turns_have_no_stated_uncertainty() -> None:
    runs = recorded("paced")
    pair = compare_pair(group("a", runs[:4]), group("b", runs[4:8]), RULES)
    assert all(one.uncertainty is not None and one.uncertainty.expanded is None for one in pair.classes)
    assert "one group was measured after the other" in (pair.classes[0].uncertainty or known()).why


def test_groups_of_other_topologies_have_no_stated_uncertainty() -> None:
    slow = {"hosts": [{"name": "h0", "interfaces": [{"name": "eth0", "rate_bps": 10**8}]}]}
    other = [replace(one, manifest=replace(one.manifest, topology=slow)) for one in with_budgets("paced", 1)]
    pair = compare_pair(group("a", with_budgets("paced", 0)), group("b", other), RULES)
    assert all(one.uncertainty is not None and one.uncertainty.expanded is None for one in pair.classes)
    budget = pair.classes[0].uncertainty or known()
    assert "the topologies differ" in budget.why
    reference = budget.part("reference")
    assert reference is not None
    assert (reference.standard, reference.source) == (None, budget.why)  # it does not cancel


def test_the_reference_does_not_cancel_either_if_the_groups_did_not_take_turns() -> None:
    slow = {"hosts": [{"name": "h0", "interfaces": [{"name": "eth0", "rate_bps": 10**8}]}]}
    runs = recorded("paced")
    other = [replace(one, manifest=replace(one.manifest, topology=slow)) for one in runs[4:8]]
    pair = compare_pair(group("a", runs[:4]), group("b", other), RULES)
    budget = pair.classes[0].uncertainty or known()
    assert "one group was measured after the other" in budget.why
    assert "does not cancel" in budget.components[-1].source
    same = compare_pair(group("a", runs[:4]), group("b", runs[4:8]), RULES).classes[0].uncertainty or known()
    assert (same.components[-1].standard, same.components[-1].source[:7]) == (0, "cancels")


def test_the_example_of_a_ratio_on_the_page_is_what_the_code_computes() -> None:
    example = PAGE.read_text(encoding="utf-8").partition("### A worked example of a ratio")[2]
    rows = [[float(one) * 1e6 for one in re.findall(r"\b1[56]\d\.\d+", line)] for line in example.splitlines()]
    first, second = (np.array(row) for row in rows if len(row) == 6)
    value, interval = ratio(first, second), ratio_interval(first, second)
    sides = [
        [known(one, clock_ns=0.0, stamp_ns=20_000.0, steal=steal) for one in side]
        for side, steal in ((first, 0.001), (second, 0.003))
    ]
    found = of_ratio(value, interval, (sides[0], sides[1]), count=6, runs="6 runs against 6")
    standard = {name: one or 0 for name, one in parts(found).items()}
    assert f"interval {interval.low:.4f} to {interval.high:.4f}" in example.replace("\n", " ")
    for row in (
        f"| value | {value:.4f} |",
        f"| repeat: {interval.high - interval.low:.4f} / 4 | {standard['repeat']:.5f} |",
        f"| stamp: what does not cancel | {standard['stamp']:.6f} |",
        f"| steal: 0.2 % / √3 | {standard['steal']:.5f} |",
        f"| u | {found.standard:.5f} |",
        f"| **U (k = 2)** | **{found.expanded:.4f}** |",
    ):
        assert row in example
