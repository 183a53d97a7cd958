"""A workload that was written as a trace, as a JSON document."""

from __future__ import annotations

from pathlib import Path

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.collective_loop import CollectiveLoop, collective_workload
from emulator.views.as_json.workload import workload_to_json

LOOP = CollectiveLoop(kind=CommKind.ALL_REDUCE, ranks=4, size_bytes=1 << 20, count=3, compute_micros=10)


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
