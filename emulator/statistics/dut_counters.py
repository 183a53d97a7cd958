"""Frames that the device under test dropped and marked during a run, from its counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from emulator.run_folder.manifest import Manifest
from emulator.statistics.table_columns import block_starts, labels_and_codes, to_ints
from emulator.trace.model import IntArray

DROPS = {
    "profile_drops": "by its profile",
    "qdisc_drops": "in queues",
    "rx_dropped": "on ingress",
    "tx_dropped": "on egress",
}
"""Drop counters → where the frames were dropped."""
MARKS = "ecn_marked"


class CounterName(NamedTuple):
    """A counter of an interface of a device."""

    device: str
    interface: str
    counter: str


class Readings(NamedTuple):
    """Readings of one counter, in order of time."""

    time_ns: IntArray
    value: IntArray

    @property
    def increase(self) -> int:
        """Last value - first value."""
        return int(self.value[-1] - self.value[0])


def sum_dut_counters(counters: pa.Table, manifest: Manifest) -> Mapping[str, int]:
    """Counter → increase during the run, summed over the ports of the device under test.

    Only drop and mark counters that increased. If the topology does not name a device, its switches are the device.
    """
    devices = _device_nodes(manifest)
    total: Counter[str] = Counter()
    for name, readings in counter_series(counters).items():
        if name.device in devices and readings.increase > 0:
            total[name.counter] += readings.increase
    return {name: total[name] for name in (*DROPS, MARKS) if total[name]}


def counter_series(counters: pa.Table) -> Mapping[CounterName, Readings]:
    """Every series with at least one reading, by device, interface and counter."""
    columns = [labels_and_codes(counters[name]) for name in CounterName._fields]
    time_ns, value = to_ints(counters["time_ns"]), to_ints(counters["value"])
    order = np.lexsort((time_ns, *(codes for _, codes in reversed(columns))))
    starts = block_starts(*(codes[order] for _, codes in columns))
    blocks = np.split(order, starts[1:]) if len(starts) else []
    return {
        CounterName(*(labels[codes[rows[0]]] for labels, codes in columns)): Readings(time_ns[rows], value[rows])
        for rows in blocks
    }


def describe_dut_counters(counts: Mapping[str, int]) -> str:
    """`1,205 frames dropped (1,200 by its profile, 5 in queues), 3 marked (ECN)`; "" if there are none."""
    dropped = {name: count for name, count in counts.items() if name in DROPS}
    parts = []
    if dropped:
        where = ", ".join(f"{count:,} {DROPS[name]}" for name, count in dropped.items())
        parts.append(f"{sum(dropped.values()):,} frames dropped ({where})")
    if MARKS in counts:
        parts.append(f"{counts[MARKS]:,} marked (ECN)")
    return ", ".join(parts)


def _device_nodes(manifest: Manifest) -> Collection[str]:
    named = manifest.dut.get("nodes")
    if named:
        return set(named)
    network = manifest.topology.get("network") or {}
    return {switch["name"] for switch in network.get("switches", ())}
