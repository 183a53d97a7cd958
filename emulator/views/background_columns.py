"""Columns of the table of background traffic."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.statistics.background import BackgroundFlow
from emulator.units import format_size
from emulator.views.columns import Column, bold
from emulator.views.figures import NONE, duration_cell, link_rate_cell, number_cell


def _gbps(bits_per_s: float | None) -> str:
    return NONE if bits_per_s is None else number_cell(bits_per_s / 1e9)


def _count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def _what(one: BackgroundFlow) -> str:
    sizes = format_size(one.size_bytes) if one.sizes == "fixed" else one.sizes
    return f"{one.transport} {one.pattern} {sizes}"


def _completion(one: BackgroundFlow) -> str:
    return f"{duration_cell(one.completion_median_ns)}, {duration_cell(one.completion_p99_ns)}"


BACKGROUND_COLUMNS: tuple[Column[BackgroundFlow], ...] = (
    Column("flow", "name or number in the run spec, sender and receiver",
           cell=lambda one: f"{one.name or one.flow}: {one.sender} → {one.receiver}", is_number=False),
    Column("traffic", "transport, pattern and sizes", cell=_what, is_number=False, sacrifice=5),
    Column("offered\nGbit/s", "according to its schedule, on the wire: with all headers, preambles and gaps",
           cell=lambda one: _gbps(one.offered_bps)),
    Column("sent\nGbit/s", "complete messages, on the wire; roce and tcp: acknowledged",
           cell=lambda one: _gbps(one.sent_bps), style=lambda one: "bold red" if one.is_behind else bold(one)),
    Column("received\nGbit/s", "complete messages, on the wire", cell=lambda one: _gbps(one.received_bps)),
    Column("messages", "sent", cell=lambda one: _count(one.sent_messages), sacrifice=3),
    Column("lost", "packets that the receiver missed; roce and tcp retransmit them",
           cell=lambda one: _count(one.lost_packets), sacrifice=4),
    Column("completion\np50, p99", "time of a message from when it was due until it was complete", cell=_completion,
           sacrifice=2),
    Column("n", "messages whose completion is timed", cell=lambda one: _count(one.completions), sacrifice=6),
    Column("late\np99", "99th percentile: from when a message was due until it was offered: the tester's delay",
           cell=lambda one: duration_cell(one.lateness_p99_ns), sacrifice=1),
)  # fmt: skip


def describe_behind(flows: Sequence[BackgroundFlow]) -> str:
    """`Flow 1 offered 200 Mbit/s, sent 120 Mbit/s; 99 % of its messages were at most 40 ms late`, a line each."""
    lines = []
    for one in (one for one in flows if one.is_behind):
        line = f"Flow {one.flow} offered {link_rate_cell(one.offered_bps)}, sent {link_rate_cell(one.sent_bps)}"
        late = one.lateness_p99_ns
        lines.append(line if late is None else f"{line}; 99 % of its messages were at most {duration_cell(late)} late")
    return "\n".join(lines)
