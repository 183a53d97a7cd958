"""How much other payload shared the ports of a measurement while it was under way.

The ideal time of a collective is its own alone. Where others crossed the same ports at the same time, a perfect device
takes longer, and a missed share of ideal says nothing about the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from emulator.results.statistics.samples.bytes_in_flight import FloatArray, Windows, row_key
from emulator.results.statistics.samples.collectives import MergedSamples
from emulator.results.statistics.samples.table_columns import to_ints
from emulator.trace.meaning.model import IntArray


def other_payload(samples: pa.Table, merged: MergedSamples, topology: Mapping[str, Any]) -> FloatArray:
    """Payload of others / own payload, at the port and in the direction where that is largest, per measurement.

    Each measurement moves its bytes evenly in its cct. In a fabric of several switches others are in the way wherever
    they go, so there all ports count as one.

    Args:
        samples: rows of iterations that count, with `bytes_sent` and `bytes_received`.
        merged: made of them.
        topology: of the manifest.

    Returns:
        0 for what stays in a host, and where hosts are not known.
    """
    shared = np.zeros(len(merged))
    if not merged.has_hosts or not len(merged):
        return shared
    keys = row_key(merged.iteration, merged.instance)
    row_keys = row_key(to_ints(samples["iteration"]), to_ints(samples["instance"]))
    at = np.minimum(np.searchsorted(keys, row_keys), len(keys) - 1)
    crosses = (keys[at] == row_keys) & merged.between_hosts[at]
    begin = np.zeros(len(merged), np.int64)
    np.maximum.at(begin, at, to_ints(samples["post_ns"]))
    end = begin + np.maximum(merged.cct_ns, 1)
    ports = _ports(topology)[to_ints(samples["rank"])]
    for name in ("bytes_sent", "bytes_received"):
        moved = to_ints(samples[name])
        for rows in _by_port(ports, crosses & (moved > 0)):
            here, which = np.unique(at[rows], return_inverse=True)
            own = np.bincount(which.ravel(), moved[rows])
            windows = Windows(keys[here], begin[here], end[here], own)
            total = windows.sent_until(windows.end) - windows.sent_until(windows.begin)
            shared[here] = np.maximum(shared[here], total / own - 1)
    return shared


def _ports(topology: Mapping[str, Any]) -> IntArray:
    """Rank → number of its port; all the same if the fabric has several switches."""
    hosts = np.asarray(topology.get("host_index") or (), np.int64)
    switches = (topology.get("network") or {}).get("switches") or ()
    if len(switches) > 1:
        return np.zeros_like(hosts)
    interfaces = np.asarray(topology.get("interface_index") or np.zeros_like(hosts), np.int64)
    return (hosts << 16) + interfaces


def _by_port(ports: IntArray, chosen: Any) -> Iterator[IntArray]:
    rows = np.flatnonzero(chosen)
    order = rows[np.argsort(ports[rows], kind="stable")]
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(ports[order])) + 1)
