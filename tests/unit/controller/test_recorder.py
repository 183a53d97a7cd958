"""What a session reports, as rows of the run folder, in the order that observers can rely on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator.control.observations import Completions, RankSummary
from emulator.controller.recording.recorder import HOLD_S, Recorder
from emulator.results.run_folder.layout import BROKEN
from emulator.results.run_folder.manifest import Exclusion
from emulator.results.run_folder.observer import RunObserver


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
        return {"rank": tuple(done.rank)}


def done(*ranks: int, iteration: int = 0) -> Completions:
    numbers = np.array(ranks)
    return Completions(
        iteration=iteration,
        rank=numbers,
        node_id=numbers.astype(np.uint64),
        post_ns=numbers,
        done_ns=numbers,
        arrival_ns=numbers,
        bytes_sent=numbers,
        bytes_received=numbers,
        early=numbers.astype(np.bool_),
        read_delay_ns=numbers,
        core_wait_ns=numbers,
    )


class Clock:
    """A clock that stands still until it is moved, s."""

    now = 100.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def recorder(log: Log, clock: Clock) -> Recorder:
    return Recorder(log, TwoRanks(), [log], log, now=lambda: clock.now)


def summary(rank: int, start_ns: int, end_ns: int) -> RankSummary:
    return RankSummary(rank, start_ns, end_ns, compute_ns=0, communication_ns=0, overlap_ns=0)


def test_samples_are_written_before_observers_hear_of_them(recorder: Recorder, log: Log) -> None:
    recorder.completed(done(0, 1, 1))
    samples = {"rank": (0, 1, 1)}
    assert log.seen == [("samples", samples), ("completed", 3), ("recorded", samples)]


def test_what_many_agents_report_at_once_is_recorded_together_by_iteration(
    recorder: Recorder, log: Log, clock: Clock
) -> None:
    recorder.completed(done(0))
    log.seen.clear()
    for parts in (done(1), done(0, iteration=1), done(0, 0)):
        recorder.completed(parts)
    assert log.seen == []
    clock.now += 2 * HOLD_S
    recorder.completed(done(0))
    assert [one[1]["rank"] for one in log.seen if one[0] == "samples"] == [(1, 0, 0, 0), (0,)]


def test_what_is_held_is_put_on_disk_with_everything_else(recorder: Recorder, log: Log) -> None:
    recorder.completed(done(0))
    recorder.completed(done(1))
    log.seen.clear()
    recorder.write()
    assert [one[0] for one in log.seen] == ["samples", "completed", "recorded", "flush"]


def test_an_iteration_is_not_done_before_its_samples_are_on_disk(recorder: Recorder, log: Log) -> None:
    recorder.completed(done(0))
    recorder.iteration_started(0)
    log.seen.clear()
    recorder.completed(done(1))
    recorder.iteration_done(0, [summary(0, 0, 1), summary(1, 0, 1)])
    recorder.iteration_started(1)
    assert [one[0] for one in log.seen] == ["samples", "completed", "recorded", "iteration"]
    recorder.write()
    assert log.seen[4:] == [("flush",), ("done", 0, 1), ("started", 1)]


def test_an_iteration_is_done_with_its_last_rank_and_lasts_from_the_first_start(recorder: Recorder, log: Log) -> None:
    recorder.iteration_started(0)
    recorder.iteration_done(0, [summary(0, 100, 300)])
    recorder.write()
    assert ("done", 0, 200) not in log.seen
    recorder.iteration_done(0, [summary(1, 90, 250)])
    recorder.write()
    assert log.seen[-1] == ("done", 0, 210)


def test_an_iteration_that_began_before_the_one_before_was_over_is_counted_from_its_end(
    recorder: Recorder, log: Log
) -> None:
    for iteration in (0, 1):
        recorder.iteration_started(iteration)
    recorder.iteration_done(0, [summary(0, 100, 200), summary(1, 100, 300)])
    recorder.iteration_done(1, [summary(0, 200, 380), summary(1, 300, 400)])
    recorder.write()
    assert [one for one in log.seen if one[0] == "done"] == [("done", 0, 200), ("done", 1, 100)]


def test_the_device_begins_once_before_the_first_iteration(recorder: Recorder, log: Log) -> None:
    recorder.iteration_started(-1)
    recorder.iteration_started(0)
    assert log.seen == [("device begins",), ("started", -1), ("started", 0)]


def test_each_sign_of_life_reads_the_counters_of_the_device(recorder: Recorder, log: Log) -> None:
    log.readings = [{"rx": [5]}]
    recorder.moved(4096)
    recorder.moved(8192)
    assert log.seen == [("counters", {"rx": [5]}), ("moved", 4096), ("moved", 8192)]


def test_an_iteration_that_not_all_ranks_completed_is_excluded(recorder: Recorder) -> None:
    for iteration in (-1, 0, 1):
        recorder.iteration_started(iteration)
        recorder.iteration_done(iteration, [summary(0, 0, 1)] if iteration == 1 else [summary(0, 0, 1)] * 2)
    trials = recorder.trials(ranks=2)
    assert (trials.attempted, trials.warmup, trials.included) == (3, 1, 1)
    assert trials.excluded == (Exclusion(1, BROKEN),)
