"""Parses the interface counters of Linux: /proc/net/dev, and queueing disciplines over netlink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

QDISC_DROPS, QDISC_BACKLOG = "qdisc_drops", "qdisc_backlog_bytes"
_ROOT = 0xFFFFFFFF
"""TC_H_ROOT of linux/pkt_sched.h: the parent of the root discipline, whose counters include those of inner ones."""
_RX = {"rx_bytes": 0, "rx_packets": 1, "rx_errors": 2, "rx_dropped": 3}
_TX = {"tx_bytes": 8, "tx_packets": 9, "tx_errors": 10, "tx_dropped": 11}
_COLUMNS = _RX | _TX


def parse_net_dev(text: str) -> Mapping[str, Mapping[str, int]]:
    """Device → counter → value, from /proc/net/dev with its two header lines."""
    found = {}
    for line in text.splitlines()[2:]:
        device, _, numbers = line.partition(":")
        values = numbers.split()
        found[device.strip()] = {name: int(values[column]) for name, column in _COLUMNS.items()}
    return found


def qdisc_counters(messages: Iterator[Any]) -> Mapping[int, Mapping[str, int]]:
    """Interface index → drops and backlog (bytes) of its root discipline, from a netlink dump by pyroute2."""
    found = {}
    for message in messages:
        statistics = message.get("stats2")
        queue = (
            statistics.get_attr("TCA_STATS_QUEUE") if statistics is not None and message["parent"] == _ROOT else None
        )
        if queue is not None:
            found[message["index"]] = {QDISC_DROPS: queue["drops"], QDISC_BACKLOG: queue["backlog"]}
    return found
