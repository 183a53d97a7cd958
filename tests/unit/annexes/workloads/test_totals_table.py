"""What is said of a trace that was just written."""

from pathlib import Path

import pytest
from rich.console import Console

from emulator.annexes.workloads.collective_loop import CollectiveLoop, collective_workload
from emulator.annexes.workloads.totals import EXPLAIN, render, workload_to_json
from emulator.cli.output import files_line
from emulator.trace.meaning.model import CommKind

LOOP = CollectiveLoop(kind=CommKind.ALL_REDUCE, ranks=4, size_bytes=1 << 20, count=3, compute_micros=10)


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["t.0.et"], "d: t.0.et"),
        (["t.0.et", "t.1.et", "t.2.et"], "d: t.0.et to t.2.et"),
        (["t.0.et", "t.1.et", "comm_group.json"], "d: t.0.et to t.1.et, comm_group.json"),
        (["\x1b.0.et"], r"d: \x1b.0.et"),
    ],
)
def test_files_are_named_in_one_line(names: list[str], line: str) -> None:
    assert files_line([Path("d", name) for name in names]) == line


def test_the_table_has_the_totals_of_one_iteration() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(render(collective_workload(LOOP)))
    lines = [line.strip() for line in capture.get().splitlines()]
    assert lines[0].strip() == "all_reduce: one iteration over 4 ranks"
    assert lines[-1] == "24 nodes, 12 of them compute: 30 µs per rank on average"
    assert next(line for line in lines if line.startswith("world")).split() == [
        *("world", "all_reduce", "1", "MiB", "4", "3", "12", "12", "MiB")
    ]
    for title in next(line for line in lines if line.startswith("role")).split():
        assert f"\n  {title} " in EXPLAIN


def test_json_has_the_same_totals_and_the_files() -> None:
    facts = workload_to_json(collective_workload(LOOP), [Path("t.0.et")])
    assert (facts["ranks"], facts["nodes"], facts["compute_nodes"], facts["compute_micros"]) == (4, 24, 12, 120)
    assert facts["compute_ns"] == 120_000
    assert facts["files"] == ["t.0.et"]
    assert facts["traffic"] == [
        {
            "role": "world",
            "operation": "all_reduce",
            "size_bytes": 1 << 20,
            "mean_size_bytes": 1 << 20,
            "group_size": 4,
            "operations": 3,
            "nodes": 12,
            "total_bytes": 12 << 20,
        }
    ]
