"""How long a collective takes when its packets wait in queues and its acknowledgements wait behind other payload.

A walk of every packet: a queue pair keeps at most a window on its way; ports of hosts serve their queue pairs in turn,
switches each link's frames as they came, whole frames at a time; a receiver acknowledges after a share of the window
and where it is asked to. What a flow gets is thus its window over the time that its packets and their acknowledgements
wait: less than a fair share where they pass several queues, or where acknowledgements come back through one. Steps
wait for each other as agents have it, clear-to-send included.

Nothing is lost, marked or sent again; where that would happen, the time is unknown. The work of hosts takes no time.

Sources: Massoulié & Roberts, INFOCOM 1999, for the shares of fixed windows; Zhang, Shenker & Clark, SIGCOMM 1991, for
acknowledgements behind payload. That is all in what the transport does and in the topology: nothing here is fitted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from emulator.planner.network.fluid_simulation import lanes_of
from emulator.planner.network.header_overhead import roce_packet_bytes
from emulator.planner.network.routing import FloatArray, Router
from emulator.planner.schedule import Step
from emulator.planner.traffic.operation import Operation
from emulator.roce.constants import (
    ACK_REQUESTS_PER_TIMEOUT,
    ACKS_PER_WINDOW,
    AETH_BYTES,
    IMMDT_BYTES,
    LOOKAHEAD_STEPS,
    RETH_BYTES,
)
from emulator.trace.model import IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

MOST_FRAMES = 1 << 18
"""Frames times links over all groups of an operation that are walked: a second at worst."""


@dataclass(frozen=True, slots=True)
class Sending:
    """What the transport does: RoCEv2, one queue pair per rank pair, at the rate of the port.

    Attributes:
        path_mtu: payload of a full packet, bytes.
        message_bytes: payload of a message, at most.
        window_packets: of a queue pair, on their way.
        timeout_ns: silence after which it sends again.
        ipv6: IP headers of 40 bytes instead of 20.
    """

    path_mtu: int
    message_bytes: int
    window_packets: int
    timeout_ns: int
    ipv6: bool = False


def queued_ns(operation: Operation, router: Router, rate_bps: FloatArray, sending: Sending) -> int | None:
    """Time of the slowest group alone, ns; None if that is too much to walk, splits are uneven, a link has no rate,
    a queue of known depth would overflow, or a sender would time out.

    Args:
        operation: a collective or send.
        router: its hash (or the routes) chooses paths.
        rate_bps: per directed link, bit/s, NaN if not specified.

    Raises:
        PlanError: as `Router.hashed`.
    """
    if operation.splits is not None or operation.transfers * operation.groups > MOST_FRAMES:
        return None
    fabric = _Fabric(router, rate_bps)
    walked = 0
    longest = 0.0
    for ranks in operation.ranks:
        group = _Group(operation, ranks, fabric, sending, most_frames=MOST_FRAMES - walked)
        try:
            longest = max(longest, group.run())
        except _Unknown:
            return None
        walked += group.walked
    return int(np.ceil(longest - 1e-6))


class _Unknown(Exception):
    """The model does not hold, or it would take too long."""


class _Fabric:
    """What links are like, by directed link."""

    def __init__(self, router: Router, rate_bps: FloatArray) -> None:
        paths = router.paths
        network = paths.network
        self.router = router
        self.byte_ns = (BITS_PER_BYTE * NS_PER_S / rate_bps).tolist()
        self.latency_ns = [link.latency_ns or 0 for link in network.links for _ in range(2)]
        depth = {switch.name: switch.queue_bytes for switch in network.switches}
        self.depth = [depth.get(paths.node_name(node)) for node in paths.source.tolist()]

    def path(self, sender: int, receiver: int) -> Sequence[int]:
        """Directed links from one rank to another; none within a host."""
        one, other = np.array([sender]), np.array([receiver])
        if not self.router.remote(one, other)[0]:
            return ()
        out, *into = (crossing.links for crossing in self.router.edges(one, other))
        between = (crossing.links for crossing in self.router.hashed(one, other))
        links: list[int] = np.concatenate([out, *between, *into]).tolist()
        if any(np.isnan(self.byte_ns[link]) for link in links):
            raise _Unknown
        return links


class _Frame:
    """Something on its way: payload packet `number` of a flow, or the acknowledgement of those up to it, or control."""

    __slots__ = ("bytes", "flow", "hop", "is_answer", "number", "path")

    def __init__(self, flow: _Flow, number: int, size: int, *, is_answer: bool) -> None:
        self.flow, self.number, self.bytes, self.is_answer = flow, number, size, is_answer
        self.path = flow.back if is_answer else flow.path
        self.hop = 0


class _Flow:
    """What one member sends another: packets are numbered from 1 and sent in order."""

    __slots__ = (
        "acknowledged",
        "asked",
        "asked_ns",
        "back",
        "ends",
        "heard_ns",
        "messages",
        "odd_bytes",
        "path",
        "posted",
        "receiver",
        "requests",
        "sender",
        "sent",
        "unanswered",
    )

    def __init__(self, sender: int, receiver: int, path: Sequence[int], back: Sequence[int]) -> None:
        self.sender, self.receiver, self.path, self.back = sender, receiver, path, back
        self.posted = self.sent = self.acknowledged = 0
        self.asked, self.asked_ns, self.heard_ns = 0, 0.0, 0.0
        self.unanswered = 0  # packets at the receiver that it has not acknowledged
        self.requests: set[int] = set()  # packets on their way that ask for an acknowledgement
        self.messages: set[int] = set()  # last packets of messages
        self.ends: deque[tuple[int, int]] = deque()  # last packet of each transfer, and its lane
        self.odd_bytes: dict[int, int] = {}  # packets whose payload and extension headers are not a path MTU

    def post(self, lane: int, size: int, sending: Sending) -> None:
        """Queue a transfer as messages."""
        for left in range(size, 0, -sending.message_bytes):
            message = min(left, sending.message_bytes)
            first, packets = self.posted + 1, -(-message // sending.path_mtu)
            self.posted += packets
            last_bytes = message - (packets - 1) * sending.path_mtu + (IMMDT_BYTES if left == message else 0)
            self.odd_bytes[self.posted] = last_bytes
            self.odd_bytes[first] = self.odd_bytes.get(first, sending.path_mtu) + RETH_BYTES
            self.messages.add(self.posted)
        self.ends.append((self.posted, lane))


class _Queue:
    """A directed link and the frames that wait for it."""

    __slots__ = ("bytes", "flows", "frames", "is_busy")

    def __init__(self) -> None:
        self.frames: deque[_Frame] = deque()
        self.flows: deque[_Flow] = deque()  # at a host's port, those that may have a packet to send, in turn
        self.bytes, self.is_busy = 0, False


class _Lane:
    """A member's steps to come, and what its present one waits for."""

    __slots__ = ("ahead", "early", "missing", "steps")

    def __init__(self, steps: Iterator[Step]) -> None:
        self.steps = steps
        self.ahead: deque[Step] = deque()
        self.missing: Counter[int] = Counter()
        self.early: Counter[int] = Counter()


