"""Counters of the flows of a run, summed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emulator.control.observations import DOMAIN, EVENTS, WIRE
from emulator.results.statistics.samples.table_columns import to_ints

SUMMED = ("packets", *EVENTS)
MAXIMA = ("largest_displacement",)


def told_apart(flows: pa.Table) -> pa.Table:
    """The flows, with duplicates that nobody sent among the copies: more came again than were sent again.

    Receivers tell copies of the network from resends. Runs of earlier versions, and transports whose receivers cannot,
    have both as duplicates; then only this remainder is known.
    """
    again, sent = to_ints(flows["duplicates"], null=0), to_ints(flows["retransmits"], null=0)
    remainder = np.where(flows["retransmits"].is_null().to_numpy(zero_copy_only=False), 0, np.maximum(again - sent, 0))
    if not remainder.any():
        return flows
    is_known = ~flows["copies"].is_null().to_numpy(zero_copy_only=False) | (remainder > 0)
    copies = pa.array(to_ints(flows["copies"], null=0) + remainder, pa.int64(), mask=~is_known)
    is_counted = ~flows["duplicates"].is_null().to_numpy(zero_copy_only=False)
    resends = pa.array(again - remainder, pa.int64(), mask=~is_counted)
    for name, values in (("copies", copies), ("duplicates", resends)):
        flows = flows.set_column(flows.schema.get_field_index(name), name, values)
    return flows


def sum_flow_counters(flows: pa.Table) -> dict[str, int]:
    """Counter → its sum over all flows, or its maximum if a sum has no meaning; unknown counters are absent."""
    flows = told_apart(flows)
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
