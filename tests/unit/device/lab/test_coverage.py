"""What many planted trials say together."""

import math

import pytest

from emulator.results.statistics.calibration import ClosureTest
from lab.benchmarks.coverage import Coverage


def trial(error: float, expanded: float | None, why: str = "") -> ClosureTest:
    return ClosureTest("rate", "%", 50.0, 50.0 + error, expanded, why)


def test_trials_are_counted_by_what_lies_inside() -> None:
    of = Coverage.of([trial(0.1, 0.3), trial(-0.2, 0.3), trial(0.5, 0.3), trial(-0.1, 0.4)])
    assert (of.trials, of.stated, of.inside) == (4, 4, 3)
    assert of.error == pytest.approx(0.15 / 50)
    assert of.expanded == pytest.approx(0.3 / 50)
    assert of.ratio == pytest.approx((1.5 + 3) / 2)
    assert not of.covers


@pytest.mark.parametrize(("missed", "covers"), [(5, True), (6, False)])
def test_35_of_40_are_to_be_inside(missed: int, covers: bool) -> None:
    found = [trial(0.1, 0.3)] * (40 - missed) + [trial(0.5, 0.3)] * missed
    assert Coverage.of(found).covers is covers


@pytest.mark.parametrize(("expanded", "covers"), [(0.5, True), (0.6, False)])
def test_a_large_uncertainty_passes_nothing(expanded: float, covers: bool) -> None:
    assert Coverage.of([trial(0.1, expanded)] * 40).covers is covers


def test_trials_without_an_uncertainty_and_those_that_failed_are_not_inside() -> None:
    of = Coverage.of([*[trial(0.1, 0.3)] * 34, trial(0.1, None, "one run"), *[None] * 5])
    assert (of.trials, of.stated, of.inside, of.covers) == (40, 34, 34, False)


def test_counts_are_exact_or_wrong() -> None:
    exact = Coverage.of([trial(0.0, 0.0)] * 40)
    assert (exact.inside, exact.ratio, exact.covers) == (40, None, True)
    assert not Coverage.of([trial(0.0, 0.0)] * 34 + [trial(1.0, 0.0)] * 6).covers


def test_a_value_that_is_hit_by_chance_has_the_largest_ratio() -> None:
    assert Coverage.of([trial(0.0, 0.3)]).ratio == math.inf


def test_a_goodput_is_close_by_its_error_too() -> None:
    found = [trial(0.14, 0.1), trial(0.2, 0.3), trial(0.2, 0.1)]
    assert Coverage.of(found, allowed=0.003).close == 2


def test_without_any_value_nothing_is_covered() -> None:
    of = Coverage.of([None, None])
    assert math.isnan(of.error)
    assert not of.covers
