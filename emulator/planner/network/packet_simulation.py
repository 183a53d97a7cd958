"""Simulation of a collective packet by packet: windows, queues, and acknowledgements that wait behind payload.

A queue pair keeps at most a window of packets on their way. Ports of hosts serve their queue pairs in turn, switches
serve the frames of each link in order of arrival, whole frames at a time. A receiver acknowledges after a share of the
window and on request. The rate of a flow is thus its window over the time that its packets and their acknowledgements
spend waiting, which is less than a max-min fair share where they pass several queues. Steps wait for each other as they
do in agents, clear-to-send included.

Transfers inside a scale-up domain are no packets: they take the time that the domain takes, as in agents.

Loss, ECN marking and retransmission are not simulated; where they would occur, the time is unknown. The work of hosts
takes no time. No parameter is fitted: all of them come from the transport and the topology.

Sources: Massoulié & Roberts, INFOCOM 1999, for the shares of fixed windows; Zhang, Shenker & Clark, SIGCOMM 1991, for
acknowledgements behind payload.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from emulator.planner.network.arrays import FloatArray
from emulator.planner.network.domain import Domains
from emulator.planner.network.lane_progress import LaneProgress, lanes_of
from emulator.planner.network.packet_flows import Flow, Sending
from emulator.planner.network.packet_links import LinkFacts, LinkQueues, UnknownTime
from emulator.planner.network.routing import Router
from emulator.planner.schedule import Step
from emulator.planner.traffic.operation import Operation
from emulator.roce.constants import LOOKAHEAD_STEPS
from emulator.trace.model import IntArray

MOST_FRAMES = 1 << 18
"""Frames times links over all groups of an operation that are simulated, at most; that many take about a second."""

Send: TypeAlias = tuple[int, int, int]
"""(peer, lane, bytes)"""


def queued_ns(operation: Operation, router: Router, rate_bps: FloatArray, sending: Sending) -> int | None:
    """Time of the slowest group on its own, ns.

    Args:
        router: its hash, or the explicit routes, choose paths.
        rate_bps: per directed link, bit/s; NaN if not specified.

    Returns:
        None if there are too many frames, splits are uneven, a link has no rate, a queue of known depth would overflow,
        or a sender would time out.

    Raises:
        PlanError: as `Router.hashed`.
    """
    if operation.splits is not None or operation.transfers * operation.groups > MOST_FRAMES:
        return None
    facts = LinkFacts(router, rate_bps)
    walked = 0
    longest = 0.0
    for ranks in operation.ranks:
        group = _Group(operation, ranks, facts, sending, most_frames=MOST_FRAMES - walked)
        try:
            longest = max(longest, group.run())
        except UnknownTime:
            return None
        walked += group.walked
    return int(np.ceil(longest - 1e-6))


class _Frame:
    """A frame of a flow.

    Attributes:
        number: of the payload packet, or of the last packet that is acknowledged; 0 for clear-to-send.
        is_ack: an acknowledgement, which takes the return path.
    """

    __slots__ = ("bytes", "flow", "hop", "is_ack", "number", "path")

    def __init__(self, flow: Flow, number: int, size_bytes: int, *, is_ack: bool = False) -> None:
        self.flow, self.number, self.bytes, self.is_ack = flow, number, size_bytes, is_ack
        self.path = flow.return_path if is_ack else flow.path
        self.hop = 0


class _Alarm:
    """Comes out of the queues when the next transfer arrives in a domain."""

    def __init__(self) -> None:
        self.bytes = self.hop = 0
        self.path: Sequence[int] = ()


class _Member:
    """One member: its lanes, the steps read ahead, and who may send to whom."""

    def __init__(self, operation: Operation, number: int) -> None:
        self.lanes = [LaneProgress(iter(lane)) for lane in lanes_of(operation, number)]
        self.ahead: list[deque[Step]] = [deque() for _ in self.lanes]
        self.has_cleared: set[int] = set()  # peers that it has sent a clear-to-send
        self.cleared_by: set[int] = set()  # peers that it has received a clear-to-send from
        self.deferred: list[Send] = []  # sends that wait for a clear-to-send


class _Group:
    """Simulates one group."""

    def __init__(
        self, operation: Operation, ranks: IntArray, facts: LinkFacts, sending: Sending, *, most_frames: int
    ) -> None:
        self._ranks, self._facts, self._sending = ranks.tolist(), facts, sending
        self._has_credits = operation.kind.is_collective
        self._members = [_Member(operation, number) for number in range(operation.members)]
        self._flows: dict[tuple[int, int], Flow] = {}
        self._ports: dict[int, deque[Flow]] = {}  # first link → flows that may have a packet to send, in turn
        self._domains: Domains[tuple[int, int, Send | None]] = Domains(facts.topology)  # sender, receiver, send
        self._alarm_ns, self._ended_ns = 0, 0.0
        self._links: LinkQueues[_Frame | _Alarm] = LinkQueues(
            facts, next_frame=self._next_frame, arrive=self._arrive, most_frames=most_frames
        )

    @property
    def walked(self) -> int:
        """Frames times links."""
        return self._links.walked

    def run(self) -> float:
        """Time until every member has received everything and every acknowledgement, ns.

        Raises:
            UnknownTime: the simulation does not apply, or a receive is never satisfied.
        """
        for number, member in enumerate(self._members):
            for lane in range(len(member.lanes)):
                self._advance(number, lane)
        self._links.run()
        if any(member.deferred or any(lane.is_waiting for lane in member.lanes) for member in self._members):
            raise UnknownTime
        return self._ended_ns

    # Packets.

    def _next_frame(self, link: int) -> _Frame | _Alarm | None:
        """The next payload packet of a port: its flows take turns."""
        flows = self._ports.get(link)
        while flows:
            flow = flows.popleft()
            if flow.may_send:
                flows.append(flow)
                return self._packet(flow)
        return None

    def _packet(self, flow: Flow) -> _Frame:
        return _Frame(flow, *flow.next_packet(self._links.now_ns))

    def _wake(self, flow: Flow) -> None:
        """Send what a flow may send now."""
        if not flow.path:
            while flow.may_send:
                self._links.send(self._packet(flow))
            return
        link = flow.path[0]
        flows = self._ports.setdefault(link, deque())
        if flow not in flows:
            flows.append(flow)
        self._links.wake(link)

    def _arrive(self, frame: _Frame | _Alarm) -> None:
        if isinstance(frame, _Alarm):
            self._arrive_in_domains()
            return
        self._ended_ns = self._links.now_ns
        flow, number = frame.flow, frame.number
        if frame.is_ack:
            if number:
                self._acknowledge(flow, number)
        elif number:
            self._receive(flow, number)
        else:
            self._receive_clear_to_send(flow)

    def _receive(self, flow: Flow, number: int) -> None:
        if flow.receive(number):
            self._send_ack(flow, number)
        lane = flow.completed_lane(number)
        if lane is not None and self._members[flow.receiver].lanes[lane].receive(flow.sender):
            self._advance(flow.receiver, lane)

    def _acknowledge(self, flow: Flow, number: int) -> None:
        flow.acknowledge(number, self._links.now_ns)
        if flow.has_unsent:
            self._wake(flow)

    def _send_ack(self, flow: Flow, number: int) -> None:
        self._links.send(_Frame(flow, number, self._sending.ack_bytes, is_ack=True))

    def _flow(self, sender: int, receiver: int) -> Flow:
        if (sender, receiver) not in self._flows:
            source, target = self._ranks[sender], self._ranks[receiver]
            self._flows[sender, receiver] = Flow(
                sender=sender,
                receiver=receiver,
                path=self._facts.path(source, target),
                return_path=self._facts.path(target, source),
                sending=self._sending,
            )
        return self._flows[sender, receiver]

    # Steps.

    def _advance(self, number: int, lane: int) -> None:
        """Begin steps until one has to wait."""
        member = self._members[number]
        while not member.lanes[lane].is_waiting:
            step = self._next_step(number, lane)
            if step is None:
                return
            for transfer in step.sends:
                if transfer.peer in member.cleared_by or not self._has_credits:
                    self._post(number, (transfer.peer, lane, transfer.size))
                else:
                    member.deferred.append((transfer.peer, lane, transfer.size))
            member.lanes[lane].await_transfers(transfer.peer for transfer in step.recvs)

    def _next_step(self, number: int, lane: int) -> Step | None:
        member = self._members[number]
        ahead = member.ahead[lane]
        while len(ahead) < LOOKAHEAD_STEPS:
            step = next(member.lanes[lane].steps, None)
            if step is None:
                break
            ahead.append(step)
            for transfer in step.recvs:
                self._send_clear_to_send(number, transfer.peer)
        return ahead.popleft() if ahead else None

    def _post(self, number: int, send: Send) -> None:
        peer, lane, size_bytes = send
        if self._post_in_domain(number, peer, size_bytes, send):
            return
        flow = self._flow(number, peer)
        flow.post(lane, size_bytes)
        self._wake(flow)

    # Clear-to-send.

    def _send_clear_to_send(self, number: int, peer: int) -> None:
        """Allow a peer, once, to send."""
        has_cleared = self._members[number].has_cleared
        if self._has_credits and peer not in has_cleared:
            has_cleared.add(peer)
            if self._post_in_domain(number, peer, 0, None):
                return
            self._links.send(_Frame(self._flow(number, peer), 0, self._sending.clear_to_send_bytes))

    def _receive_clear_to_send(self, flow: Flow) -> None:
        self._send_ack(flow, 0)
        self._clear(flow.receiver, flow.sender)

    def _clear(self, number: int, peer: int) -> None:
        """A peer allows a member to send."""
        member = self._members[number]
        member.cleared_by.add(peer)
        deferred, member.deferred = member.deferred, []
        for send in deferred:
            if send[0] == peer:
                self._post(number, send)
            else:
                member.deferred.append(send)

    # Domains.

    def _post_in_domain(self, number: int, peer: int, size_bytes: int, send: Send | None) -> bool:
        """Post a transfer, or a clear-to-send (None), if a domain connects the two."""
        ends = self._ranks[number], self._ranks[peer]
        if not self._domains.connect(*ends):
            return False
        self._domains.post(*ends, size_bytes, (number, peer, send), now_ns=self._links.now_ns)
        self._set_alarm()
        return True

    def _set_alarm(self) -> None:
        next_ns = self._domains.next_ns
        if next_ns is not None and (next_ns < self._alarm_ns or self._alarm_ns <= self._links.now_ns):
            self._alarm_ns = next_ns
            self._links.wake_at(next_ns, _Alarm())

    def _arrive_in_domains(self) -> None:
        for at_ns, (number, peer, send) in self._domains.arrivals(round(self._links.now_ns)):
            self._ended_ns = float(at_ns)
            if send is None:
                self._clear(peer, number)
            elif self._members[peer].lanes[send[1]].receive(number):
                self._advance(peer, send[1])
        self._set_alarm()
