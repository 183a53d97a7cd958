"""What agents report: completions as they happen, summaries of ranks, counters of flows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.trace.meaning.model import IdArray, IntArray


class Completion(NamedTuple):
    """A communication node that is done on one rank: a row of Completions. A tuple, for there are very many.

    Attributes:
        iteration: negative for warm-up.
        post_ns, done_ns: monotonic clock of the rank's host, ns.
        arrival_ns: when the last byte for this rank came, ns; 0 if nothing came.
        bytes_sent, bytes_received: payload.
        early: payload came before this rank had posted (never with credits).
        read_delay_ns: how long after `done_ns`, a time stamp of the kernel, the agent handled it; -1: the agent read
            the clock itself.
        core_wait_ns: between post and done the agent was ready to run and had no core; -1: not known.
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
    read_delay_ns: int = -1
    core_wait_ns: int = -1


@dataclass(frozen=True, slots=True)
class RankSummary:
    """How a rank spent an iteration, in ns.

    Attributes:
        compute_ns: the device was busy (compute nodes that are not CPU operations).
        communication_ns: at least one communication was under way.
        overlap_ns: both at once.
    """

    rank: int
    start_ns: int
    end_ns: int
    compute_ns: int
    communication_ns: int
    overlap_ns: int

    def earlier(self, by_ns: int) -> RankSummary:
        """The same with all stamps set back, to another clock."""
        return replace(self, start_ns=self.start_ns - by_ns, end_ns=self.end_ns - by_ns) if by_ns else self


@dataclass(frozen=True, slots=True)
class ComputeSpans:
    """When devices of ranks were busy in an iteration: columns of equal length, a row per span.

    Attributes:
        iteration: negative for warm-up.
        rank: whose device.
        start_ns, end_ns: monotonic clock of the rank's host; nodes back to back are one span.
    """

    iteration: int
    rank: IntArray
    start_ns: IntArray
    end_ns: IntArray

    def earlier(self, by_ns: int) -> ComputeSpans:
        """The same with all stamps set back, to another clock."""
        return replace(self, start_ns=self.start_ns - by_ns, end_ns=self.end_ns - by_ns) if by_ns else self


class Medium(StrEnum):
    """What a flow goes over: the network, or the scale-up domain of a host."""

    WIRE = "wire"
    DOMAIN = "domain"


@dataclass(slots=True)
class FlowCounters:
    """What one flow (a directed rank pair; for RoCE a queue pair of it in one direction) carried. Bytes are payload.

    The sender counts some of it, the receiver the rest: each leaves the other's counters None, and `joined` puts them
    together. A counter that the transport cannot know stays None and is stored as null.

    Attributes:
        packets, retransmits: of payload; every transmission counts as a packet.
        naks, rnr_naks, timeouts: that made the sender go back: sequence errors, a receiver that was not ready, silence.
        cnps_sent, cnps_received: by the receiver of the flow, by its sender.
        ecn_marks: packets that came with the congestion mark.
        out_of_order, largest_displacement: packets that came before their turn, and by how many packets at most.
        rtt_ns: smoothed time from a packet to its acknowledgement.
        qpn: the destination queue pair number in the flow's packets.
        source_port: of its packets; None if they have several.
        duplicates: packets that were sent again although they had arrived; in runs without `copies` those too.
        copies: packets that came twice although they were sent once: the network made the second one.
        dropped_header, dropped_icrc, dropped_payload: packets that came with impossible headers, a wrong ICRC, or
            other bytes than were sent.
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
    qpn: int | None = None
    source_port: int | None = None
    timeouts: int | None = None
    rnr_naks: int | None = None
    duplicates: int | None = None
    largest_displacement: int | None = None
    dropped_header: int | None = None
    dropped_icrc: int | None = None
    dropped_payload: int | None = None
    medium: Medium = Medium.WIRE
    copies: int | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing was sent, and nothing happened."""
        return not any(getattr(self, name) for name in _COUNTED)

    @property
    def has_events(self) -> bool:
        """Whether one of EVENTS was counted."""
        return any(getattr(self, name) for name in EVENTS)

    def events_since(self, before: FlowCounters | None) -> FlowCounters:
        """The same flow with only its EVENTS, less those counted before; None: nothing was."""
        now = {name: getattr(self, name) for name in EVENTS}
        if before is not None:
            now = {name: count and count - (getattr(before, name) or 0) for name, count in now.items()}
        return FlowCounters(self.src, self.dst, qpn=self.qpn, source_port=self.source_port, **now)

    def joined(self, other: FlowCounters) -> FlowCounters:
        """What this and the other end of the same flow counted; where both say something, this one's."""
        missing = {name: getattr(other, name) for name in _OPTIONAL if getattr(self, name) is None}
        return replace(self, bytes=self.bytes + other.bytes, messages=self.messages + other.messages, **missing)


