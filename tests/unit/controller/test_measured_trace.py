from dataclasses import replace
from pathlib import Path

import pytest

from emulator.controller.recording.measured_trace import NodeAnnotation, annotate, round_to_micros, trace_metadata
from emulator.results.run_folder.manifest import Exclusion, Scaling, Trials
from emulator.results.run_folder.reader import Run
from tests.support.runs import MEASURED_ATTRIBUTES, collective, manifest, pair, ranks, write_run


def annotations(run: Run, **options: int) -> dict[int, dict[int, NodeAnnotation]]:
    return dict(annotate(run, **options))


def four_iterations(tmp_path: Path, **facts: object) -> Run:
    """Own durations of rank 0: 4,000, 1,500, 9,000 and 2,500 ns; iteration k starts at 100,000 · k."""
    rows = []
    for number, own in ((-1, 50), (0, 4_000), (1, 1_500), (2, 9_000), (3, 2_500)):
        start = 100_000 * number
        posts, dones = [start + 700, start + 900], [start + 700 + own, start + 1_000]
        rows += collective(posts, dones, iteration=number, node_id=7, instance=3, traced_ns=42_000)
    spans = {n: ranks((100_000 * n, 100_000 * n + 50_000), (100_000 * n + 10, 0)) for n in range(-1, 4)}
    return write_run(tmp_path / "run", rows, iterations=spans, **facts)


def test_a_node_gets_the_lower_median_of_its_own_durations(tmp_path: Path) -> None:
    found = annotations(four_iterations(tmp_path))[0][7]
    assert found.duration_micros == 3
    assert found.attributes["charkha.duration_ns"] == 2_500
    assert found.attributes["charkha.samples_ns"] == [4_000, 1_500, 9_000, 2_500]


def test_a_node_starts_where_it_did_in_its_median_iteration(tmp_path: Path) -> None:
    found = annotations(four_iterations(tmp_path))
    assert (found[0][7].attributes["charkha.start_ns"], found[0][7].start_micros) == (700, 1)
    assert found[1][7].attributes["charkha.start_ns"] == 900


def test_all_members_carry_the_same_collective_time(tmp_path: Path) -> None:
    found = annotations(four_iterations(tmp_path))
    # last done - last post: 3,800, 1,300, 8,800, 2,300; the lower median is 2,300.
    assert [found[rank][7].attributes["charkha.cct_ns"] for rank in (0, 1)] == [2_300, 2_300]


def test_the_attributes_are_those_of_the_contract(tmp_path: Path) -> None:
    attributes = annotations(four_iterations(tmp_path))[1][7].attributes
    assert set(attributes) == MEASURED_ATTRIBUTES
    assert attributes["charkha.traced_duration_micros"] == 42
    assert attributes["charkha.algorithm"] == "ring"
    assert attributes["charkha.run_id"] == manifest().run_id


def test_excluded_iterations_are_not_in_it(tmp_path: Path) -> None:
    trials = Trials(attempted=5, warmup=1, included=3, excluded=(Exclusion(3, "a rank was late"),))
    found = annotations(four_iterations(tmp_path, trials=trials))[0][7]
    assert found.attributes["charkha.samples_ns"] == [4_000, 1_500, 9_000]
    assert found.attributes["charkha.duration_ns"] == 4_000


def test_a_receive_and_its_send_carry_the_flight_time(tmp_path: Path) -> None:
    found = annotations(write_run(tmp_path / "run", pair(1_000, 4_000, received_post=3_500)))
    assert [found[rank][1].attributes["charkha.cct_ns"] for rank in (0, 1)] == [3_000, 3_000]
    assert [found[rank][1].attributes["charkha.duration_ns"] for rank in (0, 1)] == [3_005, 500]


def test_an_iteration_that_nobody_finished_starts_at_its_first_post(tmp_path: Path) -> None:
    found = annotations(write_run(tmp_path / "run", pair(1_000, 4_000, received_post=3_500)))
    assert [found[rank][1].attributes["charkha.start_ns"] for rank in (0, 1)] == [0, 2_500]


def test_no_collective_time_is_made_up(tmp_path: Path) -> None:
    negative = collective([0, 500], [400, 450], instance=0)
    alone = collective([0, 0], [9, 9], instance=1, node_id=2)[:1]
    found = annotations(write_run(tmp_path / "run", [*negative, *alone]))
    assert "charkha.cct_ns" not in found[0][1].attributes
    assert "charkha.cct_ns" not in found[0][2].attributes


def test_a_node_that_took_no_time_lasts_a_microsecond_and_had_no_duration(tmp_path: Path) -> None:
    found = annotations(write_run(tmp_path / "run", collective([0], [0])))[0][1]
    assert found.duration_micros == 1
    assert found.attributes["charkha.duration_ns"] == 0
    assert found.attributes["charkha.traced_duration_micros"] == 0


@pytest.mark.parametrize("block_rows", [1, 7, 10**6])
def test_working_in_blocks_changes_nothing(tmp_path: Path, block_rows: int) -> None:
    rows = [
        one
        for iteration in (0, 1, 2)
        for node in (2**64 - 1, 5, 9)
        for one in collective([0, 3, 1, 4], [9 + node % 7] * 4, iteration=iteration, node_id=node, instance=node % 11)
    ]
    run = write_run(tmp_path / "run", rows)
    found = list(annotate(run, block_rows=block_rows))
    assert [rank for rank, _ in found] == [0, 1, 2, 3]
    assert [set(nodes) for _, nodes in found] == [{2**64 - 1, 5, 9}] * 4
    assert found == list(annotate(run))


def test_a_run_without_measured_iterations_annotates_nothing(tmp_path: Path) -> None:
    assert annotations(write_run(tmp_path / "run", collective([0, 0], [1, 1], iteration=-1))) == {}


@pytest.mark.parametrize(("ns", "micros"), [(0, 0), (499, 0), (500, 1), (1_499, 1), (1_500, 2)])
def test_microseconds_are_rounded_half_up(ns: int, micros: int) -> None:
    assert round_to_micros(ns) == micros


def test_the_trace_says_how_it_was_scaled() -> None:
    scaled = replace(manifest(), scaling=Scaling(bytes=0.5, compute="skip"))
    assert trace_metadata(scaled) == {
        "charkha.time_base": "iteration_start",
        "charkha.scale_bytes": 0.5,
        "charkha.compute": "skip",
    }
