"""The sends of a run as KVBench reports patterns."""

import json
from pathlib import Path

import pytest

from emulator.annexes.exports.kvbench import to_json, to_text
from emulator.errors import ResultError
from emulator.results.run_folder.reader import Run
from tests.support.runs import collective, pair, write_run

MS = 1_000_000


def two_patterns(folder: Path) -> Run:
    samples = [
        one
        for iteration in range(2)
        for one in (
            *pair(0, 4 * MS, size_bytes=3_000_000, name="pattern 0", iteration=iteration, instance=0),
            *pair(1 * MS, 5 * MS, size_bytes=1_000_000, name="pattern 0", iteration=iteration, instance=1),
            *pair(9 * MS, 10 * MS, size_bytes=2_000_000, name="pattern 1", iteration=iteration, instance=2),
        )
    ]
    return write_run(folder / "run", samples)


def test_a_pattern_is_all_sends_of_a_name(tmp_path: Path) -> None:
    document = json.loads(to_json(two_patterns(tmp_path)))
    assert len(document["iterations_results"]) == 2
    first, second = document["iterations_results"][0]
    assert first["size"] == pytest.approx(0.004)
    assert (first["num_senders"], first["isolated_latency"]) == (1, None)
    assert first["latency"] == pytest.approx(5, abs=0.01)
    assert first["mean_bw"] == pytest.approx(0.004 / 0.005, rel=0.01)
    assert second["size"] == pytest.approx(0.002)
    assert second["min_start_ts"] - first["min_start_ts"] == pytest.approx(0.009, abs=1e-5)


def test_the_table_has_the_columns_of_kvbench(tmp_path: Path) -> None:
    lines = to_text(two_patterns(tmp_path)).splitlines()
    assert lines[0] == "Iteration 1/2"
    assert lines[1].split("  ") == [
        "Transfer size (GB)",
        "Latency (ms)",
        "Isolated Latency (ms)",
        "Num Senders",
        "Mean BW (GB/s)",
    ]
    assert lines[3].split() == ["0.004", "5.000", "1", "0.800"]


def test_a_run_without_sends_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [5, 5], kind="all_reduce", size_bytes=8))
    with pytest.raises(ResultError, match="has no measured send"):
        to_text(run)
