"""`charkha bench` from the outside: nccl-tests' table and its JSON."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from emulator.trace.meaning.model import CommKind
from tests.support.command import charkha, succeed
from tests.support.full import IS_FULL

FACTORS = {"all_reduce": 2 * 2 / 3, "broadcast": 1.0, "reduce": 1.0}
KINDS = [kind.label for kind in CommKind if kind.is_collective]
SHARDED = ("all_gather", "reduce_scatter", "reduce_scatter_block", "all_to_all", "gather", "scatter")


def _bench(folder: Path, *arguments: object) -> str:
    finished = succeed("bench", *arguments, "--agents", 2, "--out", "run", cwd=folder, quiet=True)
    return finished.stdout


def _bench_json(folder: Path, *arguments: object) -> dict[str, Any]:
    return json.loads(_bench(folder, *arguments, "--json"))


def test_the_table_has_a_row_per_size(tmp_path: Path) -> None:
    lines = _bench(tmp_path, "all_reduce", "-n", 4, "-b", "1K", "-e", "16K", "--iterations", 5).splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert [row[0] for row in rows] == ["1024", "2048", "4096", "8192", "16384"]
    assert {len(row) for row in rows} == {13}
    for row in rows:
        size, time_us, algbw, busbw = int(row[0]), float(row[5]), float(row[6]), float(row[7])
        assert algbw == pytest.approx(size / time_us / 1e3, rel=0.01, abs=0.006)
        assert busbw == pytest.approx(algbw * 1.5, rel=0.01, abs=0.01)
    assert any(line.startswith("# Avg bus bandwidth") for line in lines)
    assert "# Run folder: run" in lines


def test_times_are_means_of_the_samples(tmp_path: Path) -> None:
    document = _bench_json(tmp_path, "all_reduce", "-n", 2, "-b", "4K", "-e", "8K", "--iterations", 5, "--warmup", 2)
    rows = pq.read_table(tmp_path / "run" / "samples.parquet").to_pylist()
    assert len(rows) == 2 * 2 * 7
    for number, row in enumerate(document["rows"]):
        times = []
        for iteration in range(5):
            both = [one for one in rows if (one["iteration"], one["instance"]) == (iteration, number)]
            times.append(max(one["arrival_ns"] for one in both) - max(one["post_ns"] for one in both))
        assert row["iterations"] == 5
        assert row["time_ns"] == pytest.approx(sum(times) / 5)
        assert (row["min_ns"], row["max_ns"]) == (min(times), max(times))
        assert row["busbw_bytes_per_s"] == pytest.approx(row["size_bytes"] / row["time_ns"] * 1e9)
        assert row["p99_ns"] is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS if IS_FULL else KINDS[::6])
def test_every_collective_is_swept(kind: str, tmp_path: Path) -> None:
    document = _bench_json(tmp_path, kind, "-n", 3, "-b", "96", "-e", "3K", "-f", 8, "--iterations", 3)
    for row in document["rows"]:
        assert row["time_ns"] > 0
        if kind == "barrier":
            assert row["busbw_bytes_per_s"] is None
            continue
        factor = 2 / 3 if kind in SHARDED else FACTORS[kind]
        assert row["busbw_bytes_per_s"] == pytest.approx(factor * row["size_bytes"] / row["time_ns"] * 1e9)
    sizes = [row["size_bytes"] for row in document["rows"]]
    assert sizes == ([0] if kind == "barrier" else [96, 768])


def test_the_log_names_agents_and_iterations(tmp_path: Path) -> None:
    sweep = (
        "bench",
        "all_reduce",
        "-n",
        2,
        "--agents",
        1,
        "-b",
        8,
        "-e",
        8,
        "--iterations",
        1,
        "--warmup",
        1,
        "--out",
        "run",
    )
    finished = charkha("--log-level", "info", *sweep, cwd=tmp_path)
    said = [line.removeprefix("INFO emulator.cli.player: ") for line in finished.stderr.splitlines()]
    assert said[:2] == ["waiting for agents: agent-0", "iteration -1 begins (a warm-up)"]
    assert said[2].startswith("iteration -1 took ")
    assert said[3] == "iteration 0 begins"
    assert said[4].startswith("iteration 0 took ")


def test_pairs_are_swept_as_sendrecv(tmp_path: Path) -> None:
    document = _bench_json(tmp_path, "sendrecv", "-n", 3, "-b", "1K,4K", "--iterations", 3)
    assert document["collective"] == "send_recv"
    assert [(row["size_bytes"], row["iterations"]) for row in document["rows"]] == [(1024, 3), (4096, 3)]
    assert all(row["busbw_bytes_per_s"] > 0 for row in document["rows"])


def test_the_algorithm_of_the_only_collective_needs_no_name_of_it(tmp_path: Path) -> None:
    document = _bench_json(
        tmp_path, "all_reduce", "-n", 3, "-b", "4K", "-e", "4K", "--iterations", 1, "--algorithm", "ring"
    )
    assert [row["algorithm"] for row in document["rows"]] == ["ring"]
