"""Metrics of Open Traffic Generator from a small run: by upstream's definitions, and nothing that was not measured."""

from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.service.otg.measured import Measured
from emulator.annexes.service.otg.model import Config, IterationRecording
from emulator.annexes.service.otg.translation import arrived, stage_runs
from tests.support.otg import COMMUNICATOR, RECORDING, changed
from tests.support.runs import collective, ranks, write_run


def measured(*folders: Path) -> Measured:
    document = changed(f"{COMMUNICATOR}.algorithm.choice", "all_to_all_direct")
    (run,) = stage_runs(arrived(document, Config), topology=None)
    return Measured.of(run, run.stage.communicators[0], folders)


def written(folder: Path, **facts: Any) -> Path:
    """Two iterations, of 100 and of 300 µs."""
    samples = collective([0, 0], [90_000, 80_000]) + collective([200_000, 200_000], [450_000, 440_000], iteration=1)
    iterations = {0: ranks((0, 100_000), (0, 90_000)), 1: ranks((200_000, 500_000), (200_000, 480_000))}
    return write_run(folder, samples, iterations=iterations, **facts).folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "run")


def test_columns(folder: Path) -> None:
    found = measured(folder).columns()
    assert found == {
        "jct": pytest.approx(400e-6),
        "avg_jct": pytest.approx(200e-6),
        "max_jct": pytest.approx(300e-6),
        "min_jct": pytest.approx(100e-6),
        "alg_bw": pytest.approx(125_000 * 8 / 200e-6 / 1e9),
        "bus_bw": pytest.approx(125_000 * 8 / 200e-6 / 1e9 / 2),  # all-to-all of two ranks
        "max_tail_latency_us": 250,
        "iteration_count": 2,
        "reduce_time": 0.0,
        "trans_time": found["jct"],
        "training_time": found["jct"],
    }


def test_loops_are_summed(folder: Path) -> None:
    one, two = measured(folder).columns(), measured(folder, folder).columns()
    assert (two["iteration_count"], two["jct"]) == (4, pytest.approx(2 * one["jct"]))
    assert (two["avg_jct"], two["bus_bw"]) == (pytest.approx(one["avg_jct"]), pytest.approx(one["bus_bw"]))


def test_the_ideal_where_ports_have_rates(folder: Path, tmp_path: Path) -> None:
    known = written(tmp_path / "known", roofline_ns=50_000)
    found = measured(known).columns()
    assert (found["ideal_jct"], found["jct_percent"]) == (pytest.approx(100e-6), pytest.approx(400))
    assert "ideal_jct" not in measured(known, folder).columns()


def test_a_stage_that_is_not_complete_counts_no_iterations() -> None:
    assert measured().columns() == {"iteration_count": 0}


def test_records_of_iterations(folder: Path) -> None:
    recording = IterationRecording(**RECORDING, max_record_count=3)
    records = measured(folder, folder).iterations(recording)
    assert [(one["stage_loop"], one["iteration"], one["jct"]) for one in records] == [
        (1, 1, pytest.approx(100e-6)),
        (1, 2, pytest.approx(300e-6)),
        (2, 1, pytest.approx(100e-6)),
    ]
