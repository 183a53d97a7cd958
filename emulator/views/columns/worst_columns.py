"""Columns of the tables of the worst flows and of the worst steps."""

from __future__ import annotations

from emulator.results.statistics.worst.worst_flows import WorstFlow
from emulator.results.statistics.worst.worst_steps import WorstStep
from emulator.units import format_size
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, count_cell, duration_cell

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


_WAITED = {"payload": "payload", "ack": "ACK"}


def _queue_pair(one: WorstStep) -> str:
    known = [str(value) for value in (one.qpn, one.source_port) if value is not None]
    return ", ".join(known) or NONE


def _collective(one: WorstStep) -> str:
    return f"{one.collective} {format_size(one.collective_bytes)}, {one.members} ranks"


def _events(one: WorstStep) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in one.events.items()) or "none"


def describe_worst_step(one: WorstStep) -> str:
    """`rank 1 to 2, iteration 6, step 0.2 of all_to_all 1 MiB, 4 ranks: 55 ms, 43 ms above the median; naks 1`."""
    above = ((one.above_median_ns, "median"), (one.above_ideal_ns, "ideal"))
    cost = next(f"{duration_cell(value)} above the {what}" for value, what in above if value is not None)
    what = "its ACK" if one.waited_for == "ack" else f"step {one.lane}.{one.step}"
    where = f"rank {one.src} to {one.dst}, iteration {one.iteration}, {what} of {_collective(one)}"
    happened = f"; {_events(one)}" if one.events else ""
    return f"{where}: {duration_cell(one.time_ns)}, {cost}{happened}"


WORST_STEP_COLUMNS: tuple[Column[WorstStep], ...] = (
    Column(
        "from",
        "sending rank; its port, unless the path names it",
        cell=lambda one: place_cell(one.src, "" if one.path else one.source),
        is_number=False,
    ),
    Column(
        "to",
        "receiving rank; its port, unless the path names it",
        cell=lambda one: place_cell(one.dst, "" if one.path else one.destination),
        is_number=False,
    ),
    Column("iter-\nation", "iteration", key="iteration"),
    Column("of", "the collective or pair, its size and its ranks", cell=_collective, is_number=False, sacrifice=3),
    Column("step", "lane.step of the algorithm at the sender", cell=lambda one: f"{one.lane}.{one.step}"),
    Column("size", "payload of the transfer", key="size_bytes", show=format_size, sacrifice=4),
    Column(
        "late",
        "what was late: the payload, or, when all of it had arrived, its acknowledgement",
        cell=lambda one: _WAITED[one.waited_for],
        is_number=False,
        sacrifice=5,
    ),
    Column("time", "from when it could begin to its arrival, or its ACK", key="time_ns", show=duration_cell),
    Column(
        "above\nmedian",
        "more than the median transfer of this size in the collective; of an ACK, more than the last arrival",
        key="above_median_ns", show=duration_cell,
        style=bold,
    ),
    Column(
        "above\nideal",
        "more than on an ideal network",
        key="above_ideal_ns", show=duration_cell,
        is_optional=True,
        sacrifice=6,
    ),
    Column(
        "QP, UDP\nport",
        "number of the receiving queue pair, and UDP source port, which selects among equal-cost paths",
        cell=_queue_pair,
        is_optional=True,
        is_number=False,
    ),
    Column(
        "events",
        "counted between the two ranks in this iteration, in both directions",
        cell=_events,
        is_number=False,
        folds=20,
    ),
    Column(
        "device\ndrops",
        "frames that the device dropped at the two ports around this iteration; a dash: not attributed to ports",
        key="device_drops", show=count_cell,
        title="device drops",
    ),
    Column(
        "path",
        "ports and switches on the way; several where the choice is not known",
        key="path",
        is_number=False,
        is_optional=True,
        folds=18,
        sacrifice=2,
    ),
)  # fmt: skip
