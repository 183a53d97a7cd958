"""What the device under test did to frames during a run, from its counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from emulator.run_folder.manifest import Manifest
from emulator.statistics.collectives import labels_and_codes, to_ints

DROPS = {
    "profile_drops": "by its profile",
    "qdisc_drops": "in queues",
    "rx_dropped": "coming in",
    "tx_dropped": "going out",
}
"""Counters of lost frames → where they were lost."""
MARKS = "ecn_marked"
_KINDS = (*DROPS, MARKS)


def count_dut(counters: pa.Table, manifest: Manifest) -> Mapping[str, int]:
    """Counter → how far it grew during the run, summed over the ports of the device under test.

    Only counters of lost and of marked frames, and only those that grew. Where the topology names no device, it is the
    switches.
    """
    devices = _tested(manifest)
    grown: Counter[str] = Counter()
    for (device, _, counter), growth in growths(counters).items():
        if device in devices and counter in _KINDS and growth > 0:
            grown[counter] += growth
    return {name: grown[name] for name in _KINDS if grown[name]}


def growths(counters: pa.Table) -> Mapping[tuple[str, str, str], int]:
    """(device, interface, counter) → last value less first."""
    columns = [labels_and_codes(counters[name]) for name in ("device", "interface", "counter")]
    time_ns, value = to_ints(counters["time_ns"]), to_ints(counters["value"])
    keys = np.stack([codes for _, codes in columns], axis=1)
    order = np.lexsort((time_ns, *keys.T[::-1]))
    if not len(order):
        return {}
    keys, value = keys[order], value[order]
    first = np.flatnonzero(np.any(np.diff(keys, axis=0, prepend=-1), axis=1))
    last = np.append(first[1:], len(keys)) - 1
    names = [[labels[code] for code in keys[first, n]] for n, (labels, _) in enumerate(columns)]
    growth = (value[last] - value[first]).tolist()
    return dict(zip(zip(*names, strict=True), growth, strict=True))


def in_words(counts: Mapping[str, int]) -> str:
    """Frames that the device dropped and marked, for people; "" where it did neither."""
    lost = {name: count for name, count in counts.items() if name in DROPS}
    parts = []
    if lost:
        where = ", ".join(f"{count:,} {DROPS[name]}" for name, count in lost.items())
        parts.append(f"{sum(lost.values()):,} frames dropped ({where})")
    if MARKS in counts:
        parts.append(f"{counts[MARKS]:,} marked (ECN)")
    return ", ".join(parts)


def _tested(manifest: Manifest) -> Collection[str]:
    named = manifest.dut.get("nodes")
    if named:
        return set(named)
    network = manifest.topology.get("network") or {}
    return {switch["name"] for switch in network.get("switches", ())}
