"""A group of members that play their lanes against each other, in any order, while it is followed who holds what.

What a member holds of a byte is a set of contributions, as a bit mask: for reductions, whose inputs are summed up in it
(nobody twice); for copies, whether the right byte is there; for a barrier, who is known to have come. Bytes that all
transfers treat alike are one segment.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from emulator.planner.schedule import BARRIER_BYTES, Collective, Lane, Step, Transfer, block
from emulator.trace.meaning.model import CommKind

REDUCTIONS = frozenset({CommKind.ALL_REDUCE, CommKind.REDUCE, CommKind.REDUCE_SCATTER, CommKind.REDUCE_SCATTER_BLOCK})
HERE = 1
Range = tuple[int, int, int]
"""(begin, end, mask)."""
Packet = list[tuple[int, int, list[int]]]
"""Pieces: (offset, size, masks of its segments)."""


@dataclass(slots=True)
class Outcome:
    """What a simulated collective moved: bytes (sent, received) of each member."""

    moved: list[tuple[int, int]]


@dataclass(slots=True)
class _LanePlay:
    """A lane of one member in play."""

    steps: Sequence[Step]
    next_step: int = 0
    awaited: int = 0
    adds: bool = False
    expected: dict[int, deque[Transfer]] = field(default_factory=dict)
    early: dict[int, deque[Packet]] = field(default_factory=dict)


Views = Sequence[Collective]
Lanes = Sequence[Sequence[Sequence[Step]]]
"""By member, lane, step."""


def members_of(view: Collective) -> list[Collective]:
    """The same even collective seen from each member."""
    return [replace(view, member=member) for member in range(view.members)]


def uneven_all_to_all(matrix: Sequence[Sequence[int]]) -> list[Collective]:
    """An all-to-all of which member i sends matrix[i][j] bytes to member j, seen from each member."""
    columns = list(zip(*matrix, strict=True))
    return [
        Collective(
            CommKind.ALL_TO_ALL,
            members=len(matrix),
            member=member,
            size_bytes=sum(row),
            send_splits=tuple(row),
            recv_splits=columns[member],
        )
        for member, row in enumerate(matrix)
    ]


def unroll(algorithm: Callable[[Collective], Sequence[Lane]], views: Views) -> Lanes:
    """Every member's lanes as lists of steps."""
    return [[list(lane) for lane in algorithm(view)] for view in views]


def play(views: Views, lanes: Lanes, *, seed: int = 0) -> Outcome:
    """Run a collective to its end in an order drawn from `seed`; AssertionError where anything is not as promised."""
    assert len({len(own) for own in lanes}) == 1, "members disagree about the number of lanes"
    simulation = _Simulation(views, lanes)
    simulation.run(random.Random(seed))
    simulation.check_end()
    return Outcome(simulation.moved)


def rounds(lanes: Lanes) -> int:
    """How many rounds it takes where in each round every step that can start starts and every byte sent arrives."""
    plays = {(m, at): _LanePlay(steps) for m, own in enumerate(lanes) for at, steps in enumerate(own)}
    arrived: dict[tuple[int, int, int], int] = {}
    count = 0
    while True:
        posted: list[tuple[int, int, int]] = []
        for (member, at), lane in plays.items():
            while lane.next_step < len(lane.steps) and _drain(lane, arrived, member=member, at=at):
                step = lane.steps[lane.next_step]
                lane.next_step += 1
                posted += [(member, send.peer, at) for send in step.sends]
                lane.expected = {}
                for recv in step.recvs:
                    lane.expected.setdefault(recv.peer, deque()).append(recv)
        if not posted:
            return count
        count += 1
        for channel in posted:
            arrived[channel] = arrived.get(channel, 0) + 1


def _drain(lane: _LanePlay, arrived: dict[tuple[int, int, int], int], *, member: int, at: int) -> bool:
    """Take what has arrived for the step in hand; True when it is complete."""
    for peer, queue in lane.expected.items():
        while queue and arrived.get((peer, member, at), 0):
            queue.popleft()
            arrived[peer, member, at] -= 1
    return not any(lane.expected.values())


