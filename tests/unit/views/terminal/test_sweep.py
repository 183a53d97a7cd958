"""The table of a sweep in the layout of nccl-tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.statistics.sweep import SweepRow, SweepTable, sweep_table
from emulator.trace.model import CommKind
from emulator.views.terminal.sweep import render_sweep
from tests.support.runs import collective, write_run

GOLDEN = """\
# all_reduce, 4 ranks; bytes are moved, nothing is summed
# algorithms: direct up to 1024 B, then ring
#
#                                                              out-of-place                       
#       size         count      type   redop    root     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        
        1024          1024     uint8    none      -1    20.00  0.0512  0.0768     N/A
     1048576       1048576     uint8    none      -1   1050.0  0.9986    1.50     N/A
# Avg bus bandwidth    : 0.7874"""  # noqa: W291


def swept(tmp_path: Path, **fields: Any) -> SweepTable:
    """Two sizes by four ranks: cct 15 and 25 us, 1,000 and 1,100 us; and a warm-up that does not count."""
    samples = []
    for iteration, times in ((-1, (9e6, 9e6)), (0, (15_000, 1_000_000)), (1, (25_000, 1_100_000))):
        for instance, (time, algorithm) in enumerate(zip(times, ("direct", "ring"), strict=True)):
            mine = {"iteration": iteration, "instance": instance, "index_in_group": instance, "algorithm": algorithm}
            samples += collective([100, 50, 0, 70], [100 + int(time)] * 4, **mine | fields)
    run = write_run(tmp_path / "run", samples)
    return sweep_table(run, kind=CommKind.ALL_REDUCE, ranks=4, sizes=[1024, 1 << 20])


def row(**fields: Any) -> SweepRow:
    known: dict[str, Any] = {
        "size_bytes": 8,
        "algorithm": "ring",
        "iterations": 2,
        "time_us": 5.0,
        "min_us": 4.0,
        "max_us": 6.0,
        "p50_us": 4.0,
        "p95_us": None,
        "p99_us": None,
        "cv_percent": None,
        "algbw_gbps": 1.0,
        "busbw_gbps": 2.0,
        "early": 0,
    }
    return SweepRow(**known | fields)


def test_the_table_is_laid_out_as_nccl_tests_does(tmp_path: Path) -> None:
    assert render_sweep(swept(tmp_path)) == GOLDEN


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (CommKind.ALL_REDUCE, 800),
        (CommKind.BROADCAST, 800),
        (CommKind.REDUCE, 800),
        (CommKind.ALL_GATHER, 100),
        (CommKind.REDUCE_SCATTER, 100),
        (CommKind.ALL_TO_ALL, 100),
        (CommKind.GATHER, 100),
        (CommKind.SCATTER, 100),
    ],
)
def test_count_is_that_of_one_rank_where_ranks_have_parts(kind: CommKind, count: int) -> None:
    line = render_sweep(SweepTable(kind, 8, -1, [row(size_bytes=800)])).splitlines()[6]
    assert line.split()[:2] == ["800", str(count)]
