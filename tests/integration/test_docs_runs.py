"""The queries of docs/runs.md give the same figures as Charkha for the same runs."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.reader import Run
from emulator.results.statistics.summary import summarise
from tests.support.command import ROOT
from tests.support.repeated import write_runs
from tests.support.runs import collective, ranks, write_run

QUERIES = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "runs.md").read_text(), re.DOTALL)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Two runs of each of two firmwares, and one with losses, below runs/."""
    monkeypatch.chdir(tmp_path)
    runs = [
        run
        for turn, version in enumerate(("1.0", "1.1"))
        for run in write_runs(Path("runs") / version, runs=2, seed=turn, turn=turn, dut={"firmware": version})
    ]
    lossy = write_run(
        Path("runs") / "lossy",
        collective([0, 0], [70, 80]) + collective([0, 0], [1, 1], iteration=-1),
        iterations={-1: ranks((0, 9_000)), 0: ranks((0, 100), (5, 110))},
        flows=[
            FlowCounters(0, 1, bytes=8, messages=1, packets=50, retransmits=1),
            FlowCounters(1, 0, bytes=8, messages=1, packets=50, retransmits=5),
            FlowCounters(1, 1, bytes=8, messages=1, packets=50, retransmits=0),
        ],
    )
    return [*runs, lossy]


def query(number: int) -> list[dict[str, Any]]:
    answer = duckdb.sql(QUERIES[number])
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


def test_the_jct_of_every_run(store: list[Run]) -> None:
    found = {row["folder"]: row for row in query(0)}
    assert set(found) == {str(run.folder) for run in store}
    for run in store:
        row, iteration = found[str(run.folder)], summarise(run).iteration
        assert (row["iterations"], row["firmware"]) == (iteration.count, run.manifest.dut.get("firmware"))
        assert row["jct_ms"] == pytest.approx(iteration.jct_ns / 1e6)
        assert row["jct_max_ms"] == pytest.approx(iteration.jct_max_ns / 1e6)


def test_collectives_by_firmware(store: list[Run]) -> None:
    found = query(1)
    assert len(found) == 2 * 3 + 1
    (lossy,) = (row for row in found if row["firmware"] is None)
    (known,) = summarise(store[-1]).classes
    assert (lossy["samples"], lossy["p50_us"], lossy["p99_us"]) == (1, (known.cct_p50_ns or 0) / 1e3, None)
    for row in found:
        if row["firmware"]:
            assert (row["runs"], row["samples"]) == (2, 24)


def test_pairs_that_lost_packets(store: list[Run]) -> None:
    assert [(row["src"], row["dst"], row["retransmits"], row["percent"]) for row in query(2)] == [
        (1, 0, 5, 10.0),
        (0, 1, 1, 2.0),
    ]


def test_there_are_three_queries() -> None:
    assert len(QUERIES) == 3
