"""Does value ± U contain what was planted? 40 trials per quantity, by arithmetic: in 35 or more, and not by width."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from emulator.results.comparison.groups import MeasuredRun, RunGroup
from emulator.results.comparison.verdicts import ComparisonRules, compare_pair
from emulator.results.statistics.class_summary import ClassSummary, summarise_classes
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.samples.collectives import merge
from emulator.results.statistics.samples.iterations import Measurements, Times
from emulator.results.statistics.uncertainty import Repeat, Sources
from tests.support.runs import manifest, table, timed

TRIALS, FEWEST_WITHIN, WIDEST = 40, 35, 5.0
NS, IDEAL_NS, SIZE_BYTES = 10_000_000, 8_000_000, 1_000
QUIET = Sources(0.0, 0.0, "none", 0.0, "none", None)


def alike(random: np.random.Generator, count: int, memory: float) -> np.ndarray:
    """Normal values of mean 0 and deviation 1, of which neighbours correlate by so much: AR(1)."""
    values = random.normal(size=count) * math.sqrt(1 - memory**2)
    values[0] = random.normal()
    for at in range(1, count):
        values[at] += memory * values[at - 1]
    return values


def summary(times_ns: np.ndarray, sources: Sources = QUIET) -> ClassSummary:
    (one,) = summarise_classes(merge(table(timed(*map(round, times_ns), ideal_ns=IDEAL_NS))), sources=sources)
    return one


def by_chance(count: int, memory: float, shape: Callable[[np.ndarray], np.ndarray]) -> Callable[..., ClassSummary]:
    return lambda random: summary(NS * (1 + 0.02 * shape(alike(random, count, memory))))


def by_clock(random: np.random.Generator) -> ClassSummary:
    """The offset of a clock is the same in all iterations, however many: drawn within its bound."""
    bound_ns = 200_000
    off_ns = random.uniform(-bound_ns, bound_ns)
    times_ns = NS + off_ns + 20_000 * alike(random, 60, 0.3)
    return summary(times_ns, Sources(bound_ns, 0.0, "none", 0.0, "none", None))


def by_stamp(random: np.random.Generator) -> ClassSummary:
    """Stamps are late, by up to their bound."""
    times_ns = NS + random.uniform(0, 100_000) + 20_000 * alike(random, 60, 0.3)
    return summary(times_ns, Sources(0.0, 100_000, "late", 0.0, "none", None))


CASES = {
    "independent": by_chance(40, 0.0, lambda values: values),
    "alike": by_chance(60, 0.6, lambda values: values),
    "much alike": by_chance(400, 0.9, lambda values: values),
    "skewed": by_chance(60, 0.3, lambda values: np.exp(values) - 1),
    "clock": by_clock,
    "stamp": by_stamp,
}


def trials(case: str, name: str) -> Iterator[tuple[float, float]]:
    """(error, U) of a figure in every trial in which U is stated."""
    planted = {"cct_p50_ns": NS, "busbw_bytes_per_s": SIZE_BYTES * 1e9 / NS, "ideal_percent": 100 * IDEAL_NS / NS}
    for seed in range(TRIALS):
        found = CASES[case](np.random.default_rng([seed, len(case)])).uncertainty[name]
        if found.expanded is not None:
            yield abs(found.value - planted[name]), found.expanded


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["cct_p50_ns", "busbw_bytes_per_s"])
def test_what_was_planted_lies_within_the_uncertainty(case: str, name: str) -> None:
    found = list(trials(case, name))
    assert len(found) == TRIALS
    assert sum(error <= expanded for error, expanded in found) >= FEWEST_WITHIN
    assert np.median([expanded / max(error, 1e-12) for error, expanded in found]) <= WIDEST


def test_so_does_a_share_of_ideal_if_the_rate_is_off() -> None:
    within, wide = 0, []
    for seed in range(TRIALS):
        random = np.random.default_rng(seed)
        rate = 1 + random.uniform(-0.003, 0.003)  # of the port / of the topology
        times_ns = NS * (1 + 0.001 * alike(random, 60, 0.3))
        found = summary(times_ns, Sources(0.0, 0.0, "none", 0.003, "rate", None)).uncertainty["ideal_percent"]
        error = abs(found.value - 100 * IDEAL_NS / rate / NS)  # the port needs so long for what the topology counts
        within += error <= found.expanded
        wide.append(found.expanded / error)
    assert within >= FEWEST_WITHIN
    assert np.median(wide) <= WIDEST


def test_iterations_that_are_alike_would_not_be_covered_as_independent_ones() -> None:
    """The same trials, with their deviation over the root of their number: this is what blocks are for."""
    within = 0
    for seed in range(TRIALS):
        times = alike(np.random.default_rng([seed, len("much alike")]), 400, 0.9)
        within += abs(np.median(times)) <= 2 * 1.2533 * times.std(ddof=1) / math.sqrt(len(times))
    assert within < FEWEST_WITHIN


RATIO = 1.04


def runs_of(random: np.random.Generator, name: str, factor: float, memory: float) -> RunGroup:
    """Six runs of 40 iterations, which differ by 0.5 % and their iterations by 2 %."""
    key, runs = ClassKey("all_reduce", 2, SIZE_BYTES, "ring", ""), []
    for number in range(6):
        between = 1 + 0.005 * random.normal()
        times = np.rint(NS * factor * between * (1 + 0.02 * alike(random, 40, memory))).astype(np.int64)
        created = f"2026-01-02T{2 * number + (name == 'b'):02}:00:00+00:00"
        found = Measurements({key: Times(np.arange(40), times)}, 0)
        budgets = QUIET.budgets({"cct_p50_ns": NS}, NS, by_time=Repeat(0.0, 40), by_rate=Repeat(0.0, 40))
        runs.append(
            MeasuredRun(
                Path(name), manifest(run_id=f"{name}{number}", created=created), found, uncertainty={key: budgets}
            )
        )
    return RunGroup(name, runs)


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_a_planted_ratio_of_two_groups_lies_within_its_uncertainty(memory: float) -> None:
    within, wide = 0, []
    for seed in range(3 * TRIALS):  # of 40, chance alone makes it 34 now and then: each side has only six runs
        random = np.random.default_rng([seed, round(10 * memory)])
        groups = [runs_of(random, *side, memory) for side in (("a", 1.0), ("b", RATIO))]
        (one,) = compare_pair(groups[0], groups[1], ComparisonRules(resamples=499)).classes
        error = abs(one.uncertainty.value - RATIO)
        within += error <= one.uncertainty.expanded
        wide.append(one.uncertainty.expanded / max(error, 1e-12))
    assert within >= 3 * FEWEST_WITHIN
    assert np.median(wide) <= WIDEST