class _Group:
    """One group while it plays."""

    def __init__(
        self, operation: Operation, ranks: IntArray, fabric: _Fabric, sending: Sending, *, most_frames: int
    ) -> None:
        self._ranks, self._fabric, self._sending, self._most = ranks.tolist(), fabric, sending, most_frames
        self._asks_first = operation.kind.is_collective
        self._header = roce_packet_bytes(0, ipv6=sending.ipv6)
        self._ack_every = max(1, sending.window_packets // ACKS_PER_WINDOW)
        self._request_every = max(1, sending.window_packets // ACKS_PER_WINDOW)
        self._lanes = [[_Lane(iter(lane)) for lane in lanes_of(operation, one)] for one in range(operation.members)]
        self._welcome: list[set[int]] = [set() for _ in range(operation.members)]  # whom members have cleared
        self._cleared: list[set[int]] = [set() for _ in range(operation.members)]  # who has cleared them
        self._held: list[list[tuple[int, int, int]]] = [[] for _ in range(operation.members)]  # peer, lane, size
        self._flows: dict[tuple[int, int], _Flow] = {}
        self._queues: dict[int, _Queue] = {}
        self._events: list[tuple[float, int, int, _Frame]] = []  # time, order, link that is done or -1, frame
        self._order = 0
        self._now = 0.0
        self.walked = 0
        """Frames times links."""

    def run(self) -> float:
        """Time until every member has everything and every acknowledgement, ns."""
        for member, lanes in enumerate(self._lanes):
            for number in range(len(lanes)):
                self._advance(member, number)
        while self._events:
            self._now, _, link, frame = heappop(self._events)
            if link >= 0:
                self._leave(link, frame)
            elif frame.hop < len(frame.path):
                self._enter(frame)
            else:
                self._arrive(frame)
        if any(lane.missing.total() for lanes in self._lanes for lane in lanes) or any(self._held):
            raise _Unknown  # somebody waits for ever
        return self._now

    # Frames on links.

    def _schedule(self, at_ns: float, link: int, frame: _Frame) -> None:
        self._order += 1
        heappush(self._events, (at_ns, self._order, link, frame))

    def _enter(self, frame: _Frame) -> None:
        link = frame.path[frame.hop]
        queue = self._queue(link)
        queue.frames.append(frame)
        queue.bytes += frame.bytes
        depth = self._fabric.depth[link]
        if depth is not None and queue.bytes > depth:
            raise _Unknown
        if not queue.is_busy:
            self._serve(link, queue)

    def _queue(self, link: int) -> _Queue:
        if link not in self._queues:
            self._queues[link] = _Queue()
        return self._queues[link]

    def _serve(self, link: int, queue: _Queue) -> None:
        """Begin with the next frame: what is small and urgent, or has come this far, before new payload."""
        if queue.frames:
            frame = queue.frames.popleft()
            queue.bytes -= frame.bytes
        else:
            new = self._next_of(queue.flows)
            if new is None:
                queue.is_busy = False
                return
            frame = new
        queue.is_busy = True
        self.walked += 1
        if self.walked > self._most:
            raise _Unknown
        self._schedule(self._now + frame.bytes * self._fabric.byte_ns[link], link, frame)

    def _leave(self, link: int, frame: _Frame) -> None:
        self._serve(link, self._queues[link])
        frame.hop += 1
        latency_ns = self._fabric.latency_ns[link]
        if latency_ns:
            self._schedule(self._now + latency_ns, -1, frame)
        elif frame.hop < len(frame.path):
            self._enter(frame)
        else:
            self._arrive(frame)

    def _send(self, frame: _Frame) -> None:
        if frame.path:
            self._enter(frame)
        else:
            self._schedule(self._now, -1, frame)

    # Flows.

    def _flow(self, sender: int, receiver: int) -> _Flow:
        key = sender, receiver
        if key not in self._flows:
            there, here = self._ranks[sender], self._ranks[receiver]
            self._flows[key] = _Flow(sender, receiver, self._fabric.path(there, here), self._fabric.path(here, there))
        return self._flows[key]

    def _next_of(self, flows: deque[_Flow]) -> _Frame | None:
        while flows:
            flow = flows.popleft()
            if flow.sent < flow.posted and flow.sent - flow.acknowledged < self._sending.window_packets:
                flows.append(flow)
                return self._packet(flow)
        return None

    def _packet(self, flow: _Flow) -> _Frame:
        now = self._now
        if flow.sent == flow.acknowledged:
            flow.heard_ns = now
        flow.sent += 1
        number = flow.sent
        is_due = now - max(flow.asked_ns, flow.heard_ns) >= self._sending.timeout_ns / ACK_REQUESTS_PER_TIMEOUT
        if is_due or number in flow.messages or number - flow.asked >= self._request_every:
            flow.messages.discard(number)
            flow.requests.add(number)
            flow.asked, flow.asked_ns = number, now
        size = self._header + flow.odd_bytes.pop(number, self._sending.path_mtu)
        return _Frame(flow, number, size, is_answer=False)

    def _wake(self, flow: _Flow) -> None:
        """It may have a packet to send now."""
        if not flow.path:
            while (frame := self._next_of(deque([flow]))) is not None:
                self._send(frame)
            return
        queue = self._queue(flow.path[0])
        if flow not in queue.flows:
            queue.flows.append(flow)
        if not queue.is_busy:
            self._serve(flow.path[0], queue)

    def _arrive(self, frame: _Frame) -> None:
        flow, number = frame.flow, frame.number
        if frame.is_answer:
            if number:
                self._acknowledged(flow, number)
            return
        if not number:
            self._answer(flow, 0)
            self._is_cleared(flow.receiver, flow.sender)
            return
        flow.unanswered += 1
        if flow.unanswered >= self._ack_every or number in flow.requests:
            flow.unanswered = 0
            flow.requests.discard(number)
            self._answer(flow, number)
        if flow.ends and flow.ends[0][0] == number:
            self._complete(flow.receiver, flow.ends.popleft()[1], flow.sender)

    def _answer(self, flow: _Flow, number: int) -> None:
        self._send(_Frame(flow, number, self._header + AETH_BYTES, is_answer=True))

    def _acknowledged(self, flow: _Flow, number: int) -> None:
        if self._now - flow.heard_ns >= self._sending.timeout_ns:
            raise _Unknown
        flow.acknowledged, flow.heard_ns = number, self._now
        if flow.sent < flow.posted:
            self._wake(flow)

    # Steps.

    def _advance(self, member: int, number: int) -> None:
        """Begin steps until one has something to wait for."""
        lane = self._lanes[member][number]
        while not lane.missing:
            step = self._next_step(member, lane)
            if step is None:
                return
            for transfer in step.sends:
                if transfer.peer in self._cleared[member] or not self._asks_first:
                    self._post(member, transfer.peer, number, transfer.size)
                else:
                    self._held[member].append((transfer.peer, number, transfer.size))
            lane.missing = Counter(transfer.peer for transfer in step.recvs)
            here = lane.missing & lane.early
            lane.missing -= here
            lane.early -= here

    def _next_step(self, member: int, lane: _Lane) -> Step | None:
        while len(lane.ahead) < LOOKAHEAD_STEPS:
            step = next(lane.steps, None)
            if step is None:
                break
            lane.ahead.append(step)
            for transfer in step.recvs:
                self._clear(member, transfer.peer)
        return lane.ahead.popleft() if lane.ahead else None

    def _clear(self, member: int, peer: int) -> None:
        """Tell a peer, once, that it may send."""
        if self._asks_first and peer not in self._welcome[member]:
            self._welcome[member].add(peer)
            size = self._header + RETH_BYTES + IMMDT_BYTES
            self._send(_Frame(self._flow(member, peer), 0, size, is_answer=False))

    def _is_cleared(self, member: int, peer: int) -> None:
        self._cleared[member].add(peer)
        held, self._held[member] = self._held[member], []
        for one in held:
            if one[0] == peer:
                self._post(member, *one)
            else:
                self._held[member].append(one)

    def _post(self, member: int, peer: int, lane: int, size: int) -> None:
        flow = self._flow(member, peer)
        flow.post(lane, size, self._sending)
        self._wake(flow)

    def _complete(self, member: int, number: int, peer: int) -> None:
        lane = self._lanes[member][number]
        if not lane.missing[peer]:
            lane.early[peer] += 1
            return
        lane.missing -= Counter([peer])
        if not lane.missing:
            self._advance(member, number)
