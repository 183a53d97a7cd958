from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes.exports.otel import Measure, _metric, measures
from emulator.control.observations import FlowCounters
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.dut_counters import DeviceFrames
from tests.support.runs import collective, ranks, write_run

FLOWS = [
    FlowCounters(0, 1, packets=10, out_of_order=2, largest_displacement=7),
    FlowCounters(1, 0, packets=5, out_of_order=1, largest_displacement=3),
]


def measured(folder: Path, flows: list[FlowCounters] | None = None, **columns: object) -> dict[str, Measure]:
    samples = [
        *collective([0, 1_000_000], [4_000_000, 5_000_000], size_bytes=8_000_000, **columns),
        *collective([0, 0], [1_000_000] * 2, iteration=-1, size_bytes=8_000_000, **columns),
    ]
    run = write_run(folder / "run", samples, iterations={0: ranks((0, 5_000_000), (0, 6_000_000))}, flows=flows or ())
    return {one.name: one for one in measures(summarise(run))}


def test_counters_of_flows_are_sums(tmp_path: Path) -> None:
    packets = measured(tmp_path, FLOWS)["charkha.flow.packets"]
    assert (packets.is_sum, packets.points) == (True, [({}, 15)])
    data = _metric(packets, 1).data
    assert (type(data).__name__, data.data_points[0].value) == ("Sum", 15)


def test_the_largest_displacement_is_a_gauge_since_maxima_do_not_add_up(tmp_path: Path) -> None:
    displacement = measured(tmp_path, FLOWS)["charkha.flow.largest_displacement"]
    assert (displacement.is_sum, displacement.points) == (False, [({}, 7)])
    assert displacement.description == "largest number of packets by which one was received early"
    data = _metric(displacement, 1).data
    assert (type(data).__name__, data.data_points[0].value) == ("Gauge", 7)


def test_counters_that_the_transport_does_not_have_are_not_sent(tmp_path: Path) -> None:
    names = measured(tmp_path, [FlowCounters(0, 1, packets=10)])
    assert [name for name in names if name.startswith("charkha.flow.")] == ["charkha.flow.packets"]


def test_times_are_seconds_of_the_measured_iterations_by_class(tmp_path: Path) -> None:
    found = measured(tmp_path)
    attributes = {"collective": "all_reduce", "group_size": 2, "size_bytes": 8_000_000, "algorithm": "ring"}
    assert found["charkha.cct"].points == [(attributes | {"statistic": name}, 0.004) for name in ("p50", "max")]
    assert found["charkha.busbw"].points == [(attributes, pytest.approx(8e6 / 0.004))]
    assert (found["charkha.cct"].unit, found["charkha.busbw"].unit) == ("s", "By/s")
    assert found["charkha.jct"].points == [({"statistic": name}, 0.006) for name in ("p50", "min", "max")]


def test_what_was_not_measured_is_not_sent(tmp_path: Path) -> None:
    assert "charkha.ideal" not in measured(tmp_path)
    empty = write_run(tmp_path / "empty", [])
    assert [one.name for one in measures(summarise(empty)) if one.points] == ["charkha.incomplete"]


def test_points_have_the_time_of_the_run() -> None:
    [point] = _metric(Measure("x", "s", "", [({"statistic": "max"}, 1.5)]), 123).data.data_points
    assert (point.time_unix_nano, point.value, dict(point.attributes or {})) == (123, 1.5, {"statistic": "max"})


def test_a_device_is_an_attribute(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [5, 5]))
    summary = summarise(run)
    frames = (DeviceFrames("sw0", 10, 7, 0, {"qdisc_drops": 2}),)
    seen = replace(summary, totals=replace(summary.totals, device_frames=frames))
    points = {one.name: one.points for one in measures(seen)}
    assert points["charkha.device.frames_lost"] == [({"device": "sw0"}, 3)]
    assert all(one.is_sum for one in measures(seen) if one.name.startswith("charkha.device.frames"))
