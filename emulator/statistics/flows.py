"""What the flows of a run counted, summed up and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from emulator.statistics.collectives import to_ints

SUMMED = (
    "packets",
    "retransmits",
    "timeouts",
    "naks",
    "rnr_naks",
    "out_of_order",
    "duplicates",
    "ecn_marks",
    "cnps_sent",
    "cnps_received",
    "dropped_header",
    "dropped_icrc",
    "dropped_payload",
)
LARGEST = ("largest_displacement",)
_ALWAYS_SHOWN = ("packets", "retransmits", "timeouts")


def sum_flows(flows: pa.Table) -> dict[str, int]:
    """Counter → its sum over a table of flows (the largest value, where sums mean nothing), those that are known."""
    return {name: _total(flows, name) for name in (*SUMMED, *LARGEST) if flows.num_rows > flows[name].null_count}


def flows_in_words(counters: Mapping[str, int]) -> str:
    """`packets 1,024, retransmits 0, timeouts 0`, then whatever else is not 0; "" where nothing is known."""
    return ", ".join(_words(counters))


def _words(counters: Mapping[str, int]) -> Iterator[str]:
    for name, count in counters.items():
        if count or name in _ALWAYS_SHOWN:
            yield f"{name.replace('_', ' ')} {count:,}"


def _total(flows: pa.Table, name: str) -> int:
    values = to_ints(flows[name], null=0)
    return int(values.max() if name in LARGEST else values.sum())
