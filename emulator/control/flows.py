"""Flows beside a run's job: what an agent plays, and what it has measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from emulator.control.checked_values import Amount, Count, NumericAddress


@dataclass(frozen=True, slots=True)
class FlowTask:
    """A flow that an agent plays beside its ranks.

    Attributes:
        number: of the flow in the run, from 0.
        kind: who plays it, see agents/flows.py.
        title: for messages: `flow 0 (perftest, h0 to nic-a)`.
        host: numeric address of its own end, which no rank uses.
        interface: of the topology's host; "" where the topology names none.
        document: the rest, JSON; its type is the kind's.
    """

    number: int
    kind: str
    title: str
    host: NumericAddress
    interface: str
    document: str


class FlowDirection(StrEnum):
    """What one end counts: `SERVED` is what the peer read."""

    SENT = "sent"
    RECEIVED = "received"
    READ = "read"
    SERVED = "served"


class FlowObserver(StrEnum):
    """Who counted: this end, or the peer, which reports of itself."""

    CHARKHA = "charkha"
    PEER = "peer"


MOST_GAPS = 100
"""Gaps that are kept of a flow."""


@dataclass(frozen=True, slots=True)
class FlowGap:
    """A time in which no datagram of a flow arrived and some were lost; of its sender: in which it sent none.

    Attributes:
        start_ns, end_ns: the arrivals of the last datagram before it and of the first one after it; of a sender, when
            it sent them.
        lost: datagrams between them; None: nothing came any more, and `end_ns` is when the flow ended here.
        late_ns: by how much it took the first one longer, from when it was due, than the fastest datagram: the sender
            or the network held it; None: the ends have different clocks, or it has no due time.
    """

    start_ns: int
    end_ns: int
    lost: int | None = None
    late_ns: int | None = None

    def earlier(self, by_ns: int) -> FlowGap:
        """The same with the stamps set back, to another clock."""
        return replace(self, start_ns=self.start_ns - by_ns, end_ns=self.end_ns - by_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFigures:
    """What was counted of a flow in one direction by one end; None: it does not count that.

    Attributes:
        messages, bytes: complete; payload, each byte once.
        start_ns: the first post, on the clock of whoever holds these figures; of background traffic, when it began.
        duration_ns: from it to the last completion; of what was received, from the first to the last arrival.
        bytes_per_s: goodput.
        packets, retransmits: of a sender: all of them; those that repeated one.
        timeouts, naks, rnr_naks: why it went back; naks of a receiver: those that it sent.
        duplicates: packets received again.
        latency_median_ns, latency_p99_ns: half a round trip, of READs a whole one.
        wire_bps: complete messages with all headers, each byte once, bit/s.
        lost: packets that a receiver missed.
        offered_messages, offered_bytes, offered_bps: what the schedule asked for: payload, and bit/s with all headers.
        lateness_median_ns, lateness_p99_ns: from when messages were due until they were offered to the transport.
        completions: messages whose time is known.
        completion_median_ns, completion_p99_ns: from when they were due until they were complete.
        gaps: of background traffic over UDP: the longest ones; of its sender, if it sends at equal intervals, those of
            more than one and a half.
    """

    direction: FlowDirection
    observer: FlowObserver
    messages: int
    bytes: int
    start_ns: int | None = None
    duration_ns: Count | None = None
    bytes_per_s: Amount | None = None
    packets: int | None = None
    retransmits: int | None = None
    timeouts: int | None = None
    naks: int | None = None
    rnr_naks: int | None = None
    duplicates: int | None = None
    latency_median_ns: Amount | None = None
    latency_p99_ns: Amount | None = None
    wire_bps: Amount | None = None
    lost: int | None = None
    offered_messages: int | None = None
    offered_bytes: int | None = None
    offered_bps: Amount | None = None
    lateness_median_ns: Amount | None = None
    lateness_p99_ns: Amount | None = None
    completions: int | None = None
    completion_median_ns: Amount | None = None
    completion_p99_ns: Amount | None = None
    gaps: Sequence[FlowGap] = ()

    def earlier(self, by_ns: int) -> FlowFigures:
        """The same with the stamps set back, to another clock."""
        if self.start_ns is None:
            return self
        return replace(self, start_ns=self.start_ns - by_ns, gaps=[one.earlier(by_ns) for one in self.gaps])


@dataclass(frozen=True, slots=True)
class FlowReport:
    """What came of a flow; `is_complete`: both ends have agreed that it is over."""

    number: int
    is_complete: bool
    figures: Sequence[FlowFigures]

    def earlier(self, by_ns: int) -> FlowReport:
        """The same with all stamps set back, to another clock."""
        return replace(self, figures=[one.earlier(by_ns) for one in self.figures]) if by_ns else self
