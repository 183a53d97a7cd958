"""What a session reports, as rows of the run folder, in the order that observers can rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import RankSummary
from emulator.controller.recorder import Recorder
from emulator.run_folder.layout import BROKEN
from emulator.run_folder.manifest import Exclusion
from emulator.run_folder.observer import RunObserver


class Log(RunObserver):
    """Writes down everything, as writer, monitor and observer at once, so that the order shows."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.readings: list[dict[str, list[int]]] = []

    def add_samples(self, columns: Any) -> None:
        self.seen.append(("samples", columns))

    def add_iteration(self, iteration: int, ranks: Any) -> None:
        self.seen.append(("iteration", iteration, len(ranks)))

    def add_counters(self, columns: Any) -> None:
        self.seen.append(("counters", columns))

    def flush(self) -> None:
        self.seen.append(("flush",))

    def begin(self) -> None:
        self.seen.append(("device begins",))

    def counters(self) -> dict[str, list[int]] | None:
        return self.readings.pop() if self.readings else None

    def completed(self, nodes: int) -> None:
        self.seen.append(("completed", nodes))

    def recorded(self, samples: Any) -> None:
        self.seen.append(("recorded", samples))

    def iteration_started(self, iteration: int) -> None:
        self.seen.append(("started", iteration))

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        self.seen.append(("done", iteration, jct_ns))

    def moved(self, bytes_sent: int) -> None:
        self.seen.append(("moved", bytes_sent))


class TwoRanks:
    """A catalogue of two ranks whose samples are what it is given."""

    ranks = 2

    def members(self, rank: int, node_id: int) -> int:
        return 2

    def samples(self, done: Any) -> Any:
        return {"rank": done.rank}


class Done:
    rank = (0, 1, 1)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def recorder(log: Log, tmp_path: Path) -> Recorder:
    return Recorder(log, TwoRanks(), [log], log)


def summary(rank: int, start_ns: int, end_ns: int) -> RankSummary:
    return RankSummary(rank, start_ns, end_ns, compute_ns=0, communication_ns=0, overlap_ns=0)


def test_samples_are_written_before_observers_hear_of_them(recorder: Recorder, log: Log) -> None:
    recorder.completed(Done())
    samples = {"rank": (0, 1, 1)}
    assert log.seen == [("samples", samples), ("completed", 3), ("recorded", samples)]


def test_an_iteration_is_done_with_its_last_rank_and_lasts_from_the_first_start(recorder: Recorder, log: Log) -> None:
    recorder.iteration_started(0)
    recorder.iteration_done(0, [summary(0, 100, 300)])
    assert ("done", 0, 200) not in log.seen
    recorder.iteration_done(0, [summary(1, 90, 250)])
    assert log.seen[-1] == ("done", 0, 210)


def test_an_iteration_that_began_before_the_one_before_was_over_is_counted_from_its_end(
    recorder: Recorder, log: Log
) -> None:
    for iteration in (0, 1):
        recorder.iteration_started(iteration)
    recorder.iteration_done(0, [summary(0, 100, 200), summary(1, 100, 300)])
    recorder.iteration_done(1, [summary(0, 200, 380), summary(1, 300, 400)])
    assert [one for one in log.seen if one[0] == "done"] == [("done", 0, 200), ("done", 1, 100)]


def test_the_device_begins_once_before_the_first_iteration(recorder: Recorder, log: Log) -> None:
    recorder.iteration_started(-1)
    recorder.iteration_started(0)
    assert log.seen == [("device begins",), ("started", -1), ("started", 0)]


def test_each_sign_of_life_puts_everything_on_disk(recorder: Recorder, log: Log) -> None:
    log.readings = [{"rx": [5]}]
    recorder.moved(4096)
    recorder.moved(8192)
    assert log.seen == [("counters", {"rx": [5]}), ("flush",), ("moved", 4096), ("flush",), ("moved", 8192)]


def test_an_iteration_that_not_all_ranks_completed_is_excluded(recorder: Recorder) -> None:
    for iteration in (-1, 0, 1):
        recorder.iteration_started(iteration)
        recorder.iteration_done(iteration, [summary(0, 0, 1)] if iteration == 1 else [summary(0, 0, 1)] * 2)
    trials = recorder.trials(ranks=2)
    assert (trials.attempted, trials.warmup, trials.included) == (3, 1, 1)
    assert trials.excluded == (Exclusion(1, BROKEN),)
