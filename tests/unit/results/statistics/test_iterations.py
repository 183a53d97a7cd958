from pathlib import Path

import pytest

from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import TraceFacts
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.samples.iterations import iteration_durations, measurements
from emulator.results.statistics.summary import summarise
from tests.support.runs import collective, manifest, pair, ranks, write_run


def test_an_iteration_lasts_from_its_first_start_to_its_last_end(tmp_path: Path) -> None:
    spans = {
        0: ranks((100, 500), (120, 900), communication=1),
        1: ranks((1000, 1300), (990, 1290), compute=200, communication=150, overlap=90),
        2: ranks((2000, 2100), (2000, 2050), communication=3),
    }
    found = summarise(
        write_run(tmp_path / "run", [], iterations=spans, roofline_ns=155, sequential_roofline_ns=310)
    ).iteration
    assert (found.count, found.jct_ns, found.jct_min_ns, found.jct_max_ns) == (3, 310, 100, 800)
    assert (found.roofline_ratio, found.sequential_roofline_ratio) == (2, 1)
    assert (found.slowest_rank, found.exposed_ns, found.overlap_ns) == (0, 60, 90)
    assert found.exposed_fraction == pytest.approx(60 / 310)
    assert found.overlap_fraction == pytest.approx(0.6)


def test_iterations_that_follow_each_other_on_the_ranks_last_as_long_as_the_run_together(tmp_path: Path) -> None:
    spans = {
        -1: ranks((0, 100), (0, 190)),
        0: ranks((100, 210), (190, 300)),
        1: ranks((210, 320), (300, 420)),
        2: ranks((430, 500), (430, 450)),
    }
    run = write_run(tmp_path / "run", [], iterations=spans, parameters={"pace": Parameter("continuous")})
    assert iteration_durations(run.table(RunTable.ITERATIONS), run.manifest) == {0: 110, 1: 120, 2: 70}
    found = summarise(run).iteration
    assert (found.count, found.jct_ns, found.jct_max_ns) == (3, 110, 120)


def test_an_iteration_that_a_rank_did_not_finish_does_not_count(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path / "run", collective([0, 0], [5, 5]), iterations={0: ranks((0, 9))}))
    assert summary.iteration is None
    assert summary.totals.payload_bytes_per_s is None


def test_events_of_an_iteration_are_summed_over_flows_and_0_only_if_they_are_known(tmp_path: Path) -> None:
    spans = {n: ranks((100 * n, 100 * n + 50), (100 * n, 100 * n + 40)) for n in (-1, 0, 1)}
    sent = [FlowCounters(0, 1, packets=9, retransmits=4, timeouts=0), FlowCounters(1, 0, packets=9, retransmits=3)]
    happened = [FlowCounters(0, 1, retransmits=2), FlowCounters(1, 0, retransmits=3)]
    with RunWriter(tmp_path / "run", manifest()) as writer:
        for number, spent in spans.items():
            writer.add_iteration(number, spent)
        writer.add_flows(sent)
        writer.add_flow_events(-1, [FlowCounters(0, 1, retransmits=2)])
        writer.add_flow_events(1, happened)
    found = summarise(read_run(tmp_path / "run")).iterations
    assert [(one.number, one.jct_ns, one.events["retransmits"]) for one in found] == [(0, 50, 0), (1, 50, 5)]
    assert [(one.events["timeouts"], one.events["naks"]) for one in found] == [(0, None), (0, None)]
    unrecorded = summarise(write_run(tmp_path / "old", [], iterations=spans, flows=sent)).iterations
    assert [(one.events["retransmits"], one.events["timeouts"]) for one in unrecorded] == [(None, 0), (None, 0)]


def test_the_trace_determines_how_many_ranks_complete_an_iteration(tmp_path: Path) -> None:
    trace = TraceFacts("t", "00", ranks=1, nodes=1, communication_nodes=0)
    assert summarise(write_run(tmp_path / "run", [], iterations={0: ranks((0, 9))}, trace=trace)).iteration is not None
    assert manifest(trace=trace).trace.ranks == 1


ALL_REDUCE = ClassKey("all_reduce", 2, 1000, "ring")


def test_times_are_by_class_with_the_iteration_of_each(tmp_path: Path) -> None:
    rows = [
        *collective([0, 0], [70, 80], iteration=0),
        *collective([0, 0], [60, 50], iteration=1),
        *pair(0, 30, iteration=1, instance=1, algorithm=""),
    ]
    found = measurements(write_run(tmp_path / "run", rows)).classes
    assert found[ALL_REDUCE].time_ns.tolist() == [80, 60]
    assert found[ALL_REDUCE].iteration.tolist() == [0, 1]
    assert found[ClassKey("send_recv", 2, 1000)].time_ns.tolist() == [30]
    assert ClassKey(JCT, 2) not in found, "no iteration was completed"


def test_the_iteration_is_a_class_over_all_ranks(tmp_path: Path) -> None:
    trace = TraceFacts("t", "00", ranks=3, nodes=3, communication_nodes=3)
    spans = {0: ranks((5, 50), (0, 40), (7, 90)), 1: ranks((100, 150), (100, 130), (90, 120))}
    found = measurements(write_run(tmp_path / "run", [], iterations=spans, trace=trace)).classes
    assert found[ClassKey(JCT, 3)].time_ns.tolist() == [90, 60]
    assert found[ClassKey(JCT, 3)].iteration.tolist() == [0, 1]


def test_a_time_of_zero_counts_and_a_negative_one_does_not(tmp_path: Path) -> None:
    rows = [*collective([10, 10], [10, 10], iteration=0), *collective([10, 11], [10, 10], iteration=1)]
    times = measurements(write_run(tmp_path / "run", rows)).classes[ALL_REDUCE]
    assert (times.time_ns.tolist(), times.negative, len(times)) == ([0], 1, 1)


def test_percentiles_need_enough_measurements(tmp_path: Path) -> None:
    rows = [row for n in range(10) for row in collective([0, 0], [n, n], iteration=n)]
    times = measurements(write_run(tmp_path / "run", rows)).classes[ALL_REDUCE]
    assert (times.percentile_ns(0.5), times.percentile_ns(0.9), times.percentile_ns(0.95)) == (4, 8, None)


def test_incomplete_measurements_are_counted(tmp_path: Path) -> None:
    found = measurements(write_run(tmp_path / "run", collective([0, 0], [9, 9])[:1]))
    assert (dict(found.classes), found.incomplete) == ({}, 1)
