"""Columns of the table of what changed at the device during a run, and the same in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.results.statistics.events import EventFigures, Migrations, RateChange
from emulator.units import NS_PER_S, format_duration
from emulator.views.columns.columns import Column, bold
from emulator.views.columns.figures import NONE, count_cell, duration_cell, number_cell

MOVES = 4
"""Most moves of traffic named beside an event."""


def _at(one: EventFigures) -> str:
    if not one.event.happened:
        return "never"
    return "before" if one.at_ns is None else _seconds(one.at_ns)


def _seconds(at_ns: int) -> str:
    return f"{at_ns / NS_PER_S:.3f} s"


def _late(one: EventFigures) -> str:
    event = one.event
    if event.begin_ns is None or event.planned_ns is None:
        return NONE
    return format_duration(max(0, event.begin_ns - event.planned_ns))


def _error(one: EventFigures) -> str:
    error_ns = one.event.end_error_ns if one.event.begin_error_ns is None else one.event.begin_error_ns
    return NONE if error_ns is None else f"{format_duration(error_ns)} ({one.event.seen_by})"


def _lasted(one: EventFigures) -> str:
    if one.event.happened and one.event.end_ns is None:
        return "to the end"
    return duration_cell(one.event.lasted_ns)


def _with_routes(one: EventFigures) -> str:
    return NONE if one.event.routes_ns is None else duration_cell(one.event.unusable_ns)


def outage_cell(one: EventFigures) -> str:
    """The outage with its error."""
    if one.outage_ns is None or one.outage_error_ns is None:
        return NONE
    if not one.flows:
        return "none"
    least = "" if one.is_over else "at least "
    return f"{least}{format_duration(one.outage_ns)} ± {format_duration(one.outage_error_ns)}"


def _probe(one: EventFigures) -> str:
    if one.probe_outage_ns is None:
        return NONE
    if not one.probe_outage_ns or one.probe_error_ns is None:
        return "none"
    least = "" if one.is_probe_over else "at least "
    return f"{least}{format_duration(one.probe_outage_ns)} ± {format_duration(one.probe_error_ns)}"


def _recovery(one: EventFigures) -> str:
    if not one.flows or one.recovery_ns is None or one.recovery_error_ns is None:
        return NONE
    return f"{format_duration(one.recovery_ns)} ± {format_duration(one.recovery_error_ns)}"


def _rate(one: RateChange | None) -> str:
    if one is None:
        return NONE
    after = f"{one.after_ns / 1e6:+,.1f} ± {one.error_ns / 1e6:,.1f} ms"
    return f"{one.port} {after}: {one.from_bps / 1e6:,.0f} → {one.to_bps / 1e6:,.0f} Mbit/s"


def _to_p50(one: EventFigures) -> float | None:
    return one.jct_ns / one.steady_p50_ns if one.jct_ns and one.steady_p50_ns else None


EVENT_COLUMNS: tuple[Column[EventFigures], ...] = (
    Column("where", "switch and port", key="where", value=lambda one: one.event.where, is_number=False),
    Column("event", "what changed there", key="what", value=lambda one: one.event.what, is_number=False),
    Column("at", "when it began, after the first iteration did", key="at_ns", cell=_at),
    Column("late", "later than planned", cell=_late, sacrifice=4),
    Column(
        "within",
        "it began at most so much before that; who says so: the kernel, or the command that made it",
        cell=_error,
        is_number=False,
        sacrifice=5,
    ),
    Column("lasted", "until it ended", key="lasted_ns", value=lambda one: one.event.lasted_ns, cell=_lasted),
    Column(
        "exit\ncode", "of a command; 128 + N: signal N ended it; 137: its limit did", key="exit_code",
        value=lambda one: one.event.exit_code, show=count_cell, is_optional=True,
    ),
    Column(
        "with\nroutes", "until a router also had the routes through its link back", key="unusable_ns",
        value=lambda one: one.event.unusable_ns, cell=_with_routes, is_optional=True, sacrifice=3,
    ),
    Column(
        "outage",
        "longest time in which no payload of a flow arrived that was waited for, if that is longer than without events",
        key="outage_ns", cell=outage_cell, style=bold, is_optional=True,
    ),
    Column(
        "probe", "the same of background traffic over udp at equal intervals: of the device, without RC's time-outs",
        key="probe_outage_ns", cell=_probe, is_optional=True,
    ),
    Column("flows", "flows that paused so", key="flows", show=count_cell, is_optional=True, sacrifice=3),
    Column(
        "recovery", "from the end of the event to the first payload of the last of them", key="recovery_ns",
        cell=_recovery, is_optional=True,
    ),
    Column(
        "rate changed",
        "host and port that receives, how long after the event began, and its payload per second before and after that",
        cell=lambda one: _rate(one.rate_at_begin), is_number=False, is_optional=True,
    ),
    Column(
        "and back", "the same when it ended", cell=lambda one: _rate(one.rate_at_end), is_number=False,
        is_optional=True, sacrifice=6,
    ),
    Column("JCT", "of the longest iteration that it met", key="jct_ns", show=duration_cell),
    Column("to\np50", "JCT / median of the iterations that no event met", key="jct_to_p50", value=_to_p50,
           show=number_cell, sacrifice=2),
    Column("to\np99", "JCT / p99 of the same; it needs 100 of them", key="jct_to_p99", show=number_cell,
           is_optional=True, sacrifice=1),
    Column("sent\nagain", "packets, in the iterations that it met", key="retransmissions", show=count_cell),
)  # fmt: skip


MIGRATION_COLUMNS: tuple[Column[Migrations], ...] = (
    Column("from", "port that traffic left", key="where", is_number=False),
    Column("what", "where it went", key="what", is_number=False),
    Column("moves", "of all queue pairs from one rank to another, each", key="moves", show=count_cell),
    Column("first at", "after the first iteration began", key="first_ns", cell=lambda one: _seconds(one.first_ns)),
    Column("last at", "the same of the last of them", key="last_ns", cell=lambda one: _seconds(one.last_ns)),
)


def describe_events(events: Sequence[EventFigures]) -> Iterator[str]:
    """What the table of events has no place for.

    What is not measured, where traffic went on, and what was lost when a run broke off.
    """
    for why in dict.fromkeys(one.why for one in events if one.why):
        yield f"Outage and recovery are {why}"
    for one in events:
        if one.lost_from_ns is not None and one.lost_until_ns is not None and one.at_ns is not None:
            origin_ns = (one.event.begin_ns or 0) - one.at_ns
            begin_s, end_s = ((at - origin_ns) / NS_PER_S for at in (one.lost_from_ns, one.lost_until_ns))
            yield (
                f"{one.event.where}: no payload of {one.flows:,} flows arrived any more from {begin_s:.3f} s to "
                f"{end_s:.3f} s, the end of the run"
            )
        if one.moved:
            told = [f"{what} from {_seconds(at_ns)} on" for at_ns, what in one.moved[:MOVES]]
            told += [f"{len(one.moved) - MOVES} more"] if len(one.moved) > MOVES else []
            yield f"{one.event.where} {one.event.what}: afterwards traffic moved: {', '.join(told)}"
        if not one.event.happened:
            yield f"{one.event}: did not happen, the run ended before"
