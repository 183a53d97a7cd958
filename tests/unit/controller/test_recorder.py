"""What a session reports, as rows of the run folder, in the order that observers can rely on."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.control.observations import Completions, RankSummary
from emulator.controller.recording.recorder import HOLD_S, Recorder, WorstInstances
from emulator.controller.recording.session_observer import RanksDone
from emulator.results.run_folder.manifest import BROKEN, Exclusion
from emulator.results.run_folder.observer import IterationEnded, IterationStarted, Moved, Recorded, RunEvent
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.classes import class_rows
from emulator.results.statistics.samples.collectives import merge
from tests.support.runs import Row, collective, columns, pair, table


class Log:
    """Writes down everything, as writer, monitor and observer at once, so that the order shows."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.readings: list[dict[str, list[int]]] = []

    def add(self, part: RunTable, columns: Any) -> None:
        self.seen.append((part.value, columns))

    def add_iteration(self, iteration: int, ranks: Any) -> None:
        self.seen.append(("iteration", iteration, len(ranks)))

    def flush(self) -> None:
        self.seen.append(("flush",))

    def begin(self, iteration: int | None) -> None:
        self.seen.append(("device begins", iteration))

    def counters(self) -> dict[str, list[int]] | None:
        return self.readings.pop() if self.readings else None

    def tell(self, event: RunEvent) -> None:
        names = {IterationStarted: "started", Recorded: "recorded", IterationEnded: "done", Moved: "moved"}
        self.seen.append((names[type(event)], *event))


class TwoRanks:
    """A catalogue of two ranks whose samples are what it is given."""

    ranks = 2

    def members(self, rank: int, node_id: int) -> int:
        return 2

    def samples(self, parts: Any) -> Any:
        return {"rank": tuple(rank for part in parts for rank in part.rank)}


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
    recorder.tell(done(0, 1, 1))
    samples = {"rank": (0, 1, 1)}
    assert log.seen == [("samples", samples), ("recorded", samples)]


def test_what_many_agents_report_at_once_is_recorded_together(recorder: Recorder, log: Log, clock: Clock) -> None:
    recorder.tell(done(0))
    log.seen.clear()
    for parts in (done(1), done(0, iteration=1), done(0, 0)):
        recorder.tell(parts)
    assert log.seen == []
    clock.now += 2 * HOLD_S
    recorder.tell(done(0))
    assert [one[1]["rank"] for one in log.seen if one[0] == "samples"] == [(1, 0, 0, 0, 0)]


def test_what_is_held_is_put_on_disk_with_everything_else(recorder: Recorder, log: Log) -> None:
    recorder.tell(done(0))
    recorder.tell(done(1))
    log.seen.clear()
    recorder.write()
    assert [one[0] for one in log.seen] == ["samples", "recorded", "flush"]


def test_what_is_recorded_early_is_written_and_told_with_the_rest(recorder: Recorder, log: Log) -> None:
    recorder.tell(IterationStarted(0))
    recorder.tell(done(0))
    recorder.tell(RanksDone(0, [summary(0, 0, 1), summary(1, 0, 1)]))
    recorder.tell(done(1))
    log.seen.clear()
    recorder.record()
    assert [one[0] for one in log.seen] == ["samples", "recorded"]
    recorder.write()
    assert [one[0] for one in log.seen[2:]] == ["flush", "done"]


def test_an_iteration_is_not_done_before_its_samples_are_on_disk(recorder: Recorder, log: Log) -> None:
    recorder.tell(done(0))
    recorder.tell(IterationStarted(0))
    log.seen.clear()
    recorder.tell(done(1))
    recorder.tell(RanksDone(0, [summary(0, 0, 1), summary(1, 0, 1)]))
    recorder.tell(IterationStarted(1))
    recorder.write()
    log.seen.remove(("device begins", 1))
    assert {one[0] for one in log.seen[:3]} == {"samples", "recorded", "iteration"}
    assert log.seen[3:] == [("flush",), ("done", 0, 1), ("started", 1)]


def test_an_iteration_is_done_with_its_last_rank_and_lasts_from_the_first_start(recorder: Recorder, log: Log) -> None:
    recorder.tell(IterationStarted(0))
    recorder.tell(RanksDone(0, [summary(0, 100, 300)]))
    recorder.write()
    assert ("done", 0, 200) not in log.seen
    recorder.tell(RanksDone(0, [summary(1, 90, 250)]))
    recorder.write()
    assert log.seen[-1] == ("done", 0, 210)


