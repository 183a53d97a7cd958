"""Columns of the tables of traffic alongside the job: flows with peers, and background traffic."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.results.run_folder.flow_results import FlowResult
from emulator.results.statistics.traffic.background import BackgroundFlow
from emulator.units import BITS_PER_BYTE, format_size
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import count_cell, duration_cell, gbps_cell, link_rate_cell


def _ends(one: FlowResult) -> str:
    arrow = "→" if one.role == "client" else "←"
    return f"{one.flow}: {one.host} {arrow} {one.peer}"


def _counted(one: FlowResult) -> str:
    by = one.host if one.observer == "charkha" else f"{one.peer}, it says"
    return f"{one.direction if one.observer == 'charkha' else _SEEN_BY_PEER[one.direction]} by {by}"


def _rate(one: FlowResult) -> str:
    return gbps_cell(None if one.bytes_per_s is None else one.bytes_per_s * BITS_PER_BYTE)


_SEEN_BY_PEER = {"received": "sent", "served": "read", "sent": "received", "read": "served"}


FLOW_RESULT_COLUMNS: tuple[Column[FlowResult], ...] = (
    Column(
        "flow", "number of the flow in the run spec, and its ends; the arrow points from client to server",
        cell=_ends, is_number=False,
    ),
    Column("test", "its verb and message size", cell=lambda one: f"{one.verb} {format_size(one.size_bytes)}",
           is_number=False, sacrifice=3),
    Column("counted", "what, and by which end", cell=_counted, is_number=False),
    Column("messages", "complete messages; for READ, requests", key="messages", show=count_cell),
    Column("time", "from the first post to the last completion; received: from the first to the last arrival",
           key="duration_ns", show=duration_cell, sacrifice=2),
    Column("Gbit/s", "payload per time", cell=_rate, style=bold),
    Column("re-\ntransmitted", "packets sent again", key="retransmits", show=count_cell,
           title="retransmitted", sacrifice=1),
    Column("latency", "median: half a round trip, for READs a whole one",
           key="latency_median_ns", show=duration_cell, is_optional=True),
    Column("complete", "whether both ends agreed that it is over", cell=lambda one: "yes" if one.is_complete else "no",
           is_number=False, sacrifice=4),
)  # fmt: skip


def _what(one: BackgroundFlow) -> str:
    sizes = format_size(one.size_bytes) if one.sizes == "fixed" else one.sizes
    return f"{one.transport} {one.pattern} {sizes}"


BACKGROUND_COLUMNS: tuple[Column[BackgroundFlow], ...] = (
    Column("flow", "name or number in the run spec, sender and receiver",
           cell=lambda one: f"{one.name or one.flow}: {one.sender} → {one.receiver}", is_number=False),
    Column("traffic", "transport, pattern and sizes", cell=_what, is_number=False, sacrifice=5),
    Column("offered\nGbit/s", "according to its schedule, on the wire: with all headers, preambles and gaps",
           key="offered_bps", show=gbps_cell),
    Column("sent\nGbit/s", "complete messages, on the wire; roce and tcp: acknowledged",
           key="sent_bps", show=gbps_cell, style=lambda one: "bold red" if one.is_behind else bold(one)),
    Column("received\nGbit/s", "complete messages, on the wire", key="received_bps", show=gbps_cell),
    Column("messages", "sent", key="sent_messages", show=count_cell, sacrifice=3),
    Column("lost", "packets that the receiver missed; roce and tcp retransmit them",
           key="lost_packets", show=count_cell, sacrifice=4),
    Column("completion\np50, p99", "time of a message from when it was due until it was complete",
           cell=lambda one: f"{duration_cell(one.completion_median_ns)}, {duration_cell(one.completion_p99_ns)}",
           sacrifice=2),
    Column("n", "messages whose completion is timed", key="completions", show=count_cell, sacrifice=6),
    Column("late\np99", "99th percentile: from when a message was due until it was offered: the tester's delay",
           key="lateness_p99_ns", show=duration_cell, sacrifice=1),
)  # fmt: skip


def describe_behind(flows: Sequence[BackgroundFlow]) -> str:
    """`Flow 1 offered 200 Mbit/s, sent 120 Mbit/s; 99 % of its messages were at most 40 ms late`, a line each."""
    lines = []
    for one in (one for one in flows if one.is_behind):
        line = f"Flow {one.flow} offered {link_rate_cell(one.offered_bps)}, sent {link_rate_cell(one.sent_bps)}"
        late = one.lateness_p99_ns
        lines.append(line if late is None else f"{line}; 99 % of its messages were at most {duration_cell(late)} late")
    return "\n".join(lines)
