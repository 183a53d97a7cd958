"""Columns of the table of the worst flows."""

from __future__ import annotations

from emulator.results.statistics.worst.worst_flows import WorstFlow
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, count_cell

_LISTED = 4
"""Iterations named in a cell."""


def place_cell(rank: int, port: str) -> str:
    """A rank and its port."""
    return f"{rank} ({port})" if port else str(rank)


def _iterations(one: WorstFlow) -> str:
    shown = ", ".join(map(str, one.iterations[:_LISTED]))
    more = len(one.iterations) - _LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown or NONE


WORST_FLOW_COLUMNS: tuple[Column[WorstFlow], ...] = (
    Column("from", "sending rank and its port", cell=lambda one: place_cell(one.src, one.source), is_number=False),
    Column("to", "receiving rank and its port", cell=lambda one: place_cell(one.dst, one.destination), is_number=False),
    Column("QP", "number of the receiving queue pair", cell=lambda one: NONE if one.qpn is None else str(one.qpn)),
    Column(
        "UDP\nport",
        "UDP source port, which selects among equal-cost paths",
        cell=lambda one: NONE if one.source_port is None else str(one.source_port),
        sacrifice=2,
    ),
    Column("packets", "packets sent, including retransmissions", cell=lambda one: count_cell(one.packets), sacrifice=3),
    Column(
        "re-\ntransmitted", "packets sent again", cell=lambda one: count_cell(one.retransmissions), style=bold,
        title="retransmitted",
    ),
    Column("lost", "packets that no receiver reported", cell=lambda one: count_cell(one.lost), style=bold),
    Column(
        "iterations",
        "those with events; negative: warm-up; a dash: not recorded",
        cell=_iterations,
        is_number=False,
        is_optional=True,
        folds=12,
    ),
    Column("spurious", "packets retransmitted although they had arrived", cell=lambda one: count_cell(one.spurious)),
    Column(
        "dupli-\ncated", "packets received twice that were sent once: the network made the second one",
        cell=lambda one: count_cell(one.copies), title="duplicated", is_optional=True,
    ),
    Column("timeouts", "no acknowledgement came in time", cell=lambda one: count_cell(one.timeouts)),
    Column("NAKs", "sequence errors and receiver-not-ready replies", cell=lambda one: count_cell(one.naks)),
    Column("marked", "packets received with an ECN mark", cell=lambda one: count_cell(one.ecn_marks), sacrifice=4),
    Column("damaged", "packets with a wrong header or ICRC", cell=lambda one: count_cell(one.damaged), sacrifice=5),
    Column(
        "device\ndrops",
        "frames that the device dropped at the two ports next to the flow's; a dash: not attributed to ports",
        cell=lambda one: count_cell(one.device_drops),
        title="device drops",
    ),
)  # fmt: skip
