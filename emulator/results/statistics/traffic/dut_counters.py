"""Frames that the device under test lost, dropped and marked during a run, from its counters.

What a device lost is arithmetic, frames in - frames out, whatever its drop counters show. A difference that no counter
explains is a finding. A device that also makes frames hides a loss as large: then its drop counters are all there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from emulator.results.run_folder.manifest import Manifest
from emulator.results.statistics.samples.measured_rows import block_starts, labels_and_codes, to_ints
from emulator.trace.meaning.model import IntArray
from emulator.visible import visible

DROPS = {
    "profile_drops": "by its profile",
    "qdisc_drops": "in queues",
    "socket_drops": "in packet sockets",
    "rx_dropped": "on ingress",
    "tx_dropped": "on egress",
}
"""Drop counters → where the frames were dropped."""
MARKS = "ecn_marked"
UNREAD = "counters of the device were not read to the end of the run"


FRAMES_IN, FRAMES_OUT, DUPLICATES = "rx_packets", "tx_packets", "profile_duplicates"


@dataclass(frozen=True, slots=True)
class DeviceFrames:
    """What went through a device during a run.

    Attributes:
        device: its name in the topology.
        frames_in, frames_out: over all its ports.
        added: frames that its profile duplicated.
        dropped: drop counter -> frames, as the device counted them.
    """

    device: str
    frames_in: int
    frames_out: int
    added: int
    dropped: Mapping[str, int]

    @property
    def lost(self) -> int | None:
        """Frames that came in and did not leave; None: more left than came in, and nothing counted a loss."""
        counted = sum(self.dropped.values())
        return self.frames_in + self.added - self.frames_out if not self.surplus else counted or None

    @property
    def unexplained(self) -> int | None:
        """Lost frames that no drop counter shows; None: more left than the counters explain."""
        balance = self.frames_in + self.added - self.frames_out - sum(self.dropped.values())
        return None if self.surplus else balance

    @property
    def surplus(self) -> int:
        """Frames that left, but neither came in nor were counted as added: duplicates, or an error of the counting."""
        return max(0, self.frames_out + sum(self.dropped.values()) - self.frames_in - self.added)


class CounterName(NamedTuple):
    """A counter of an interface of a device."""

    device: str
    interface: str
    counter: str

    @property
    def is_level(self) -> bool:
        """It is a level, such as a backlog; other counters only grow."""
        return "backlog" in self.counter


class Readings(NamedTuple):
    """Readings of one counter, in order of time."""

    time_ns: IntArray
    value: IntArray

    @property
    def increase(self) -> int:
        """Last value - first value."""
        return int(self.value[-1] - self.value[0])

    def increase_around(self, begin_ns: int, end_ns: int) -> int:
        """From the last reading at `begin_ns` or before to the first one at `end_ns` or after, as far as there are."""
        first = max(int(np.searchsorted(self.time_ns, begin_ns, side="right")) - 1, 0)
        last = min(int(np.searchsorted(self.time_ns, end_ns)), len(self.time_ns) - 1)
        return int(self.value[last] - self.value[first])


def sum_dut_counters(counters: pa.Table, manifest: Manifest) -> Mapping[str, int]:
    """Counter → increase during the run, summed over the ports of the device under test.

    Only drop and mark counters that increased. If the topology does not name a device, its switches are the device.
    """
    devices = device_nodes(manifest)
    total: Counter[str] = Counter()
    for name, readings in counter_series(counters).items():
        if name.device in devices and readings.increase > 0:
            total[name.counter] += readings.increase
    return {name: total[name] for name in (*DROPS, MARKS) if total[name]}


def dropped_frames(counts: Mapping[str, int]) -> int:
    """Frames in the drop counters of `sum_dut_counters`."""
    return sum(counts.get(name, 0) for name in DROPS)


def device_frames(counters: pa.Table, manifest: Manifest) -> tuple[DeviceFrames, ...]:
    """What went through each node of the device under test; without nodes that do not count frames.

    A host is left out: its NIC is where frames begin and end, so in - out says nothing about loss.
    """
    found = []
    hosts = {host.get("name") for host in manifest.topology.get("hosts") or ()}
    series = counter_series(counters)
    for device in sorted(set(device_nodes(manifest)) - hosts):
        total: Counter[str] = Counter()
        for name, readings in series.items():
            if name.device == device:
                total[name.counter] += readings.increase
        if FRAMES_IN in total and FRAMES_OUT in total:
            dropped = {name: total[name] for name in DROPS if total[name] > 0}
            found.append(DeviceFrames(device, total[FRAMES_IN], total[FRAMES_OUT], total[DUPLICATES], dropped))
    return tuple(found)


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


def describe_device(frames: Sequence[DeviceFrames], counts: Mapping[str, int]) -> str:
    """`1,305 frames in, 1,205 out: 100 lost (90 by its profile, 5 in queues, 5 not counted), 3 marked (ECN)`.

    Args:
        frames: of every node; may be empty.
        counts: see `sum_dut_counters`. Without `frames` its drops are all that is known.

    Returns:
        "" if nothing is known of the device.
    """
    parts = []
    dropped = {name: count for name, count in counts.items() if name in DROPS}
    where = [f"{count:,} {DROPS[name]}" for name, count in dropped.items()]
    if frames:
        into, out, surplus = (
            sum(getattr(one, what) for one in frames) for what in ("frames_in", "frames_out", "surplus")
        )
        losses = [one.lost for one in frames]
        lost = "loss unknown" if None in losses else f"{sum(filter(None, losses)):,} lost"
        unexplained = sum(one.unexplained or 0 for one in frames)
        where += [f"{unexplained:,} not counted"] if unexplained else []
        details = f" ({', '.join(where)})" if where else ""
        parts.append(f"{into:,} frames in, {out:,} out: {lost}{details}")
        if surplus:
            parts.append(describe_surplus(surplus))
    elif dropped:
        parts.append(f"{sum(dropped.values()):,} frames dropped ({', '.join(where)})")
    if MARKS in counts:
        parts.append(f"{counts[MARKS]:,} marked (ECN)")
    return ", ".join(parts)


def describe_surplus(surplus: int) -> str:
    """`2 more out than its counters explain (duplicates, frames of its own, or an error of the counting)`."""
    return (
        f"{surplus:,} more out than its counters explain (duplicates, frames of its own, or an error of the counting)"
    )


def run_warnings(manifest: Manifest) -> Mapping[str, int]:
    """The warnings of a run, and why counters of devices were not read to its end."""
    facts = manifest.dut.get("counters")
    problems = facts.get("problems") if isinstance(facts, Mapping) else None
    known = [visible(one) for one in problems if isinstance(one, str)] if isinstance(problems, list) else ()
    return {**manifest.warnings, **{f"{UNREAD}: {one}": 1 for one in known}}


def device_nodes(manifest: Manifest) -> Collection[str]:
    """Names of the nodes of the device under test: those that the topology names, else its switches."""
    named = manifest.dut.get("nodes")
    if named:
        return set(named)
    network = manifest.topology.get("network") or {}
    return {switch["name"] for switch in network.get("switches", ())}