def test_an_iteration_that_began_before_the_one_before_was_over_is_counted_from_its_end(
    recorder: Recorder, log: Log
) -> None:
    for iteration in (0, 1):
        recorder.tell(IterationStarted(iteration))
    recorder.tell(RanksDone(0, [summary(0, 100, 200), summary(1, 100, 300)]))
    recorder.tell(RanksDone(1, [summary(0, 200, 380), summary(1, 300, 400)]))
    recorder.write()
    assert [one for one in log.seen if one[0] == "done"] == [("done", 0, 200), ("done", 1, 100)]


def test_the_device_hears_of_an_iteration_before_anybody_else(recorder: Recorder, log: Log) -> None:
    recorder.tell(IterationStarted(-1))
    recorder.tell(IterationStarted(0))
    assert log.seen == [("device begins", -1), ("started", -1), ("device begins", 0), ("started", 0)]


def test_each_sign_of_life_reads_the_counters_of_the_device(recorder: Recorder, log: Log) -> None:
    log.readings = [{"rx": [5]}]
    recorder.tell(Moved(4096))
    recorder.tell(Moved(8192))
    assert log.seen == [("counters", {"rx": [5]}), ("moved", 4096), ("moved", 8192)]


def test_an_iteration_that_not_all_ranks_completed_is_excluded(recorder: Recorder) -> None:
    for iteration in (-1, 0, 1):
        recorder.tell(IterationStarted(iteration))
        recorder.tell(RanksDone(iteration, [summary(0, 0, 1)] if iteration == 1 else [summary(0, 0, 1)] * 2))
    trials = recorder.trials(ranks=2)
    assert (trials.attempted, trials.warmup, trials.included) == (3, 1, 1)
    assert trials.excluded == (Exclusion(1, BROKEN),)


HOSTS = (0, 1)


def noted(worst: WorstInstances, rows: list[Row]) -> list[int]:
    return [one.number for one in worst.note(columns(rows))]


def test_only_a_slower_one_is_wanted_and_only_when_all_members_are_done() -> None:
    worst = WorstInstances(HOSTS)
    first, second = collective([0, 5], [50, 60], instance=0)
    assert noted(worst, [first]) == []
    assert noted(worst, [second]) == [0]
    assert noted(worst, collective([0, 40], [60, 90], instance=1)) == []  # 50: its skew does not count
    assert noted(worst, collective([0, 0], [56, 10], instance=2, iteration=1)) == [2]
    assert worst.found == {(1, 2)}


def test_every_class_has_its_own() -> None:
    worst = WorstInstances((0, 0, 1))
    samples = [
        *collective([0, 0], [10, 10], instance=0),
        *collective([0, 0], [9, 9], instance=1, size_bytes=7),
        *collective([0, 0], [8, 8], instance=2, algorithm="direct"),
        *collective([0, 0], [7, 7], instance=3, kind="all_gather"),
        *(one | {"rank": one["rank"] + 1} for one in collective([0, 0], [6, 6], instance=4)),
        *pair(0, 5, instance=5),
    ]
    assert noted(worst, samples) == [0, 1, 2, 3, 4, 5]


def test_warm_up_and_what_completes_at_once_do_not_count() -> None:
    worst = WorstInstances(HOSTS)
    assert noted(worst, collective([0, 0], [9, 9], iteration=-1)) == []
    assert noted(worst, collective([0, 0], [9, 9], size_bytes=0)) == []
    assert noted(worst, collective([0], [9])) == []
    assert noted(worst, collective([0, 0], [9, 9], size_bytes=0, kind="barrier")) == [0]


times = st.lists(st.integers(1, 50), min_size=2, max_size=2)


@given(
    st.lists(st.tuples(st.sampled_from(["all_reduce", "pair"]), st.integers(1, 2), times, times), max_size=12),
    st.data(),
)
def test_it_is_the_slowest_of_the_statistics(shapes: list[tuple[str, int, list[int], list[int]]], data: Any) -> None:
    rows: list[Row] = []
    for number, (kind, size, posts, takes) in enumerate(shapes):
        of = {"instance": number % 4, "iteration": number // 4, "size_bytes": size}
        if kind == "pair":
            rows += pair(posts[0], posts[0] + takes[0], **of)
        else:
            last = max(posts)
            rows += collective(posts, [last + one for one in takes], **of)
            rows[-1]["arrival_ns"] = last + (takes[0] + 1) // 2  # before the last acknowledgement
    worst = WorstInstances(HOSTS)
    for row in data.draw(st.permutations(rows)):
        noted(worst, [row])
    merged = merge(table(rows), HOSTS)
    slowest = {(key.collective, key.size_bytes): int(merged.cct_ns[which].max()) for key, which in class_rows(merged)}
    found = {(int(merged.iteration[at]), int(merged.instance[at])): int(merged.cct_ns[at]) for at in range(len(merged))}
    assert sorted(found[one] for one in worst.found) == sorted(slowest.values())
