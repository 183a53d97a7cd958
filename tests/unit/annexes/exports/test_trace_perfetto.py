from pathlib import Path

import numpy as np
import pytest

from emulator.annexes.exports.trace_perfetto import write_trace_line
from emulator.trace.analysis.time_line import computed_time_line
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import Node, coll, node, rank_trace, recv, send
from tests.unit.annexes.exports.test_perfetto import read_slices

pytest.importorskip("perfetto")


def test_slices_of_every_node_that_takes_time(tmp_path: Path) -> None:
    def nodes(message: Node) -> list[Node]:
        group = coll(2, "all_reduce", 8, pg="tp", group_ranks=(0, 1), deps=[1])
        return [node(1, duration=5, name="gemm"), group, node(3, duration=9, cpu=True), message, node(5)]

    ranks = [nodes(send(4, 1, deps=[2])), nodes(recv(4, 0, deps=[2]))]
    workload = build_workload([rank_trace(rank, each) for rank, each in enumerate(ranks)])
    line = computed_time_line(workload, np.array([2_000, 3_000], dtype=np.int64))
    write_trace_line(workload, line, tmp_path / "x", names=lambda rank: [one.name for one in ranks[rank]])
    assert [one for one in read_slices(tmp_path / "x") if one[0] == "rank 0"] == [
        ("rank 0", "device", 0, 5_000, "gemm"),
        ("rank 0", "CPU", 0, 9_000, ""),
        ("rank 0", "group tp", 5_000, 7_000, ""),
        ("rank 0", "messages", 7_000, 10_000, ""),
    ]
