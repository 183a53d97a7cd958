"""What agents report: completions as they happen, summaries of ranks, counters of flows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Completion:
    """A communication node that is done on one rank.

    Attributes:
        iteration: negative for warm-up.
        post_ns, done_ns: monotonic clock of the rank's host, ns.
        arrival_ns: when the last byte for this rank came, ns; 0 where nothing came.
        bytes_sent, bytes_received: payload.
        early: payload came before this rank had posted (never with credits).
    """

    iteration: int
    rank: int
    node_id: int
    post_ns: int
    done_ns: int
    arrival_ns: int
    bytes_sent: int
    bytes_received: int
    early: bool


@dataclass(frozen=True, slots=True)
class RankSummary:
    """How a rank spent an iteration, in ns.

    Attributes:
        compute_ns: the device was busy (compute nodes that are no CPU operations).
        communication_ns: at least one communication was under way.
        overlap_ns: both at once.
    """

    rank: int
    start_ns: int
    end_ns: int
    compute_ns: int
    communication_ns: int
    overlap_ns: int


@dataclass(slots=True)
class FlowCounters:
    """What one flow (a directed rank pair; a queue pair for RoCE) carried, seen from its sender. Bytes are payload.

    A counter that the transport cannot know stays None and is stored as null.
    """

    src: int
    dst: int
    bytes: int = 0
    messages: int = 0
    packets: int | None = None
    retransmits: int | None = None
    naks: int | None = None
    cnps_sent: int | None = None
    cnps_received: int | None = None
    ecn_marks: int | None = None
    out_of_order: int | None = None
    rtt_ns: int | None = None
