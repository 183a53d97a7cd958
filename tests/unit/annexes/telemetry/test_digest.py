"""Classes of an iteration while a run is played."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from emulator.annexes.telemetry import digest
from emulator.annexes.telemetry.digest import IterationDigest
from emulator.results.statistics.class_summary import ClassSummary
from tests.support.runs import collective, columns


class Observer:
    def __init__(self) -> None:
        self.seen: list[tuple[int, list[tuple[str, int, float | None]]]] = []

    def summed_up(self, iteration: int, classes: Sequence[ClassSummary]) -> None:
        self.seen.append((iteration, [(one.collective, one.count, one.cct_p50_ns) for one in classes]))


def test_an_iteration_is_summarised_from_all_its_batches() -> None:
    observer = Observer()
    made = IterationDigest([observer])
    first, second = collective([0, 5], [90, 105])  # the two members arrive in different batches
    made.recorded(columns([first]))
    made.recorded(columns([second]))
    made.recorded(columns(collective([0, 0], [40, 50], kind="all_gather", instance=1)))
    made.iteration_done(0, 105)
    assert observer.seen == [(0, [("all_reduce", 1, 100), ("all_gather", 1, 50)])]


def test_samples_of_the_next_iteration_wait_for_it() -> None:
    observer = Observer()
    made = IterationDigest([observer])
    made.recorded(columns(collective([0, 0], [10, 10])))
    made.recorded(columns(collective([0, 0], [20, 20], iteration=1)))
    made.iteration_done(0, 10)
    made.iteration_done(1, 20)
    assert observer.seen == [(0, [("all_reduce", 1, 10)]), (1, [("all_reduce", 1, 20)])]


def test_an_iteration_is_forgotten_once_it_is_over() -> None:
    observer = Observer()
    made = IterationDigest([observer])
    made.recorded(columns(collective([0, 0], [10, 10])))
    made.iteration_done(0, 10)
    made.iteration_done(0, 10)
    assert observer.seen == [(0, [("all_reduce", 1, 10)]), (0, [])]


def test_an_iteration_without_samples_has_no_class() -> None:
    observer = Observer()
    made = IterationDigest([observer])
    made.recorded(columns([]))
    made.iteration_done(0, 1)
    assert observer.seen == [(0, [])]


def test_a_large_iteration_is_not_summarised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "LARGEST_ITERATION", 1)
    observer = Observer()
    made = IterationDigest([observer])
    made.recorded(columns(collective([0, 0], [10, 10])))
    made.iteration_done(0, 10)
    assert observer.seen == []


def test_every_observer_receives_the_classes() -> None:
    observers = [Observer(), Observer()]
    made = IterationDigest(observers)
    made.recorded(columns(collective([0, 0], [10, 10])))
    made.iteration_done(0, 10)
    assert observers[0].seen == observers[1].seen != []
