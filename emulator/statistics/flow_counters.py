"""Counters of the flows of a run, summed."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from emulator.control.observations import EVENTS
from emulator.statistics.table_columns import to_ints

SUMMED = ("packets", *EVENTS)
MAXIMA = ("largest_displacement",)
_ALWAYS_SHOWN = ("packets", "retransmits", "timeouts")


def sum_flow_counters(flows: pa.Table) -> dict[str, int]:
    """Counter → its sum over all flows, or its maximum if a sum has no meaning; unknown counters are absent."""
    return {name: _total(flows, name) for name in (*SUMMED, *MAXIMA) if flows.num_rows > flows[name].null_count}


def _total(flows: pa.Table, name: str) -> int:
    values = to_ints(flows[name], null=0)
    return int(values.max() if name in MAXIMA else values.sum())


def describe_flow_counters(counters: Mapping[str, int]) -> str:
    """`packets 1,024, retransmits 0, timeouts 0`, then every other counter that is not 0; "" without counters."""
    shown = ((name, count) for name, count in counters.items() if count or name in _ALWAYS_SHOWN)
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in shown)
