"""The table of a sweep against one worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.statistics.sweep import SweepRow, SweepTable, sweep_table, sweep_to_json
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


def test_numbers_by_hand(tmp_path: Path) -> None:
    small, large = swept(tmp_path).rows
    assert (small.time_us, small.min_us, small.max_us, small.p50_us) == (20, 15, 25, 15)
    assert (small.iterations, small.p95_us, small.p99_us, small.early) == (2, None, None, 0)
    assert small.cv_percent == pytest.approx(100 * 50**0.5 / 20)
    assert small.algbw_gbps == pytest.approx(1024 / 20e-6 / 1e9)
    assert small.busbw_gbps == pytest.approx(1024 / 20e-6 / 1e9 * 1.5)
    assert large.algbw_gbps == pytest.approx((1 << 20) / 1050e-6 / 1e9)


def test_json_has_what_the_table_has_no_room_for(tmp_path: Path) -> None:
    table = swept(tmp_path)
    document = json.loads(json.dumps(sweep_to_json(table)))
    assert (document["collective"], document["ranks"], document["root"]) == ("all_reduce", 4, -1)
    assert document["mean_busbw_gbps"] == table.mean_busbw_gbps
    assert [one["size_bytes"] for one in document["rows"]] == [1024, 1 << 20]
    assert document["rows"][0]["p99_us"] is None
    assert document["rows"][0]["min_us"] == 15


def test_payload_that_ran_ahead_has_no_speed_and_is_counted(tmp_path: Path) -> None:
    table = swept(tmp_path, early=True)
    assert [(one.early, one.algbw_gbps, one.busbw_gbps) for one in table.rows] == [(2, None, None)] * 2
    assert table.mean_busbw_gbps is None
    lines = render_sweep(table).splitlines()
    assert lines[6].split()[-4:] == ["20.00", "-", "-", "N/A"]
    assert lines[-2:] == [
        "# Avg bus bandwidth    : -",
        "# 4 measurements without bandwidth: payload arrived before a rank had posted (credits are off)",
    ]


def test_one_rank_and_a_barrier_have_no_bus(tmp_path: Path) -> None:
    samples = collective([0], [50], kind="all_reduce")
    table = sweep_table(write_run(tmp_path / "one", samples), kind=CommKind.ALL_REDUCE, ranks=1, sizes=[8])
    assert [(one.algbw_gbps, one.busbw_gbps) for one in table.rows] == [(None, None)]
    samples = collective([0, 0], [50, 60], kind="barrier", size_bytes=0)
    table = sweep_table(write_run(tmp_path / "two", samples), kind=CommKind.BARRIER, ranks=2, sizes=[0])
    assert [(one.time_us, one.busbw_gbps) for one in table.rows] == [(0.06, None)]


def test_times_that_cannot_be_have_no_speed(tmp_path: Path) -> None:
    samples = collective([1000, 0], [500, 600])  # done before the last post, as with skewed clocks
    (one,) = sweep_table(write_run(tmp_path / "run", samples), kind=CommKind.ALL_REDUCE, ranks=2, sizes=[8]).rows
    assert (one.time_us, one.busbw_gbps, one.cv_percent) == (-0.4, None, None)


def test_sizes_that_were_not_reached_are_left_out(tmp_path: Path) -> None:
    samples = collective([0, 0], [10, 10])
    run = write_run(tmp_path / "run", samples)
    assert [r.size_bytes for r in sweep_table(run, kind=CommKind.ALL_REDUCE, ranks=2, sizes=[8, 16]).rows] == [8]
    none = sweep_table(write_run(tmp_path / "none", []), kind=CommKind.ALL_REDUCE, ranks=2, sizes=[8, 16])
    assert none.rows == []
    assert render_sweep(none).splitlines()[1] == "# algorithms: none"


@pytest.mark.parametrize(("kind", "root"), [(CommKind.BROADCAST, 0), (CommKind.REDUCE, 0), (CommKind.ALL_GATHER, -1)])
def test_collectives_with_a_root_name_it(tmp_path: Path, kind: CommKind, root: int) -> None:
    samples = collective([0, 0], [10, 10], kind=kind.label)
    assert sweep_table(write_run(tmp_path / "run", samples), kind=kind, ranks=2, sizes=[8]).root == root


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.00049, "0.0005"),
        (0.5, "0.5000"),
        (1.0, "1.00"),
        (999.99, "999.99"),
        (1234.56, "1234.6"),
        (12345.6, "12346"),
        (9_999_999.0, "9999999"),
        (-0.4, "-0.4000"),
        (-1234.5, "-1234.5"),
    ],
)
def test_numbers_fit_their_column(value: float, shown: str) -> None:
    line = render_sweep(SweepTable(CommKind.ALL_REDUCE, 2, -1, [row(time_us=value)])).splitlines()[6]
    assert line.split()[5] == shown
    assert len(line) == len(GOLDEN.splitlines()[6])


def test_algorithms_are_told_with_the_sizes_they_end_at() -> None:
    rows = [row(size_bytes=size, algorithm=name) for size, name in ((8, "a"), (16, "a"), (32, "b"), (64, "a"))]
    text = render_sweep(SweepTable(CommKind.ALL_REDUCE, 2, -1, rows))
    assert text.splitlines()[1] == "# algorithms: a up to 16 B, then b up to 32 B, then a"


def test_loss_and_warnings_stand_below_the_table(tmp_path: Path) -> None:
    flows = [
        FlowCounters(0, 1, packets=1500, retransmits=2, timeouts=0),
        FlowCounters(1, 0, packets=500, retransmits=1),
    ]
    run = write_run(tmp_path / "run", collective([0, 0], [10, 10]), flows=flows, warnings={"the kernel was mean": 2})
    table = sweep_table(run, kind=CommKind.ALL_REDUCE, ranks=2, sizes=[8])
    assert render_sweep(table).splitlines()[-2:] == [
        "# Flows: packets 2,000, retransmits 3, timeouts 0",
        "# Warning: the kernel was mean (2 times)",
    ]
    document = sweep_to_json(table)
    assert document["counters"] == {"packets": 2000, "retransmits": 3, "timeouts": 0}
    assert document["warnings"] == {"the kernel was mean": 2}
