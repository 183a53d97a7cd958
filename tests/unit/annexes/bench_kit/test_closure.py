"""What closure tests make of two runs, without and with a delay."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulator.annexes.bench_kit.closure import NOT_SEEN, NOT_SPLIT, ClosureBed, Crossings, delay_between
from emulator.device.lab.model import Node
from emulator.experiment.spec.spec import Network
from emulator.results.statistics.uncertainty import CLOCK, REPEAT, STAMP, Budget, Component


def crossed(centre_ns: int, found_ns: float, *, repeat_ns: float = 300.0) -> Crossings:
    """40 messages between those of the run, which scatter evenly by 3.9 µs around a median."""
    others = centre_ns + 100 * (np.arange(40) * 7 % 40 - 19)
    parts = (
        Component(REPEAT, repeat_ns, "A", ""),
        Component(CLOCK, 400.0, "B", ""),
        Component(STAMP, 11_547.0, "B", "late"),
    )
    return Crossings(others, others, Budget.of(found_ns, parts))


def test_a_delay_is_the_difference_of_both_runs() -> None:
    test = delay_between(crossed(20_000, 31_000.0), crossed(320_000, 330_500.0))
    assert (test.planted, test.found, test.why) == (300_000.0, 299_500.0, "")
    assert test.is_inside


def test_late_stamps_cancel_and_chance_does_not() -> None:
    test = delay_between(crossed(20_000, 31_000.0), crossed(320_000, 330_500.0))
    of_run = np.hypot(300, 400)
    assert test.expanded is not None
    of_others = (test.expanded**2 / 4 - 2 * of_run**2) / 2  # the same in both runs
    # Independent values that lie 100 ns apart: u of their median is half of their number's root, 100 ns each.
    assert of_others**0.5 == pytest.approx(100 * 40**0.5 / 2, rel=0.1)
    wider = delay_between(crossed(20_000, 31_000.0), crossed(320_000, 330_500.0, repeat_ns=3000.0))
    assert wider.expanded == pytest.approx(2 * np.hypot(test.expanded / 2, (3000**2 - 300**2) ** 0.5))


def test_a_delay_that_the_run_does_not_see_is_not_inside() -> None:
    assert delay_between(crossed(20_000, 31_000.0), crossed(320_000, 131_000.0)).is_inside is False


@pytest.mark.parametrize("side", [0, 1])
def test_without_a_split_there_is_no_delay(side: int) -> None:
    sides = [crossed(20_000, 31_000.0), crossed(320_000, 330_500.0)]
    sides[side] = sides[side]._replace(found=None)
    test = delay_between(*sides)
    assert (test.found, test.expanded, test.why) == (None, None, NOT_SPLIT)


def test_a_run_whose_budget_is_not_stated_says_why() -> None:
    without = crossed(20_000, 31_000.0)
    assert without.found is not None
    unknown = without._replace(found=replace(without.found, why="one iteration", expanded=None))
    assert delay_between(unknown, crossed(320_000, 330_500.0)).why == "one iteration"


def test_messages_that_nobody_saw_plant_nothing() -> None:
    held = crossed(320_000, 330_500.0)
    test = delay_between(held._replace(others_ns=held.others_ns[:0]), held)
    assert (test.planted, test.why) == (None, NOT_SEEN)


@pytest.mark.parametrize("kind", ["ovs", "router"])
def test_where_no_process_can_take_the_switch_s_place_no_delay_is_planted(kind: str, tmp_path: Path) -> None:
    test = ClosureBed(Network(), 10**9, tmp_path, Node("sw0", kind, "space", ())).delay()
    assert (test.planted, test.is_inside) == (None, None)
    assert test.why.startswith(f"not planted: the switch is {kind}")
