"""Counters of the device under test over time, as the device reports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from emulator.results.statistics.traffic.dut_counters import (
    DROPS,
    CounterName,
    DeviceFrames,
    Readings,
    counter_series,
    describe_surplus,
    device_frames,
)
from emulator.units import NS_PER_S
from emulator.views.columns.columns import Header, texts
from emulator.views.columns.figures import NONE, count_cell
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Block, Chart, PageSection, Table, Text
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import spread_evenly

LINES, POINTS = 8, 200
"""Most ports in one chart, those with the largest values, and points per port."""
ROWS = 200
_ABOUT = "As the devices report them. Cumulative counters are shown as increase per second."
_LEVEL = "backlog"
"""Part of the name of a counter that is a level, not a running total."""


def count_drops(counters: pa.Table) -> Mapping[str, int] | None:
    """Drop counter -> its increase over all devices; None if no device was observed."""
    if not counters.num_rows:
        return None
    drops: Counter[str] = Counter()
    for name, readings in counter_series(counters).items():
        if name.counter in DROPS:
            drops[name.counter] += readings.increase
    return drops


def device_counters(facts: PageFacts) -> PageSection:
    """The section about device counters."""
    title = "Device counters"
    if not facts.counters.num_rows:
        text = "No device counters were recorded in this run. A lab with a device under test provides them."
        return PageSection("counters", title, [Text("no-counters", text, "note")])
    series = counter_series(facts.counters)
    frames = device_frames(facts.counters, facts.manifest)
    blocks: list[Block] = [*([_frames(frames)] if frames else []), _over_time(series), _totals(series)]
    return PageSection("counters", title, blocks, _ABOUT)


def _frames(frames: Sequence[DeviceFrames]) -> Table:
    rows = [[one.device, *map(count_cell, (one.frames_in, one.frames_out, one.lost)), _counted(one)] for one in frames]
    columns = [*texts("device"), *map(Header, ("frames in", "frames out", "lost")), *texts("where")]
    about = (
        "Lost is frames in - frames out, over all ports of the device. Not counted: not in any of its drop counters."
    )
    return Table("device-frames", "Frames through the device", columns, rows, about)


def _counted(one: DeviceFrames) -> str:
    parts = [f"{count:,} {DROPS[name]}" for name, count in one.dropped.items()]
    if one.unexplained:
        parts.append(f"{one.unexplained:,} not counted")
    if one.surplus:
        parts.append(describe_surplus(one.surplus))
    return ", ".join(parts) or NONE


def _is_level(name: CounterName) -> bool:
    """The counter is a level, such as a backlog; other counters only grow."""
    return _LEVEL in name.counter


def _over_time(series: Mapping[CounterName, Readings]) -> Chart:
    points = Rows()
    began = min(int(one.time_ns[0]) for one in series.values())
    counters = _interesting(series)
    for counter in counters:
        ports = [name for name in series if name.counter == counter]
        ports.sort(key=lambda name: -int(series[name].value.max() if _is_level(name) else series[name].increase))
        for name in ports[:LINES]:
            _add_line(points, name, series[name], began)
    readings = max(len(one.time_ns) for one in series.values())
    return Chart(
        "counters-over-time",
        "Counters over time",
        f"Increase per second between two readings (for a backlog: its bytes), up to {readings} readings per port, "
        f"for the {LINES} ports with the largest values. Time since the first reading.",
        "A counter over time, one line per port.",
        Picture(
            "counters", {"points": points.columns}, "counter", [(name, name.replace("_", " ")) for name in counters]
        ),
        choice_title="Counter",
        is_wide=True,
    )


def _interesting(series: Mapping[CounterName, Readings]) -> list[str]:
    """Counters that changed, drops and marks first."""
    happened = {name.counter for name, one in series.items() if one.value.max() > one.value.min()}
    everything = sorted(happened or {name.counter for name in series})
    return sorted(everything, key=lambda counter: (counter.endswith(("_packets", "_bytes")), counter))


def _add_line(points: Rows, name: CounterName, one: Readings, began: int) -> None:
    kept = spread_evenly(range(len(one.time_ns)), POINTS)
    time_ns, value = one.time_ns[kept], one.value[kept].astype(np.float64)
    if not _is_level(name):
        elapsed = np.maximum(np.diff(time_ns), 1)
        time_ns, value = time_ns[1:], np.diff(value) * NS_PER_S / elapsed
    for at, level in zip((time_ns - began).tolist(), value.tolist(), strict=True):
        port = f"{name.device}:{name.interface}"
        points.add(counter=name.counter, port=port, time_ns=at, value=round(level, 3))


def _totals(series: Mapping[CounterName, Readings]) -> Table:
    counted = [(name, one) for name, one in sorted(series.items()) if not _is_level(name) and one.increase]
    levels = [(name, one) for name, one in sorted(series.items()) if _is_level(name) and one.value.max()]
    rows = [[name.device, name.interface, name.counter, f"{one.increase:,}", ""] for name, one in counted]
    rows += [[name.device, name.interface, name.counter, "", f"{one.value.max():,}"] for name, one in levels]
    silent = len(series) - len(counted) - len(levels)
    about = f"Increase from the first to the last reading; for a level, the largest value. {silent} did not change."
    if len(rows) > ROWS:
        about += f" {len(rows) - ROWS} more rows are in counters.parquet."
    columns = [*texts("device", "interface", "counter"), Header("increase"), Header("largest")]
    return Table("counter-totals", "Totals of the counters", columns, rows[:ROWS], about, is_folded=True)
