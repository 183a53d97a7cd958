from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from emulator.results.run_folder.schema import COUNTERS_SCHEMA, to_batch
from emulator.results.statistics.traffic.dut_counters import (
    Readings,
    counter_series,
    describe_device,
    device_frames,
    run_warnings,
    sum_dut_counters,
)
from tests.support.runs import manifest


def table(*rows: tuple[int, str, str, str, int]) -> pa.Table:
    names = COUNTERS_SCHEMA.names
    columns: dict[str, Any] = {name: [row[n] for row in rows] for n, name in enumerate(names)}
    return pa.Table.from_batches([to_batch(COUNTERS_SCHEMA, columns)])


ROWS = table(
    (9, "sw0", "p0", "qdisc_drops", 7),
    (1, "sw0", "p0", "qdisc_drops", 2),
    (1, "sw0", "p1", "qdisc_drops", 4),
    (9, "sw0", "p1", "qdisc_drops", 4),
    (1, "sw0", "", "profile_drops", 0),
    (9, "sw0", "", "profile_drops", 1200),
    (1, "sw0", "", "profile_drops[lost]", 0),
    (9, "sw0", "", "profile_drops[lost]", 1200),
    (1, "h0", "eth0", "rx_dropped", 0),
    (9, "h0", "eth0", "rx_dropped", 50),
    (1, "sw0", "", "ecn_marked", 5),
    (9, "sw0", "", "ecn_marked", 8),
)


def test_a_counter_grows_from_its_first_reading_to_its_last() -> None:
    assert counter_series(ROWS)["sw0", "p0", "qdisc_drops"].increase == 5
    assert counter_series(table()) == {}


def test_frames_that_the_device_lost_and_marked_are_counted_and_no_others() -> None:
    counts = sum_dut_counters(ROWS, replace(manifest(), dut={"nodes": ["sw0"]}))
    assert counts == {"profile_drops": 1200, "qdisc_drops": 5, "ecn_marked": 3}
    assert describe_device((), counts) == "1,205 frames dropped (1,200 by its profile, 5 in queues), 3 marked (ECN)"
    assert describe_device((), {}) == ""


@pytest.mark.parametrize(
    ("counters", "found"),
    [
        ({"problems": ["s1: the stream ended", "s2: \x1b[2J"]}, ("s1: the stream ended", "s2: \\x1b[2J")),
        ({"problems": "text"}, ()),
        ({"problems": [3, None]}, ()),
        ("text", ()),
        (None, ()),
    ],
)
def test_why_counters_broke_off_is_read_from_the_manifest(counters: object, found: tuple[str, ...]) -> None:
    one = replace(manifest(), dut={"counters": counters}, warnings={"odd": 2})
    said = {f"counters of the device were not read to the end of the run: {reason}": 1 for reason in found}
    assert run_warnings(one) == {"odd": 2} | said
    assert run_warnings(manifest()) == {}


def frames(*rows: tuple[str, str, str, int]) -> pa.Table:
    """Counters that grow from 0 to these values."""
    return table(*((at, *row[:3], row[3] if at else 0) for row in rows for at in (0, 1)))


SWITCH = replace(manifest(), dut={"nodes": ["sw0"]})
PORTS = (("sw0", "p0", "rx_packets", 100), ("sw0", "p1", "rx_packets", 50), ("sw0", "p0", "tx_packets", 40))


def test_what_a_device_lost_is_what_came_in_and_did_not_leave() -> None:
    (one,) = device_frames(frames(*PORTS, ("sw0", "p1", "tx_packets", 97), ("sw0", "p1", "qdisc_drops", 13)), SWITCH)
    assert (one.frames_in, one.frames_out, one.lost, one.unexplained) == (150, 137, 13, 0)
    assert describe_device([one], {"qdisc_drops": 13}) == "150 frames in, 137 out: 13 lost (13 in queues)"


def test_lost_frames_that_no_counter_shows_are_named() -> None:
    rows = (*PORTS, ("sw0", "p1", "tx_packets", 90), ("sw0", "", "profile_drops", 3))
    (one,) = device_frames(frames(*rows), SWITCH)
    assert (one.lost, one.unexplained) == (20, 17)
    expected = "150 frames in, 130 out: 20 lost (3 by its profile, 17 not counted)"
    assert describe_device([one], {"profile_drops": 3}) == expected


def test_frames_that_a_profile_duplicates_hide_no_loss() -> None:
    rows = (*PORTS, ("sw0", "p1", "tx_packets", 115), ("sw0", "", "profile_duplicates", 10))
    (one,) = device_frames(frames(*rows), SWITCH)
    assert (one.lost, one.unexplained) == (5, 5)


def test_where_more_frames_leave_than_came_nothing_says_how_many_were_lost() -> None:
    (one,) = device_frames(frames(*PORTS, ("sw0", "p1", "tx_packets", 112)), SWITCH)
    assert (one.lost, one.unexplained, one.surplus) == (None, None, 2)
    assert describe_device([one], {}) == (
        "150 frames in, 152 out: loss unknown, 2 more out than its counters explain"
        " (duplicates, frames of its own, or an error of the counting)"
    )


@pytest.mark.parametrize("out", [105, 110, 115])
def test_frames_counted_as_dropped_are_lost_though_as_many_were_made(out: int) -> None:
    rows = (*PORTS, ("sw0", "p1", "tx_packets", out), ("sw0", "p1", "qdisc_drops", 7))
    (one,) = device_frames(frames(*rows), SWITCH)
    assert (one.lost, one.unexplained, one.surplus) == (7, None, out - 103)


def test_a_device_that_does_not_count_frames_has_no_figure() -> None:
    assert device_frames(frames(("sw0", "p0", "rx_packets", 5), ("h0", "eth0", "tx_packets", 5)), SWITCH) == ()


def test_switches_are_the_device_where_none_is_named() -> None:
    network = {"network": {"switches": [{"name": "sw0", "kind": "bridge"}]}}
    assert sum_dut_counters(ROWS, replace(manifest(), topology=network))["qdisc_drops"] == 5
    assert sum_dut_counters(ROWS, manifest()) == {}


def test_series_are_separate_by_device_interface_and_counter_and_ordered_by_time() -> None:
    series = counter_series(ROWS)
    assert series["sw0", "p0", "qdisc_drops"].time_ns.tolist() == [1, 9]
    assert series["sw0", "p0", "qdisc_drops"].value.tolist() == [2, 7]
    assert series["sw0", "p1", "qdisc_drops"].value.tolist() == [4, 4]
    assert len(series) == 6


def test_nothing_passes_through_a_nic_that_ends_a_cable() -> None:
    nic = replace(manifest(), dut={"nodes": ["server"]}, topology={"hosts": [{"name": "tester"}, {"name": "server"}]})
    rows = frames(("server", "eth1", "rx_packets", 100), ("server", "eth1", "tx_packets", 40))
    assert device_frames(rows, nic) == ()


@pytest.mark.parametrize(
    ("begin_ns", "end_ns", "increase"),
    [(10, 20, 3), (11, 19, 3), (9, 21, 9), (25, 30, 5), (0, 5, 1), (40, 50, 0), (0, 100, 9)],
)
def test_an_increase_is_from_the_reading_before_to_the_one_after(begin_ns: int, end_ns: int, increase: int) -> None:
    readings = Readings(np.array([0, 10, 20, 30]), np.array([0, 1, 4, 9]))
    assert readings.increase_around(begin_ns, end_ns) == increase
