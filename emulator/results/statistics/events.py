"""What changed at the device during a run, and what it cost the job. How that is found: emulator/annexes/recovery.

And when traffic of ranks moved to another path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from emulator.results.run_folder.schema import BEGIN, BY_AGENT, BY_COMMAND, END


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """A change of a switch that began or ended during the run; times in ns on the clock of the run.

    Attributes:
        name: `events[0]` of the run spec, or the rule of the profile.
        where: `switch:port`, or the switch; `this host` of a command.
        stops_traffic: it takes a link down, or is a command, which may.
        planned_ns: None: it was in force from the start of the run, or counts from an iteration that never began.
        begin_ns: None: from the start of the run, or it did not happen: see `happened`.
        begin_error_ns, end_error_ns: it was at most so much earlier.
        end_planned_ns, end_ns: None: it lasted to the end of the run.
        seen_by: who said when it happened: the kernel, or the command that made it.
        routes_ns: when a router had the last of the routes back that its kernel deletes with a link; None: it had none.
        exit_code: of a command: 128 + number of the signal that ended it; None: it is none, or has not ended.
    """

    name: str
    what: str
    where: str
    stops_traffic: bool
    happened: bool
    planned_ns: int | None
    begin_ns: int | None
    begin_error_ns: int | None
    end_planned_ns: int | None
    end_ns: int | None
    end_error_ns: int | None
    seen_by: str
    routes_ns: int | None = None
    exit_code: int | None = None

    def __str__(self) -> str:
        return f"{self.where} {self.what} ({self.name})"

    @property
    def lasted_ns(self) -> int | None:
        """How long; None: it did not begin or end during the run."""
        return None if self.begin_ns is None or self.end_ns is None else max(0, self.end_ns - self.begin_ns)

    @property
    def unusable_ns(self) -> int | None:
        """How long nothing could pass the port: until the link was back, and the routes through it."""
        if self.begin_ns is None or self.end_ns is None:
            return None
        return max(0, self.end_ns - self.begin_ns, (self.routes_ns or 0) - self.begin_ns)


def device_events(table: pa.Table) -> list[DeviceEvent]:
    """The events of the device in `events.parquet`, by the time at which they began."""
    found: dict[tuple[str, str], dict[str, dict[str, object]]] = {}
    for row in table.to_pylist():
        if row["seen_by"] == BY_AGENT:
            continue
        found.setdefault((row["name"], row["device"]), {})[row["edge"]] = row
    events = [_event(edges) for edges in found.values()]
    return sorted(events, key=lambda one: (one.begin_ns is None, one.begin_ns or 0, one.name))


def _event(edges: dict[str, dict[str, object]]) -> DeviceEvent:
    either = next(iter(edges.values()))
    begin, end = (edges.get(edge, dict.fromkeys(either)) for edge in (BEGIN, END))
    places = str(either["interface"]).split(", ")
    times = {
        f"{prefix}{key}": row[f"{column}_ns"]
        for prefix, row in (("begin_", begin), ("end_", end))
        for key, column in (("planned_ns", "planned"), ("ns", "time"), ("error_ns", "uncertainty"))
    }
    return DeviceEvent(
        name=str(either["name"]),
        what=str(either["what"]),
        where=", ".join(f"{either['device']}:{one}" if one else str(either["device"]) for one in places) or "this host",
        stops_traffic=bool(either["stops_traffic"]),
        happened=BEGIN not in edges or begin["time_ns"] is not None,
        planned_ns=times.pop("begin_planned_ns"),
        seen_by=str(begin["seen_by"] or end["seen_by"] or BY_COMMAND),
        routes_ns=end.get("routes_ns"),
        exit_code=end.get("exit_code"),
        **times,
    )


@dataclass(frozen=True, slots=True)
class RateChange:
    """The step of a port's rate around the beginning or end of an event, as the timeline has it.

    Attributes:
        port: that received, `host:interface`: of those whose rate changed much, the one where it did first.
        at_ns: boundary of bins on the clock of the run.
        after_ns: so long after the event; below 0: before it, by no more than the error.
        error_ns: it is off by at most so much: a bin, the error of the clock, and that of the event.
        from_bps, to_bps: payload before and after it, bit/s.
    """

    port: str
    at_ns: int
    after_ns: int
    error_ns: int
    from_bps: float
    to_bps: float


@dataclass(frozen=True, slots=True)
class EventFigures:
    """An event, and what it cost the job.

    Attributes:
        event: what happened.
        at_ns: when it began, after the first iteration did; None: before, or never.
        outage_ns: the longest time in which no payload of a flow arrived at a rank that waited for some; 0: no flow
            paused longer than it does without events; None: not measured, see `why`.
        outage_error_ns, recovery_error_ns: they are off by at most so much.
        probe_outage_ns: the longest time in which a flow over UDP at equal intervals passed nothing, if that is longer
            than without events; 0: it was not; None: the run had no such flow.
        probe_error_ns: by how much that can be off.
        is_probe_over: False: nothing of that flow came any more; its outage then lasted until its sender ended.
        is_over: False: a flow never moved again; the outage then lasted until the end of the run.
        flows: how many paused longer than they do without events.
        recovery_ns: from the end of the event to the first payload of the flow that moved again last; 0: that was
            before; None: not measured, or the event did not end.
        iterations: measured ones that it met.
        jct_ns: of the longest of them; None: none was completed.
        steady_p50_ns, steady_p99_ns: JCT of the measured iterations that no event met; None: too few.
        retransmissions: packets sent again in these iterations; None: not known.
        retransmitted_bytes: the most that is of payload.
        lost_from_ns, lost_until_ns: if a flow never moved again: its last payload, and the end of the run.
        why: why the outage is not measured; "": it is, or the event stops no traffic.
        rate_at_begin, rate_at_end: how a rate changed; None: it did not, nobody knows, or the event stops traffic.
        moved: (when, port and what) of traffic that moved to other ports after it, before the next that stops traffic.
    """

    event: DeviceEvent
    at_ns: int | None = None
    outage_ns: int | None = None
    outage_error_ns: int | None = None
    probe_outage_ns: int | None = None
    probe_error_ns: int | None = None
    is_probe_over: bool = True
    is_over: bool = True
    flows: int | None = None
    recovery_ns: int | None = None
    recovery_error_ns: int | None = None
    iterations: tuple[int, ...] = ()
    jct_ns: int | None = None
    steady_p50_ns: float | None = None
    steady_p99_ns: float | None = None
    retransmissions: int | None = None
    retransmitted_bytes: int | None = None
    lost_from_ns: int | None = None
    lost_until_ns: int | None = None
    why: str = ""
    rate_at_begin: RateChange | None = None
    rate_at_end: RateChange | None = None
    moved: tuple[tuple[int, str], ...] = ()

    @property
    def jct_to_p99(self) -> float | None:
        """JCT of the longest iteration that it met / p99 of those that no event met; None: not known."""
        return self.jct_ns / self.steady_p99_ns if self.jct_ns and self.steady_p99_ns else None


@dataclass(frozen=True, slots=True)
class Migrations:
    """Traffic that moved from a port to another one of its host (--survive).

    Attributes:
        where: the port that it left, `host:interface`.
        what: where it went, and whether that is back.
        moves: each of all queue pairs of two ranks, as one end of them said.
        first_ns, last_ns: when the first and the last of them moved, after the first iteration began.
        spans: from when to when they followed each other closely; ns on the clock of the run.
    """

    where: str
    what: str
    moves: int
    first_ns: int
    last_ns: int
    spans: tuple[tuple[int, int], ...] = ()


class EventMark(NamedTuple):
    """What pictures show of a change; ns on the clock of the run. None: from its start, or to its end."""

    what: str
    begin_ns: int | None
    end_ns: int | None


def marks(events: Sequence[EventFigures], moved: Sequence[Migrations]) -> list[EventMark]:
    """All that pictures over time are to show."""
    happened = [one.event for one in events if one.event.happened]
    found = [EventMark(f"{one.where} {one.what}", one.begin_ns, one.end_ns) for one in happened]
    return found + [EventMark(f"{one.where} {one.what}", *span) for one in moved for span in one.spans]
