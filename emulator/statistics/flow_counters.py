"""Counters of the flows of a run, summed."""

from __future__ import annotations

import pyarrow as pa

from emulator.control.observations import EVENTS
from emulator.statistics.table_columns import to_ints

SUMMED = ("packets", *EVENTS)
MAXIMA = ("largest_displacement",)


def sum_flow_counters(flows: pa.Table) -> dict[str, int]:
    """Counter → its sum over all flows, or its maximum if a sum has no meaning; unknown counters are absent."""
    return {name: _total(flows, name) for name in (*SUMMED, *MAXIMA) if flows.num_rows > flows[name].null_count}


def _total(flows: pa.Table, name: str) -> int:
    values = to_ints(flows[name], null=0)
    return int(values.max() if name in MAXIMA else values.sum())
