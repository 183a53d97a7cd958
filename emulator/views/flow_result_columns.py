"""Columns of the table of flows alongside the job."""

from __future__ import annotations

from emulator.run_folder.flow_results import FlowResult
from emulator.units import format_size
from emulator.views.columns import Column, bold
from emulator.views.figures import NONE, duration_cell, number_cell


def _ends(one: FlowResult) -> str:
    arrow = "→" if one.role == "client" else "←"
    return f"{one.flow}: {one.host} {arrow} {one.peer}"


def _counted(one: FlowResult) -> str:
    by = one.host if one.observer == "charkha" else f"{one.peer}, it says"
    return f"{one.direction if one.observer == 'charkha' else _SEEN_BY_PEER[one.direction]} by {by}"


_SEEN_BY_PEER = {"received": "sent", "served": "read", "sent": "received", "read": "served"}


def _gbps(one: FlowResult) -> str:
    return NONE if one.bytes_per_s is None else number_cell(one.bytes_per_s * 8 / 1e9)


def _count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


FLOW_RESULT_COLUMNS: tuple[Column[FlowResult], ...] = (
    Column(
        "flow", "number of the flow in the run spec, and its ends; the arrow points from client to server",
        cell=_ends, is_number=False,
    ),
    Column("test", "its verb and message size", cell=lambda one: f"{one.verb} {format_size(one.size_bytes)}",
           is_number=False, sacrifice=3),
    Column("counted", "what, and by which end", cell=_counted, is_number=False),
    Column("messages", "complete messages; for READ, requests", cell=lambda one: _count(one.messages)),
    Column("time", "from the first post to the last completion; received: from the first to the last arrival",
           cell=lambda one: duration_cell(one.duration_ns), sacrifice=2),
    Column("Gbit/s", "payload per time", cell=_gbps, style=bold),
    Column("re-\ntransmitted", "packets sent again", cell=lambda one: _count(one.retransmits), title="retransmitted",
           sacrifice=1),
    Column("latency", "median: half a round trip, for READs a whole one",
           cell=lambda one: duration_cell(one.latency_median_ns), is_optional=True),
    Column("complete", "whether both ends agreed that it is over", cell=lambda one: "yes" if one.is_complete else "no",
           is_number=False, sacrifice=4),
)  # fmt: skip
