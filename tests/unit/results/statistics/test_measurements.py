from __future__ import annotations

from pathlib import Path

from emulator.results.run_folder.manifest import TraceFacts
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.samples.measurements import measurements
from tests.support.runs import collective, pair, ranks, write_run

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
    rows = [
        *collective([10, 10], [10, 10], iteration=0),
        *collective([10, 11], [10, 10], iteration=1),
    ]
    times = measurements(write_run(tmp_path / "run", rows)).classes[ALL_REDUCE]
    assert (times.time_ns.tolist(), times.negative, len(times)) == ([0], 1, 1)


def test_percentiles_need_enough_measurements(tmp_path: Path) -> None:
    rows = [row for n in range(10) for row in collective([0, 0], [n, n], iteration=n)]
    times = measurements(write_run(tmp_path / "run", rows)).classes[ALL_REDUCE]
    assert (times.percentile_ns(0.5), times.percentile_ns(0.9), times.percentile_ns(0.95)) == (4, 8, None)


def test_incomplete_measurements_are_counted(tmp_path: Path) -> None:
    found = measurements(write_run(tmp_path / "run", collective([0, 0], [9, 9])[:1]))
    assert (dict(found.classes), found.incomplete) == ({}, 1)
