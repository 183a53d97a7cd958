"""Background traffic of a run: what its schedules asked for, what its senders sent, what its receivers received."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.control.flows import MOST_GAPS, FlowGap
from emulator.results.run_folder.flow_results import FlowResult
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable

BEHIND = 0.99
"""A flow that sent less than this share of what was offered is behind its schedule."""
LEAST_INTERVALS = 3
"""An outage surely lasted at least so long: a few datagrams that a full queue dropped in a row are none."""


@dataclass(frozen=True, slots=True)
class ProbeOutage:
    """A time in which no datagram of a flow over UDP passed.

    It began after the last datagram that passed and before the first one that did not, and ended likewise: its length
    is the middle of what is possible.

    Attributes:
        start_ns, end_ns: the arrivals of the last datagram before it and of the first one after it; if none came any
            more, when its sender ended.
        outage_ns, error_ns: how long, and by how much that can be off.
        lost: datagrams; None: none came any more.
    """

    start_ns: int
    end_ns: int
    outage_ns: int
    error_ns: int
    lost: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundFlow:
    """A flow, from both of its ends; None: not counted, or not known because an end did not report.

    Attributes:
        name: that the run spec gave it, or None.
        sender, receiver: as the run spec names them.
        rate_bps: that was asked for. This and all other rates in bit/s are on the wire, with all headers.
        size_bytes: mean of the sizes, payload.
        offered_bps, offered_messages, offered_bytes: by its schedule until the job ended.
        sent_bps, sent_messages, sent_bytes: complete; acknowledged, where the transport acknowledges.
        received_bps, received_messages, received_bytes: complete at the receiver.
        packets, lost_packets: sent, and missed by the receiver.
        completions: messages whose time from due to complete is known; its median and 99th percentile.
        lateness_median_ns, lateness_p99_ns: of messages, from due to offered: the tester's part.
        duration_ns: from the start of the first iteration to the end of the job.
        interval_ns: between two messages; None: it varies.
        outages: over UDP, of a flow whose interval does not vary: when no datagram passed, in the order of time; the
            longest ones.
    """

    flow: int
    name: str | None
    sender: str
    receiver: str
    transport: str
    dscp: int | None
    pattern: str | None
    sizes: str | None
    size_bytes: int
    rate_bps: int | None
    offered_bps: float | None = None
    offered_messages: int | None = None
    offered_bytes: int | None = None
    sent_bps: float | None = None
    sent_messages: int | None = None
    sent_bytes: int | None = None
    received_bps: float | None = None
    received_messages: int | None = None
    received_bytes: int | None = None
    packets: int | None = None
    lost_packets: int | None = None
    completions: int | None = None
    completion_median_ns: float | None = None
    completion_p99_ns: float | None = None
    lateness_median_ns: float | None = None
    lateness_p99_ns: float | None = None
    start_ns: int | None = None
    duration_ns: int | None = None
    interval_ns: int | None = None
    outages: tuple[ProbeOutage, ...] = ()

    @property
    def longest_outage(self) -> ProbeOutage | None:
        """The longest time in which no datagram passed; None: there was none, or the flow cannot tell."""
        return max(self.outages, key=lambda one: one.outage_ns, default=None)

    @property
    def is_behind(self) -> bool:
        """Whether it sent less than its schedule offered: the sender, or the network, did not keep up."""
        return self.sent_bytes is not None and self.sent_bytes < BEHIND * (self.offered_bytes or 0)


def flow_results(run: Run) -> tuple[FlowResult, ...]:
    """All rows, in the order of the flows, with the gaps of what was received; empty if the run had none.

    Raises:
        ResultError: a table is damaged.
    """
    gaps: dict[tuple[int, str], list[FlowGap]] = {}
    for row in run.table(RunTable.FLOW_GAPS).to_pylist():
        gaps.setdefault((row.pop("flow"), row.pop("direction")), []).append(FlowGap(**row))
    rows = run.table(RunTable.FLOW_RESULTS).to_pylist()
    return tuple(
        FlowResult(**row, gaps=gaps.get((row["flow"], row["direction"]), ()) if row["kind"] == "background" else ())
        for row in rows
    )


def background_flows(results: Iterable[FlowResult]) -> Iterator[BackgroundFlow]:
    """The flows of background traffic among all rows, in order."""
    ends: dict[int, dict[str, FlowResult]] = {}
    for row in results:
        if row.kind == "background" and row.direction in ("sent", "received"):
            ends.setdefault(row.flow, {})[row.direction] = row
    for _, rows in sorted(ends.items()):
        yield _joined(rows.get("sent"), rows.get("received"))


def _joined(sent: FlowResult | None, received: FlowResult | None) -> BackgroundFlow:
    known = sent or received
    assert known is not None
    timed = sent if sent is not None and sent.completions else received
    return BackgroundFlow(
        flow=known.flow,
        name=known.name,
        sender=known.host,
        receiver=known.peer,
        transport=known.verb,
        dscp=known.dscp,
        pattern=known.pattern,
        sizes=known.sizes,
        size_bytes=known.size_bytes,
        rate_bps=known.rate_bps,
        offered_bps=_get(sent, "offered_bps"),
        offered_messages=_get(sent, "offered_messages"),
        offered_bytes=_get(sent, "offered_bytes"),
        sent_bps=_get(sent, "wire_bps"),
        sent_messages=_get(sent, "messages"),
        sent_bytes=_get(sent, "bytes"),
        received_bps=_get(received, "wire_bps"),
        received_messages=_get(received, "messages"),
        received_bytes=_get(received, "bytes"),
        packets=_get(sent, "packets"),
        lost_packets=_get(received, "lost"),
        completions=_get(timed, "completions"),
        completion_median_ns=_get(timed, "completion_median_ns"),
        completion_p99_ns=_get(timed, "completion_p99_ns"),
        lateness_median_ns=_get(sent, "lateness_median_ns"),
        lateness_p99_ns=_get(sent, "lateness_p99_ns"),
        start_ns=known.start_ns,
        duration_ns=known.duration_ns,
        interval_ns=known.interval_ns,
        outages=tuple(_outages(sent, received)),
    )


def _outages(sent: FlowResult | None, received: FlowResult | None) -> Iterator[ProbeOutage]:
    """Those of a flow of equal intervals. What a sender that had ended did not send was not lost."""
    if received is None or received.interval_ns is None:
        return
    pauses = _Pauses(() if sent is None else sent.gaps, received.interval_ns)
    stop_ns = None if sent is None or sent.start_ns is None else sent.start_ns + (sent.duration_ns or 0)
    for gap in received.gaps:
        end_ns = gap.end_ns
        if gap.lost is None:
            if stop_ns is None:
                continue
            end_ns = min(end_ns, stop_ns)
        longest_ns = end_ns - gap.start_ns
        unknown_ns = pauses.after_ns(gap.start_ns) + pauses.before_ns(gap)
        outage_ns, error_ns = longest_ns - unknown_ns // 2, unknown_ns // 2 + received.interval_ns
        if outage_ns - error_ns >= LEAST_INTERVALS * received.interval_ns:
            yield ProbeOutage(gap.start_ns, end_ns, outage_ns, error_ns, gap.lost)


class _Pauses:
    """Between which two datagrams an outage began and ended is known; how far they are apart, its sender says.

    Args:
        found: when the sender sent nothing for longer than one and a half intervals.
        interval_ns: between two datagrams.
    """

    def __init__(self, found: Sequence[FlowGap], interval_ns: int) -> None:
        self._found = found
        lasted_ns = [one.end_ns - one.start_ns for one in found]
        self._longest_ns = max(lasted_ns, default=0)
        self._usual_ns = max(interval_ns, min(lasted_ns, default=0) if len(found) >= MOST_GAPS else 0)

    def after_ns(self, at_ns: int) -> int:
        """From the last datagram that passed to the first one that did not."""
        left_ns = (one.end_ns - at_ns for one in self._found if one.start_ns <= at_ns)
        return max(self._usual_ns, max(left_ns, default=0))

    def before_ns(self, gap: FlowGap) -> int:
        """From the last datagram that did not pass to the first one that did: as late as that one, at most."""
        if gap.lost is None:
            return self._usual_ns
        if gap.late_ns is None:
            return max(self._usual_ns, self._longest_ns)
        return self._usual_ns + max(0, gap.late_ns)


def _get(end: FlowResult | None, name: str) -> Any:
    return None if end is None else getattr(end, name)