class _Simulation:
    def __init__(self, views: Views, lanes: Lanes) -> None:
        self.views, self.kind = views, views[0].kind
        self.members = len(views)
        self.row_starts = _row_starts(views)
        self.is_uneven = views[0].send_splits is not None
        self.moved = [(0, 0)] * self.members
        promised = [self._promise(view) for view in views]
        initial = [self._initial(view) for view in views]
        self.cuts = self._cuts(lanes, [*promised, *initial])
        self.index = {cut: at for at, cut in enumerate(self.cuts)}
        self.state = [self._masks(ranges) for ranges in initial]
        self.promised = [self._masks(ranges) for ranges in promised]
        self.plays = {(m, at): _LanePlay(steps) for m, own in enumerate(lanes) for at, steps in enumerate(own)}
        self.channels: dict[tuple[int, int, int], deque[Packet]] = {}
        self.actions: list[tuple[int, ...]] = [key for key, lane in self.plays.items() if lane.steps]

    def run(self, rng: random.Random) -> None:
        """Actions are (member, lane): start its next step, and (sender, receiver, lane): deliver its next packet."""
        actions = self.actions
        while actions:
            at = rng.randrange(len(actions))
            actions[at], actions[-1] = actions[-1], actions[at]
            action = actions.pop()
            if len(action) == 2:
                self._start(action[0], action[1])
            else:
                self._deliver(action[0], action[1], action[2])

    def check_end(self) -> None:
        for (member, at), lane in self.plays.items():
            waiting = [peer for peer, queue in lane.expected.items() if queue]
            assert not waiting, f"deadlock: member {member}, lane {at} waits for {waiting}"
            assert lane.next_step == len(lane.steps)
            assert not any(lane.early.values()), f"member {member}, lane {at}: something arrived that nobody expected"
        for member, (held, wanted) in enumerate(zip(self.state, self.promised, strict=True)):
            for at, (has, must) in enumerate(zip(held, wanted, strict=True)):
                missing = must and has != must
                assert not missing, f"member {member} ends with {has:b}, not {must:b}, from byte {self.cuts[at]} on"

    def _start(self, member: int, at: int) -> None:
        lane = self.plays[member, at]
        step = lane.steps[lane.next_step]
        lane.next_step += 1
        lane.adds = step.reduces
        for send in step.sends:
            self._send(member, at, send)
        lane.awaited = len(step.recvs)
        for recv in step.recvs:
            self._check(recv, member)
            lane.expected.setdefault(recv.peer, deque()).append(recv)
        for peer in {recv.peer for recv in step.recvs}:
            early = lane.early.get(peer)
            while early and lane.expected[peer]:
                self._apply(member, lane, peer, early.popleft())
        self._finish_step(member, at, lane)

    def _send(self, member: int, at: int, send: Transfer) -> None:
        self._check(send, member)
        packet = [self._piece(member, offset, size) for offset, size in self._pieces(send, member)]
        sent, received = self.moved[member]
        self.moved[member] = (sent + send.size, received)
        channel = self.channels.setdefault((member, send.peer, at), deque())
        channel.append(packet)
        self.actions.append((member, send.peer, at))

    def _piece(self, member: int, offset: int, size: int) -> tuple[int, int, list[int]]:
        masks = self.state[member][self.index[offset] : self.index[offset + size]]
        assert all(masks), f"member {member} sends bytes {offset} … that it does not have"
        return offset, size, masks

    def _pieces(self, transfer: Transfer, member: int) -> list[tuple[int, int]]:
        """(offset, size) of the pieces of a transfer in the buffer of all members."""
        base = self.row_starts[member] if self.is_uneven else 0
        if isinstance(transfer.offset, int):
            return [(base + transfer.offset, transfer.size)]
        found = list(transfer.offset)
        assert all(size for _, size in found), "an empty piece"
        assert sum(size for _, size in found) == transfer.size, "pieces that are not the transfer"
        return found

    def _deliver(self, sender: int, receiver: int, at: int) -> None:
        packet = self.channels[sender, receiver, at].popleft()
        lane = self.plays[receiver, at]
        if not lane.expected.get(sender):
            lane.early.setdefault(sender, deque()).append(packet)
            return
        self._apply(receiver, lane, sender, packet)
        self._finish_step(receiver, at, lane)

    def _apply(self, member: int, lane: _LanePlay, sender: int, packet: Packet) -> None:
        recv = lane.expected[sender].popleft()
        lane.awaited -= 1
        size = sum(size for _, size, _ in packet)
        assert recv.size == size, f"member {member} expects {recv.size} bytes from {sender}, gets {size}"
        places = [(offset, size) for offset, size, _ in packet]
        is_there = recv.offset == -1 if self.is_uneven else self._pieces(recv, member) == places
        assert is_there, f"member {member} puts bytes from {sender} elsewhere"
        sent, received = self.moved[member]
        self.moved[member] = (sent, received + size)
        for offset, _, masks in packet:
            self._store(member, self.index[offset], masks, adds=lane.adds)

    def _store(self, member: int, begin: int, masks: Sequence[int], *, adds: bool) -> None:
        state = self.state[member]
        for at, mask in enumerate(masks, begin):
            if self.kind is CommKind.BARRIER:
                state[at] |= mask
                continue
            if adds:
                assert not state[at] & mask, f"member {member} adds contributions {state[at] & mask:b} twice"
                mask |= state[at]
            state[at] = mask

    def _finish_step(self, member: int, at: int, lane: _LanePlay) -> None:
        if lane.awaited == 0 and lane.next_step < len(lane.steps):
            self.actions.append((member, at))

    def _check(self, transfer: Transfer, member: int) -> None:
        assert 0 <= transfer.peer < self.members, "nobody there"
        assert transfer.peer != member, "to itself"
        assert transfer.size > 0, "an empty transfer"

    def _masks(self, ranges: Sequence[Range]) -> list[int]:
        masks = [0] * (len(self.cuts) - 1)
        for begin, end, mask in ranges:
            for at in range(self.index[begin], self.index[end]):
                masks[at] = mask
        return masks

    def _cuts(self, lanes: Lanes, ranges: Sequence[Sequence[Range]]) -> list[int]:
        cuts = {0, self._total()} | {edge for own in ranges for begin, end, _ in own for edge in (begin, end)}
        for member, own in enumerate(lanes):
            for send in (send for steps in own for step in steps for send in step.sends):
                cuts |= {edge for offset, size in self._pieces(send, member) for edge in (offset, offset + size)}
        assert min(cuts) == 0, "a negative offset"
        assert max(cuts) == self._total(), "a transfer beyond the buffer"
        return sorted(cuts)

    def _total(self) -> int:
        size, n = self.views[0].size_bytes, self.members
        if self.kind is CommKind.BARRIER:
            return BARRIER_BYTES
        if self.kind is CommKind.ALL_TO_ALL:
            return self.row_starts[-1]
        return n * size if self.kind in (CommKind.ALL_GATHER, CommKind.GATHER) else size

    def _initial(self, view: Collective) -> list[Range]:
        total, member = self._total(), view.member
        if self.kind in REDUCTIONS or self.kind is CommKind.BARRIER:
            return [(0, total, 1 << member)]
        if self.kind in (CommKind.BROADCAST, CommKind.SCATTER):
            return [(0, total, HERE)] if member == view.root else []
        if self.kind is CommKind.ALL_TO_ALL:
            return [(self.row_starts[member], self.row_starts[member + 1], HERE)]
        return [(member * view.size_bytes, (member + 1) * view.size_bytes, HERE)]

    def _promise(self, view: Collective) -> list[Range]:
        """What the member must end with."""
        total, everybody = self._total(), (1 << self.members) - 1
        match self.kind:
            case CommKind.ALL_REDUCE | CommKind.BARRIER:
                return [(0, total, everybody)]
            case CommKind.REDUCE:
                return [(0, total, everybody)] if view.member == view.root else []
            case CommKind.REDUCE_SCATTER | CommKind.REDUCE_SCATTER_BLOCK:
                return [_own_block(view, everybody)]
            case CommKind.BROADCAST | CommKind.ALL_GATHER:
                return [(0, total, HERE)]
            case CommKind.GATHER:
                return [(0, total, HERE)] if view.member == view.root else []
            case CommKind.SCATTER:
                return [_own_block(view, HERE)]
            case _:
                return [self._block_for(sender, view.member) for sender in self.views]

    def _block_for(self, sender: Collective, receiver: int) -> Range:
        if sender.send_splits is None:
            offset, size = block(sender.size_bytes, self.members, receiver)
        else:
            offset, size = sum(sender.send_splits[:receiver]), sender.send_splits[receiver]
        begin = self.row_starts[sender.member] + offset
        return begin, begin + size, HERE


def _own_block(view: Collective, mask: int) -> Range:
    offset, size = block(view.size_bytes, view.members, view.member)
    return offset, offset + size, mask


def _row_starts(views: Views) -> list[int]:
    starts = [0]
    for view in views:
        starts.append(starts[-1] + view.size_bytes)
    return starts
