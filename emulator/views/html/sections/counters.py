"""Counters of the device under test over time, as the device reports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from emulator.statistics.dut_counters import DROPS, counter_increases
from emulator.statistics.table_columns import labels_and_codes, to_ints
from emulator.trace.model import IntArray
from emulator.units import NS_PER_S
from emulator.views.columns import Header
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Block, Chart, Section, Table, Text
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import spread_evenly

LINES, POINTS = 8, 200
"""Most ports in one chart, those with the largest values, and points per port."""
ROWS = 200
_ABOUT = "As the devices report them. Counters that only grow are shown as their increase per second."
_LEVEL = "backlog"
"""Part of the name of a counter that is a level, not a running total."""


class Series(NamedTuple):
    """Readings of one counter of one interface, in order of time."""

    time_ns: IntArray
    value: IntArray

    @property
    def grown(self) -> int:
        """Increase from the first to the last reading."""
        return int(self.value[-1] - self.value[0])


class Name(NamedTuple):
    """Device, interface and counter of a series."""

    device: str
    interface: str
    counter: str

    @property
    def is_level(self) -> bool:
        """The counter is a level, such as a backlog; other counters only grow."""
        return _LEVEL in self.counter


def series_of(counters: pa.Table) -> Mapping[Name, Series]:
    """All series with at least one reading."""
    labels = {name: labels_and_codes(counters[name]) for name in Name._fields}
    time_ns, value = to_ints(counters["time_ns"]), to_ints(counters["value"])
    codes = [codes for _, codes in labels.values()]
    order = np.lexsort((time_ns, *reversed(codes)))
    keys = np.stack([code[order] for code in codes], axis=1)
    starts = np.flatnonzero(np.concatenate(([len(order) > 0], np.any(np.diff(keys, axis=0) != 0, axis=1))))
    found = {}
    for rows in np.split(order, starts[1:]) if len(starts) else []:
        name = Name(*(known[int(code[rows[0]])] for known, code in labels.values()))
        found[name] = Series(time_ns[rows], value[rows])
    return found


def count_drops(counters: pa.Table) -> Mapping[str, int] | None:
    """Drop counter -> its increase over all devices; None if no device was observed."""
    if not counters.num_rows:
        return None
    drops: Counter[str] = Counter()
    for (_, _, counter), growth in counter_increases(counters).items():
        if counter in DROPS:
            drops[counter] += growth
    return drops


def device_counters(facts: RunFacts) -> Section:
    """The section about device counters."""
    title = "Device counters"
    if not facts.counters.num_rows:
        text = "No device counters were recorded in this run. A lab with a device under test provides them."
        return Section("counters", title, [Text("no-counters", text, "note")])
    series = series_of(facts.counters)
    blocks: list[Block] = [_over_time(series), _totals(series)]
    return Section(
        "counters",
        title,
        blocks,
        _ABOUT,
    )


def _over_time(series: Mapping[Name, Series]) -> Chart:
    points = Rows()
    began = min(int(one.time_ns[0]) for one in series.values())
    counters = _interesting(series)
    for counter in counters:
        ports = [name for name in series if name.counter == counter]
        ports.sort(key=lambda name: -int(series[name].value.max() if name.is_level else series[name].grown))
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


def _interesting(series: Mapping[Name, Series]) -> list[str]:
    """Counters that changed, drops and marks first."""
    happened = {name.counter for name, one in series.items() if one.value.max() > one.value.min()}
    everything = sorted(happened or {name.counter for name in series})
    return sorted(everything, key=lambda counter: (counter.endswith(("_packets", "_bytes")), counter))


def _add_line(points: Rows, name: Name, one: Series, began: int) -> None:
    kept = spread_evenly(range(len(one.time_ns)), POINTS)
    time_ns, value = one.time_ns[kept], one.value[kept].astype(np.float64)
    if not name.is_level:
        elapsed = np.maximum(np.diff(time_ns), 1)
        time_ns, value = time_ns[1:], np.diff(value) * NS_PER_S / elapsed
    for at, level in zip((time_ns - began).tolist(), value.tolist(), strict=True):
        port = f"{name.device}:{name.interface}"
        points.add(counter=name.counter, port=port, time_ns=at, value=round(level, 3))


def _totals(series: Mapping[Name, Series]) -> Table:
    counted = [(name, one) for name, one in sorted(series.items()) if not name.is_level and one.grown]
    levels = [(name, one) for name, one in sorted(series.items()) if name.is_level and one.value.max()]
    rows = [[name.device, name.interface, name.counter, f"{one.grown:,}", ""] for name, one in counted]
    rows += [[name.device, name.interface, name.counter, "", f"{one.value.max():,}"] for name, one in levels]
    silent = len(series) - len(counted) - len(levels)
    titles = [Header(title, is_number=False) for title in ("device", "interface", "counter")]
    about = (
        f"Increase from the first to the last reading; of a level, the largest value. {silent} unchanged: not shown."
    )
    if len(rows) > ROWS:
        about += f" {len(rows) - ROWS} more rows are in counters.parquet."
    columns = [*titles, Header("increase"), Header("largest")]
    return Table("counter-totals", "Totals of the counters", columns, rows[:ROWS], about, is_folded=True)
