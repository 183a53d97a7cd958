"""What is said of recorded runs: real noise of a busy machine, and differences that were really there."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.comparison.verdicts import ClassComparison, PairComparison, Rules, Verdict, compare_pair
from tests.support.full import IS_FULL
from tests.support.recorded import group, recorded, slowed

RULES = Rules(resamples=999)
COMPARISONS, ALARMS = (200, 16) if IS_FULL else (20, 3)


def drawn(name: str, seed: int, *, runs: int = 6, slower: float = 1.0) -> PairComparison:
    """Two groups drawn from the runs of a set; the second slowed."""
    known = recorded(name)
    chosen = [known[at] for at in np.random.default_rng(seed).permutation(len(known))[: 2 * runs]]
    return compare_pair(group("a", chosen[:runs]), group("b", [slowed(run, slower) for run in chosen[runs:]]), RULES)


def by_size(pair: PairComparison) -> dict[int, ClassComparison]:
    return {one.key.size_bytes: one for one in pair.classes}


@pytest.mark.parametrize("name", ["zmq", "roce", "paced"])
def test_the_same_against_the_same_raises_few_alarms(name: str) -> None:
    """Faster or slower in any class is a false alarm: 5 % of 200 are 10, of 20 are 1; allowed are two standard errors
    more.
    """
    alarms = 0
    for seed in range(COMPARISONS):
        pair = drawn(name, seed)
        alarms += bool(pair.count(Verdict.FASTER) + pair.count(Verdict.SLOWER))
    assert alarms <= ALARMS


def test_a_tenth_slower_is_found_in_every_class_that_is_steady() -> None:
    for seed in range(10):
        pair = by_size(drawn("paced", seed, slower=1.1))
        for size in (8 << 10, 16 << 10, 32 << 10):
            assert pair[size].verdict is Verdict.SLOWER, (seed, size, pair[size])


def test_a_rate_that_really_was_a_tenth_lower_is_found() -> None:
    """20 against 18 Mbit/s: a ratio of 1.111, within the interval of the classes that the pacer dominates."""
    paced, slower = recorded("paced"), recorded("slower")
    pair = by_size(compare_pair(group("20M", paced[:6]), group("18M", slower[:6]), RULES))
    for size in (8 << 10, 16 << 10, 32 << 10):
        assert pair[size].verdict is Verdict.SLOWER
    for size in (16 << 10, 32 << 10):
        effect = pair[size].effect
        assert effect is not None
        assert effect.interval is not None
        assert effect.interval.low < 20 / 18 < effect.interval.high
    assert pair[4 << 10].verdict is not Verdict.FASTER  # latency, not rate: 4 KiB are one message


def test_steady_classes_of_the_same_show_no_difference() -> None:
    """In every class whose run-to-run variation is at most 1 %."""
    steady = 0
    for seed in range(20):
        for one in drawn("paced", seed).classes:
            if max(one.baseline.variation or 1, one.other.variation or 1) <= 0.01:
                steady += 1
                assert one.verdict is Verdict.NO_DIFFERENCE, (seed, one)
    assert steady > 30


@pytest.mark.parametrize(
    ("runs", "verdict"), [(2, Verdict.INCONCLUSIVE), (4, Verdict.INCONCLUSIVE), (5, Verdict.SLOWER)]
)
def test_too_few_runs_are_never_enough_and_never_equal(runs: int, verdict: Verdict) -> None:
    """Five classes need five runs a side, however clear the difference."""
    for slower in (2.0, 1.0):
        pair = drawn("paced", 3, runs=runs, slower=slower)
        if runs < 5:
            assert {(one.verdict, one.needs) for one in pair.classes} == {(Verdict.INCONCLUSIVE, 5)}
        elif slower > 1:
            assert {one.verdict for one in pair.classes} == {verdict}


def test_a_run_more_on_one_side_counts() -> None:
    known = recorded("paced")
    pair = compare_pair(group("a", known[:8]), group("b", [slowed(run, 1.5) for run in known[8:12]]), RULES)
    assert {one.verdict for one in pair.classes} == {Verdict.SLOWER}  # 2 / 495, five classes
    assert {(one.baseline.runs, one.other.runs) for one in pair.classes} == {(8, 4)}


def test_the_tail_is_told_beside_and_decides_nothing() -> None:
    known = recorded("roce")
    pair = compare_pair(group("a", known[0:12:2]), group("b", known[1:12:2]), RULES)
    assert all(one.tail is not None for one in pair.classes)
    few = compare_pair(group("a", recorded("paced")[:6]), group("b", recorded("paced")[6:12]), RULES)
    assert all(one.tail is None for one in few.classes)  # 40 iterations carry no p99


def test_an_inconclusive_class_says_how_many_runs_its_spread_asks_for() -> None:
    for one in drawn("zmq", 1).classes:
        if one.verdict is Verdict.INCONCLUSIVE:
            assert one.needs is None or one.needs > 6
            assert one.why
