"""Counters of the flows of a run, summed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emulator.control.observations import DOMAIN, EVENTS, WIRE
from emulator.statistics.table_columns import to_ints

SUMMED = ("packets", *EVENTS)
MAXIMA = ("largest_displacement",)


def sum_flow_counters(flows: pa.Table) -> dict[str, int]:
    """Counter → its sum over all flows, or its maximum if a sum has no meaning; unknown counters are absent."""
    return {name: _total(flows, name) for name in (*SUMMED, *MAXIMA) if flows.num_rows > flows[name].null_count}


def wire_flows(flows: pa.Table) -> pa.Table:
    """The flows that went over the network; runs of earlier versions have no others."""
    return flows.filter(np.array(media(flows)) == WIRE)


def domain_share(flows: pa.Table) -> float:
    """The part of all payload that went through scale-up domains; 0 without payload."""
    sizes = to_ints(flows["bytes"], null=0)
    return float(sizes[np.array(media(flows)) == DOMAIN].sum() / max(int(sizes.sum()), 1))


def media(flows: pa.Table) -> list[str]:
    """Per flow, what it went over: WIRE or DOMAIN."""
    found: list[str] = pc.fill_null(flows["medium"].cast(pa.string()), WIRE).to_pylist()
    return found


def _total(flows: pa.Table, name: str) -> int:
    values = to_ints(flows[name], null=0)
    return int(values.max() if name in MAXIMA else values.sum())
