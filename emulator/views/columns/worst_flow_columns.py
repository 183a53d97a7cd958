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
    Column("QP", "number of the receiving queue pair", key="qpn"),
    Column(
        "UDP\nport",
        "UDP source port, which selects among equal-cost paths",
        key="source_port",
        sacrifice=2,
    ),
    Column("packets", "packets sent, including retransmissions", key="packets", show=count_cell, sacrifice=3),
    Column(
        "re-\ntransmitted", "packets sent again", key="retransmissions", show=count_cell, style=bold,
        title="retransmitted",
    ),
    Column("lost", "packets that no receiver reported", key="lost", show=count_cell, style=bold),
    Column(
        "iterations",
        "those with events; negative: warm-up; a dash: not recorded",
        key="iterations",
        cell=_iterations,
        is_number=False,
        is_optional=True,
        folds=12,
    ),
    Column("spurious", "packets retransmitted although they had arrived", key="spurious", show=count_cell),
    Column(
        "dupli-\ncated", "packets received twice that were sent once: the network made the second one",
        key="copies", show=count_cell, title="duplicated", is_optional=True,
    ),
    Column("timeouts", "no acknowledgement came in time", key="timeouts", show=count_cell),
    Column("NAKs", "sequence errors and receiver-not-ready replies", key="naks", show=count_cell),
    Column("marked", "packets received with an ECN mark", key="ecn_marks", show=count_cell, sacrifice=4),
    Column("damaged", "packets with a wrong header or ICRC", key="damaged", show=count_cell, sacrifice=5),
    Column(
        "device\ndrops",
        "frames that the device dropped at the two ports next to the flow's; a dash: not attributed to ports",
        key="device_drops", show=count_cell,
        title="device drops",
    ),
)  # fmt: skip
