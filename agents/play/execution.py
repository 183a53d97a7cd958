"""One collective on one rank, from post to done: plays the algorithm's lanes over an endpoint.

No IO and no clock: the player passes in arrivals, credits and acknowledgements and then checks whether it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from agents.play.chain import RankChain
from agents.play.tags import MAX_LANES, credit_tag, data_tag
from emulator.errors import LocalProtocolError
from emulator.planner.schedule import Lane, Step, Transfer
from emulator.roce.connection.messages import FirstSent
from emulator.roce.constants import LOOKAHEAD_STEPS


class Poster(Protocol):
    """What an execution needs of an endpoint."""

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """See Endpoint."""
        ...


class StepObserver(Protocol):
    """What learns when a step begins."""

    def step_begins(self, lane: int, step: int, sends: Sequence[Transfer], ranks: Sequence[int]) -> None:
        """Step number `step` of a lane posts `sends` next; `ranks`: world ranks by member number."""
        ...


class _LaneState:
    """Progress of one lane.

    Attributes:
        number, begun: of the lane, and how many of its steps have begun.
        ahead: steps whose credits are granted and which have not begun.
        early: peer → transfers that arrived before the step that receives them.
        missing: peer → transfers that the present step still waits for.
        waiting: how many those are.
        expected_bytes: payload of the receives of all steps begun so far.
    """

    __slots__ = ("ahead", "begun", "early", "expected_bytes", "missing", "number", "steps", "tag", "waiting")

    def __init__(self, number: int, tag: int, steps: Lane) -> None:
        self.number, self.begun, self.tag = number, 0, tag
        self.steps: Iterator[Step] = steps
        self.ahead: deque[Step] = deque()
        self.early: dict[int, int] = {}
        self.missing: dict[int, int] = {}
        self.waiting = 0
        self.expected_bytes = 0


class Execution:
    """Plays the lanes of one member.

    Args:
        endpoint: takes the transfers.
        lanes: of the member.
        serial: number of this collective in the run (see tags).
        ranks: world ranks of the group, by member number.
        credited: peers (world ranks) whose credit arrived before this post; None: credits are off.
        chain: notes what was sent, received and why; None: nobody asks.
        observer: learns of steps.

    Attributes:
        bytes_sent, bytes_received: payload so far.
        arrival_ns: when the last payload arrived; 0: none yet.
        early: set by the owner if payload arrived before the post.
        is_done: every lane is finished and every send is acknowledged.
        has_posted: a transfer was posted to the endpoint; the owner resets it when it flushes.
    """

    __slots__ = (
        "_chain",
        "_credited",
        "_deferred",
        "_endpoint",
        "_granted",
        "_lanes",
        "_observer",
        "_open_lanes",
        "_ranks",
        "_serial",
        "_unacknowledged",
        "arrival_ns",
        "bytes_received",
        "bytes_sent",
        "early",
        "has_posted",
        "is_done",
    )

    def __init__(
        self,
        endpoint: Poster,
        lanes: Sequence[Lane],
        *,
        serial: int,
        ranks: Sequence[int],
        credited: set[int] | None,
        chain: RankChain | None = None,
        observer: StepObserver | None = None,
    ) -> None:
        self._chain = chain
        if len(lanes) > MAX_LANES:
            raise LocalProtocolError(f"an algorithm has {len(lanes)} lanes, at most {MAX_LANES} fit a tag")
        self._endpoint, self._serial, self._ranks, self._credited = endpoint, serial, ranks, credited
        self._lanes = [_LaneState(number, data_tag(serial, number), lane) for number, lane in enumerate(lanes)]
        self._open_lanes, self._observer = len(lanes), observer
        self._unacknowledged = 0
        self._deferred: dict[int, list[tuple[int, int, FirstSent | None]]] = {}
        self._granted: set[int] = set()
        self.bytes_sent = 0
        self.bytes_received = 0
        self.arrival_ns = 0
        self.early = False
        self.has_posted = False
        self.is_done = not lanes

    def start(self) -> None:
        """Begin all lanes."""
        for lane in self._lanes:
            self._advance(lane)

    def arrived(self, peer: int, lane_number: int, size: int, now: int, count: int = 1, received_ns: int = 0) -> None:
        """`count` transfers of `size` bytes from rank `peer` have arrived; the kernel has the last byte since a time.

        Raises:
            LocalProtocolError: the algorithm has no such lane.
        """
        if lane_number >= len(self._lanes):
            raise LocalProtocolError(f"rank {peer} sent on lane {lane_number} of an algorithm with {len(self._lanes)}")
        self.bytes_received += size * count
        self.arrival_ns = now
        if self._chain is not None:
            self._chain.received(peer, lane_number, received_ns, count)
        lane = self._lanes[lane_number]
        missing = lane.missing.get(peer)
        if not missing:
            lane.early[peer] = lane.early.get(peer, 0) + count
            return
        if count > 1:  # the others complete further receives of this step, or belong to later steps
            more = min(missing, count) - 1
            lane.early[peer] = lane.early.get(peer, 0) + count - 1 - more
            lane.waiting -= more
            missing -= more
        lane.missing[peer] = missing - 1
        lane.waiting -= 1
        if not lane.waiting:
            self._advance(lane)

    def credit(self, peer: int) -> None:
        """Rank `peer` has posted: post the sends that were deferred until then."""
        if self._credited is None:
            return
        self._credited.add(peer)
        for tag, size, sent in self._deferred.pop(peer, ()):
            self.has_posted = True
            self._endpoint.post(peer, tag, size, sent)

    def acknowledged(self) -> None:
        """The receiver has acknowledged one of this rank's transfers."""
        self._unacknowledged -= 1
        if not self._unacknowledged and not self._open_lanes:
            self.is_done = True

    def waiting_on(self) -> str:
        """What the collective is waiting on, for messages."""
        silent = sorted({peer for lane in self._lanes for peer, count in lane.missing.items() if count})
        if silent:
            return f"payload from ranks {', '.join(map(str, silent[:8]))}"
        if self._deferred:
            return f"ranks {', '.join(map(str, sorted(self._deferred)[:8]))} to post it too"
        return f"{self._unacknowledged} acknowledgements"

    def _advance(self, lane: _LaneState) -> None:
        ranks, missing, early, chain = self._ranks, lane.missing, lane.early, self._chain
        while not lane.waiting:
            step = next(lane.steps, None) if self._credited is None else self._next_step(lane)
            if step is None:
                self._end_lane()
                return
            if chain is not None:
                chain.begin(lane.number, [ranks[member] for member, _, _ in step.recvs])
            if self._observer is not None:
                self._observer.step_begins(lane.number, lane.begun, step.sends, ranks)
            lane.begun += 1
            if step.sends:
                self._send(step.sends, lane)
            for member, _, size in step.recvs:  # has arrived early, or is still missing
                peer = ranks[member]
                lane.expected_bytes += size
                arrived = early.get(peer)
                if arrived:
                    early[peer] = arrived - 1
                else:
                    missing[peer] = missing.get(peer, 0) + 1
                    lane.waiting += 1

    def _next_step(self, lane: _LaneState) -> Step | None:
        ahead = lane.ahead
        while len(ahead) < LOOKAHEAD_STEPS:
            step = next(lane.steps, None)
            if step is None:
                break
            ahead.append(step)
            for member, _, _ in step.recvs:
                if member not in self._granted:
                    self._granted.add(member)
                    self.has_posted = True
                    self._endpoint.post(self._ranks[member], credit_tag(self._serial), 0)
        return ahead.popleft() if ahead else None

    def _send(self, transfers: Sequence[Transfer], lane: _LaneState) -> None:
        credited, ranks, post, tag, chain = self._credited, self._ranks, self._endpoint.post, lane.tag, self._chain
        self._unacknowledged += len(transfers)
        for member, _, size in transfers:
            peer = ranks[member]
            self.bytes_sent += size
            sent = None if chain is None else chain.sends(peer, lane.number)
            if credited is None or peer in credited:
                self.has_posted = True
                post(peer, tag, size, sent)
            else:
                self._deferred.setdefault(peer, []).append((tag, size, sent))

    def _end_lane(self) -> None:
        self._open_lanes -= 1
        self._check_sizes()
        if not self._unacknowledged and not self._open_lanes:
            self.is_done = True

    def _check_sizes(self) -> None:
        if self._open_lanes:
            return
        expected = sum(lane.expected_bytes for lane in self._lanes)
        if expected != self.bytes_received:
            raise LocalProtocolError(
                f"a collective of {len(self._ranks)} ranks received {self.bytes_received} bytes instead of {expected}"
            )
