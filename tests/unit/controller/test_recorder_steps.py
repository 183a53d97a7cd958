"""What a session reports becomes rows: flows of an iteration with both ends, and steps of the slowest instances."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.control.observations import Completions, FlowCounters, FlowEvents, RankSteps, RankSummary, StepRecords
from emulator.controller.recording.recorder import Recorder, WorstInstances
from emulator.controller.recording.session_observer import RanksDone
from emulator.results.run_folder.catalogue import NodeCatalogue
from emulator.results.run_folder.observer import IterationStarted
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.trace.meaning.workload import build_workload
from tests.support.playing import everyone
from tests.support.runs import manifest
from tests.support.traces import coll


class NoDevice:
    """A DutCounters of nothing."""

    def begin(self, iteration: int | None) -> None:
        """See DutCounters."""

    def counters(self) -> None:
        """See DutCounters."""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    with RunWriter(tmp_path / "run", manifest()) as found:
        yield found


def recorder(writer: RunWriter, worst: WorstInstances | None = None) -> Recorder:
    """Of two ranks that play two all-reduces, nodes 1 and 2."""
    workload = build_workload(everyone(2, [coll(1, "all_reduce", 64), coll(2, "all_reduce", 64, deps=[1])]))
    catalogue = NodeCatalogue(workload, algorithm_of=lambda node: "ring")
    device: Any = NoDevice()
    return Recorder(writer, catalogue, (), device, worst=worst)


def done(node_id: int, *, takes: int, iteration: int = 0) -> Completions:
    """Both ranks completed a node."""
    numbers = {
        name: np.zeros(2, np.int64)
        for name in ("post_ns", "bytes_sent", "bytes_received", "read_delay_ns", "core_wait_ns")
    }
    times = {name: np.full(2, takes) for name in ("done_ns", "arrival_ns")}
    ids = {"rank": np.arange(2), "node_id": np.full(2, node_id, np.uint64), "early": np.zeros(2, np.bool_)}
    return Completions(iteration, **ids, **numbers, **times)


def steps(rank: int, node_id: int) -> StepRecords:
    """One transfer to the other rank and one from it."""
    peer = [1 - rank]
    return StepRecords(
        0, [RankSteps(0, node_id - 1, rank, node_id, peer, [0], [0], [32], [1], [1], [3], peer, [0], [2])]
    )


def test_events_of_a_flow_are_joined_even_if_an_end_speaks_after_the_next_iteration_has_started(
    writer: RunWriter,
) -> None:
    record = recorder(writer)
    record.tell(IterationStarted(0))
    record.tell(RanksDone(0, [RankSummary(rank, 1, 2, 0, 0, 0) for rank in range(2)]))
    record.tell(FlowEvents(0, [FlowCounters(0, 1, qpn=17, retransmits=3)]))
    record.tell(IterationStarted(1))
    record.tell(FlowEvents(0, [FlowCounters(0, 1, qpn=17, duplicates=2)]))
    assert writer.run().table(RunTable.FLOW_EVENTS).num_rows == 0
    record.tell(RanksDone(1, [RankSummary(rank, 3, 4, 0, 0, 0) for rank in range(2)]))
    assert writer.run().table(RunTable.FLOW_EVENTS).num_rows == 1
    record.tell(FlowEvents(1, [FlowCounters(1, 0, qpn=16, timeouts=1)]))
    record.flush()
    rows = writer.run().table(RunTable.FLOW_EVENTS).to_pylist()
    names = ("iteration", "src", "qpn", "retransmits", "duplicates", "timeouts")
    assert [tuple(row[name] for name in names) for row in rows] == [(0, 0, 17, 3, 2, None), (1, 1, 16, None, None, 1)]


def test_the_slowest_are_wanted_once_and_missing_until_they_are_whole(writer: RunWriter) -> None:
    record = recorder(writer, WorstInstances((0, 0)))
    record.tell(IterationStarted(0))
    record.tell(done(1, takes=10))
    assert record.wanted_steps() == {0: [0]}
    assert record.wanted_steps() == {}
    record.tell(steps(0, 1))
    assert record.steps_missing == 1
    record.tell(steps(1, 1))
    assert record.steps_missing == 0
    record.tell(done(2, takes=11))
    record.write()  # if it was held
    assert record.wanted_steps() == {0: [1]}
    assert record.steps_missing == 1
    record.flush()
    rows = writer.run().table(RunTable.STEPS).to_pylist()
    assert [(row["instance"], row["src"], row["dst"], row["arrival_ns"]) for row in rows] == [
        (0, 0, 1, 2),
        (0, 1, 0, 2),
    ]


def test_without_a_choice_nothing_is_wanted_and_what_is_incomplete_is_counted(writer: RunWriter) -> None:
    record = recorder(writer)
    record.tell(done(1, takes=10))
    assert record.wanted_steps() == {}
    record.tell(steps(0, 1))
    record.flush()
    assert record.steps_missing == 1
    assert writer.run().table(RunTable.STEPS).num_rows == 2
