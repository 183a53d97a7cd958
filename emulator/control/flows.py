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

    def earlier(self, by_ns: int) -> FlowFigures:
        """The same with the stamp set back, to another clock."""
        return self if self.start_ns is None else replace(self, start_ns=self.start_ns - by_ns)


@dataclass(frozen=True, slots=True)
class FlowReport:
    """What came of a flow; `is_complete`: both ends have agreed that it is over."""

    number: int
    is_complete: bool
    figures: Sequence[FlowFigures]

    def earlier(self, by_ns: int) -> FlowReport:
        """The same with all stamps set back, to another clock."""
        return replace(self, figures=[one.earlier(by_ns) for one in self.figures]) if by_ns else self
