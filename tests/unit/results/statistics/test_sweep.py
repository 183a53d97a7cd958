"""The table of a sweep against one worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.results.statistics.sweep import SweepTable, sweep_table
from emulator.trace.meaning.model import CommKind
from emulator.views.as_json import sweep_to_json
from tests.support.runs import collective, pair, write_run


def swept(tmp_path: Path, **fields: Any) -> SweepTable:
    """Two sizes by four ranks: cct 15 and 25 us, 1,000 and 1,100 us; and a warm-up that does not count."""
    samples = []
    for iteration, times in ((-1, (9e6, 9e6)), (0, (15_000, 1_000_000)), (1, (25_000, 1_100_000))):
        for instance, (time, algorithm) in enumerate(zip(times, ("direct", "ring"), strict=True)):
            mine = {"iteration": iteration, "instance": instance, "index_in_group": instance, "algorithm": algorithm}
            samples += collective([100, 50, 0, 70], [100 + int(time)] * 4, **mine | fields)
    run = write_run(tmp_path / "run", samples)
    return sweep_table(run, kind=CommKind.ALL_REDUCE, ranks=4, sizes=[1024, 1 << 20])


def test_numbers_by_hand(tmp_path: Path) -> None:
    small, large = swept(tmp_path).rows
    assert (small.time_ns, small.min_ns, small.max_ns, small.p50_ns) == (20_000, 15_000, 25_000, 15_000)
    assert (small.iterations, small.p95_ns, small.p99_ns, small.early) == (2, None, None, 0)
    assert small.cv_percent == pytest.approx(100 * 50**0.5 / 20)
    assert small.algbw_bytes_per_s == pytest.approx(1024 / 20e-6)
    assert small.busbw_bytes_per_s == pytest.approx(1024 / 20e-6 * 1.5)
    assert large.algbw_bytes_per_s == pytest.approx((1 << 20) / 1050e-6)


def test_json_has_what_the_table_has_no_room_for(tmp_path: Path) -> None:
    table = swept(tmp_path)
    document = json.loads(json.dumps(sweep_to_json(table)))
    assert (document["collective"], document["ranks"], document["root"]) == ("all_reduce", 4, -1)
    assert document["mean_busbw_bytes_per_s"] == table.mean_busbw_bytes_per_s
    assert [one["size_bytes"] for one in document["rows"]] == [1024, 1 << 20]
    assert document["rows"][0]["p99_ns"] is None
    assert document["rows"][0]["min_ns"] == 15_000


def test_names_of_version_0_1_stay_for_one_version(tmp_path: Path) -> None:
    document = sweep_to_json(swept(tmp_path))
    assert document["mean_busbw_gbps"] * 1e9 == document["mean_busbw_bytes_per_s"]
    for one in document["rows"]:
        for name in ("algbw", "busbw"):
            assert one[f"{name}_gbps"] * 1e9 == pytest.approx(one[f"{name}_bytes_per_s"])
        for name in ("time", "min", "max", "p50"):
            assert one[f"{name}_us"] * 1000 == one[f"{name}_ns"]
        assert one["p99_us"] is None


def test_payload_that_ran_ahead_has_no_speed_and_is_counted(tmp_path: Path) -> None:
    table = swept(tmp_path, early=True)
    assert [(one.early, one.algbw_bytes_per_s, one.busbw_bytes_per_s) for one in table.rows] == [(2, None, None)] * 2
    assert table.mean_busbw_bytes_per_s is None


def test_one_rank_and_a_barrier_have_no_bus(tmp_path: Path) -> None:
    samples = collective([0], [50], kind="all_reduce")
    table = sweep_table(write_run(tmp_path / "one", samples), kind=CommKind.ALL_REDUCE, ranks=1, sizes=[8])
    assert [(one.algbw_bytes_per_s, one.busbw_bytes_per_s) for one in table.rows] == [(None, None)]
    samples = collective([0, 0], [50, 60], kind="barrier", size_bytes=0)
    table = sweep_table(write_run(tmp_path / "two", samples), kind=CommKind.BARRIER, ranks=2, sizes=[0])
    assert [(one.time_ns, one.busbw_bytes_per_s) for one in table.rows] == [(60, None)]


def test_times_that_cannot_be_have_no_speed(tmp_path: Path) -> None:
    samples = collective([1000, 0], [500, 600])  # done before the last post, as with skewed clocks
    (one,) = sweep_table(write_run(tmp_path / "run", samples), kind=CommKind.ALL_REDUCE, ranks=2, sizes=[8]).rows
    assert (one.time_ns, one.busbw_bytes_per_s, one.cv_percent) == (-400, None, None)


def test_sizes_that_were_not_reached_are_left_out(tmp_path: Path) -> None:
    samples = collective([0, 0], [10, 10])
    run = write_run(tmp_path / "run", samples)
    assert [r.size_bytes for r in sweep_table(run, kind=CommKind.ALL_REDUCE, ranks=2, sizes=[8, 16]).rows] == [8]
    none = sweep_table(write_run(tmp_path / "none", []), kind=CommKind.ALL_REDUCE, ranks=2, sizes=[8, 16])
    assert none.rows == []


@pytest.mark.parametrize(("kind", "root"), [(CommKind.BROADCAST, 0), (CommKind.REDUCE, 0), (CommKind.ALL_GATHER, -1)])
def test_collectives_with_a_root_name_it(tmp_path: Path, kind: CommKind, root: int) -> None:
    samples = collective([0, 0], [10, 10], kind=kind.label)
    assert sweep_table(write_run(tmp_path / "run", samples), kind=kind, ranks=2, sizes=[8]).root == root


def test_loss_and_warnings_are_part_of_the_sweep(tmp_path: Path) -> None:
    flows = [
        FlowCounters(0, 1, packets=1500, retransmits=2, timeouts=0),
        FlowCounters(1, 0, packets=500, retransmits=1),
    ]
    run = write_run(tmp_path / "run", collective([0, 0], [10, 10]), flows=flows, warnings={"the kernel was mean": 2})
    table = sweep_table(run, kind=CommKind.ALL_REDUCE, ranks=2, sizes=[8])
    document = sweep_to_json(table)
    assert document["counters"] == {"packets": 2000, "retransmits": 3, "timeouts": 0}
    assert document["warnings"] == {"the kernel was mean": 2}


def test_the_time_of_pairs_is_that_of_the_slowest(tmp_path: Path) -> None:
    samples = []
    for iteration, times in ((0, (1000, 3000)), (1, (5000, 2000))):
        for instance, time in enumerate(times):
            samples += pair(0, time, instance=instance, iteration=iteration)
    samples += pair(0, 9000, instance=0, iteration=2)  # the other pair did not complete
    run = write_run(tmp_path / "run", samples)
    size = samples[0]["size_bytes"]
    table = sweep_table(run, kind=CommKind.SEND, ranks=2, sizes=[size, 1 + size])
    (one,) = table.rows
    assert (one.iterations, one.time_ns, one.min_ns, one.max_ns) == (2, 4000, 3000, 5000)
    assert one.busbw_bytes_per_s == one.algbw_bytes_per_s == pytest.approx(size / 4e-6)
    assert sweep_to_json(table)["collective"] == table.label == "send_recv"
