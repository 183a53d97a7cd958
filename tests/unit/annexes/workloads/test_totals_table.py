"""What is said of a trace that was just written."""

from pathlib import Path

import pytest

from emulator.annexes.workloads.collective_loop import CollectiveLoop, collective_workload
from emulator.annexes.workloads.totals import render, workload_to_json
from emulator.cli.output import files_line
from emulator.trace.meaning.model import CommKind
from tests.support.approved import approved, json_text
from tests.support.terminal import told

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


def test_totals_of_one_iteration_are_what_was_approved() -> None:
    workload = collective_workload(LOOP)
    approved("terminal/workload", told({"a trace that was just written": render(workload)}))
    approved("json/workload", json_text(workload_to_json(workload, [Path("t.0.et")])))