EVENTS = (
    "retransmits",
    "timeouts",
    "naks",
    "rnr_naks",
    "out_of_order",
    "duplicates",
    "copies",
    "ecn_marks",
    "cnps_sent",
    "cnps_received",
    "dropped_header",
    "dropped_icrc",
    "dropped_payload",
)
"""Counters of a flow that stay 0 while nothing goes wrong and nothing is congested."""
_OPTIONAL = tuple(field.name for field in fields(FlowCounters) if field.default is None)
_COUNTED = ("messages", *(name for name in _OPTIONAL if name not in ("qpn", "source_port", "rtt_ns")))


def join_ends(counters: Iterable[FlowCounters]) -> list[FlowCounters]:
    """One entry per flow from what both of its ends said, by source, destination and queue pair, without empty ones."""
    flows: dict[tuple[int, int, int], FlowCounters] = {}
    for one in counters:
        key = (one.src, one.dst, -1 if one.qpn is None else one.qpn)
        known = flows.get(key)
        flows[key] = one if known is None else known.joined(one)
    return [flows[key] for key in sorted(flows) if not flows[key].is_empty]


@dataclass(frozen=True, slots=True)
class FlowEvents:
    """What happened to flows in one iteration: only flows with events, and only the counters in EVENTS.

    Attributes:
        iteration: negative for warm-up.
        flows: as this end counted them since the iteration before.
    """

    iteration: int
    flows: Sequence[FlowCounters]


class TimelineFlow(NamedTuple):
    """A flow by both ends and the destination queue pair number in its packets."""

    src: int
    dst: int
    qpn: int


@dataclass(frozen=True, slots=True)
class Migration:
    """Traffic of a rank to a peer moved to the other of their two paths (docs/adr/0026).

    Attributes:
        rank, peer: both ends; the rank's agent says it.
        qpn: of the queue pair of the rank that found the primary path lost; all others of the two moved with it.
        at_ns: when.
        is_back: to the primary path.
    """

    rank: int
    peer: int
    qpn: int
    at_ns: int
    is_back: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """What flows carried by time: columns of equal length, a row per flow and bin with traffic, as one end counted it.

    Attributes:
        bin_ns: length of a bin.
        flows: those that `flow` is an index of.
        start_ns: of the bin, on the monotonic clock of the agent's host.
        bytes, ecn_marks: payload taken in order, and packets with the congestion mark, at the receiver.
        retransmits: packets that the sender sent again.
    """

    bin_ns: int
    flows: Sequence[TimelineFlow]
    flow: IntArray
    start_ns: IntArray
    bytes: IntArray
    retransmits: IntArray
    ecn_marks: IntArray

    def in_bins_of(self, bin_ns: int) -> Timeline:
        """The same with one row per flow and bin, in order of time; bins begin at multiples of `bin_ns`."""
        start_ns = self.start_ns - self.start_ns % bin_ns
        order = np.lexsort((self.flow, start_ns))
        flow, start_ns = self.flow[order], start_ns[order]
        is_first = np.ones(len(flow), np.bool_)
        is_first[1:] = (flow[1:] != flow[:-1]) | (start_ns[1:] != start_ns[:-1])
        first = np.flatnonzero(is_first)
        counted = (self.bytes, self.retransmits, self.ecn_marks)
        sums = [np.add.reduceat(one[order], first) if len(first) else one for one in counted]
        return Timeline(bin_ns, self.flows, flow[first], start_ns[first], *sums)


@dataclass(frozen=True, slots=True)
class RankSteps:
    """The transfers of one rank in one instance of a collective or pair: what it sent, and what it received.

    Transfers between two ranks in one lane are in order on both sides, so the k-th of the sender is the k-th of the
    receiver.

    Attributes:
        iteration, instance: which collective or pair.
        rank, node_id: whose transfers these are.
        receiver, send_lane, step, size_bytes, start_ns, post_ns, acknowledged_ns: columns with an entry per transfer
            sent; `step` is the position in the lane. `start_ns` is when the step began, because what it depends on had
            arrived; `post_ns` when the transfer was handed to the transport, because the receiver had posted too. 0:
            that never came.
        sender, receive_lane, arrival_ns: columns with an entry per transfer received.
    """

    iteration: int
    instance: int
    rank: int
    node_id: int
    receiver: Sequence[int]
    send_lane: Sequence[int]
    step: Sequence[int]
    size_bytes: Sequence[int]
    start_ns: Sequence[int]
    post_ns: Sequence[int]
    acknowledged_ns: Sequence[int]
    sender: Sequence[int]
    receive_lane: Sequence[int]
    arrival_ns: Sequence[int]

    def earlier(self, by_ns: int) -> RankSteps:
        """The same with all stamps set back, to another clock."""
        if not by_ns:
            return self

        def earlier(stamps: Sequence[int]) -> Sequence[int]:
            return [at and at - by_ns for at in stamps]

        return replace(
            self,
            start_ns=earlier(self.start_ns),
            post_ns=earlier(self.post_ns),
            acknowledged_ns=earlier(self.acknowledged_ns),
            arrival_ns=earlier(self.arrival_ns),
        )


@dataclass(frozen=True, slots=True)
class StepRecords:
    """Steps that an agent recorded; all blocks of one iteration."""

    iteration: int
    blocks: Sequence[RankSteps]

    def earlier(self, by_ns: int) -> StepRecords:
        """The same with all stamps set back, to another clock."""
        return replace(self, blocks=[one.earlier(by_ns) for one in self.blocks]) if by_ns else self


BEHIND = -1
"""See MemberChain.port_ns."""


@dataclass(frozen=True, slots=True)
class MemberChain:
    """The transfers of one rank in one instance by the kernel's time stamps, and what each that was sent waited for.

    Transfers between two ranks in one lane are in order on both sides, as in RankSteps.

    Attributes:
        iteration, instance: which collective or pair.
        rank, node_id: whose transfers these are.
        post_ns: when the rank posted it.
        stalled_ns: for how long its port had nothing left to send, until it was done, although something was in line.
        receiver, send_lane, cause, sent_ns: columns with an entry per transfer sent. `cause` is 1 + the index of the
            last transfer received that its step waited for, 0 if that was the post. `sent_ns` is when the kernel
            handed the first packet to the driver; 0: not known.
        sender, receive_lane, received_ns: columns with an entry per transfer received. `received_ns` is when the kernel
            had the last packet; 0: not known.
        port_ns: how long what its port received takes at the port's usual pace; 0: not known. BEHIND: most of what it
            sent came so late to its port that it may have been the rank that set the pace of others.
    """

    iteration: int
    instance: int
    rank: int
    node_id: int
    post_ns: int
    stalled_ns: int
    receiver: Sequence[int]
    send_lane: Sequence[int]
    cause: Sequence[int]
    sent_ns: Sequence[int]
    sender: Sequence[int]
    receive_lane: Sequence[int]
    received_ns: Sequence[int]
    port_ns: int = 0

    def earlier(self, by_ns: int) -> MemberChain:
        """The same with all stamps set back, to another clock."""
        if not by_ns:
            return self
        return replace(
            self,
            post_ns=self.post_ns - by_ns,
            sent_ns=[at and at - by_ns for at in self.sent_ns],
            received_ns=[at and at - by_ns for at in self.received_ns],
        )


@dataclass(frozen=True, slots=True)
class ChainRecords:
    """Chains of members that are done; all blocks of one iteration."""

    iteration: int
    blocks: Sequence[MemberChain]

    def earlier(self, by_ns: int) -> ChainRecords:
        """The same with all stamps set back, to another clock."""
        return replace(self, blocks=[one.earlier(by_ns) for one in self.blocks]) if by_ns else self


@dataclass(frozen=True, slots=True)
class Completions:
    """Completion by completion of one iteration as columns of equal length, as an agent reports them."""

    iteration: int
    rank: IntArray
    node_id: IdArray
    post_ns: IntArray
    done_ns: IntArray
    arrival_ns: IntArray
    bytes_sent: IntArray
    bytes_received: IntArray
    early: npt.NDArray[np.bool_]
    read_delay_ns: IntArray
    core_wait_ns: IntArray

    @classmethod
    def of(cls, batch: Sequence[Completion]) -> Completions:
        """Columns from the completions of one iteration, at least one."""
        columns = zip(Completion._fields[1:], list(zip(*batch, strict=True))[1:], strict=True)
        return cls(batch[0].iteration, **{name: np.array(one, _KINDS.get(name, np.int64)) for name, one in columns})

    def earlier(self, by_ns: int) -> Completions:
        """The same with all stamps set back, to another clock."""
        if not by_ns:
            return self
        arrival_ns = np.where(self.arrival_ns == 0, 0, self.arrival_ns - by_ns)
        return replace(self, post_ns=self.post_ns - by_ns, done_ns=self.done_ns - by_ns, arrival_ns=arrival_ns)


_KINDS: Mapping[str, Any] = {"node_id": np.uint64, "early": np.bool_}
"""Of columns that are not int64."""


def join_completions(parts: Sequence[Completions]) -> dict[str, npt.NDArray[Any]]:
    """Several reports, at least one, end to end; column → its values, `iteration` among them."""
    names = [one.name for one in fields(Completions) if one.name != "iteration"]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return {"iteration": np.repeat([part.iteration for part in parts], [len(part.rank) for part in parts]), **columns}
