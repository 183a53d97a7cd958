"""A lane of a member: what its current step waits for, whatever the order of arrivals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.network.lane_progress import LaneProgress, lanes_of
from emulator.planner.traffic.operation import Operation
from emulator.trace.meaning.model import CommKind

ONE = np.ones(1, np.int64)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.randoms())
def test_a_step_is_complete_when_every_transfer_has_arrived_early_or_not(peers: list[int], random: object) -> None:
    lane, arrivals = LaneProgress(iter(())), list(peers)
    random.shuffle(arrivals)  # type: ignore[attr-defined]
    early = len(arrivals) // 2
    assert not any(lane.receive(peer) for peer in arrivals[:early])
    assert lane.await_transfers(peers) is (early < len(peers))
    completed = [lane.receive(peer) for peer in arrivals[early:]]
    assert completed == [False] * (len(completed) - 1) + [True] * bool(completed)
    assert not lane.is_waiting


def test_a_transfer_of_the_next_step_does_not_complete_this_one() -> None:
    lane = LaneProgress(iter(()))
    assert lane.await_transfers([1])
    assert not lane.receive(2)
    assert lane.receive(1)
    assert not lane.await_transfers([2])


def test_a_send_has_a_lane_at_either_end_and_none_of_no_bytes() -> None:
    pair = Operation("", CommKind.SEND, "", 100, np.array([[4, 7]]), ONE)
    ((sent,), (received,)) = (list(lanes_of(pair, member)[0]) for member in (0, 1))
    assert [(one.peer, one.size) for one in sent.sends] == [(1, 100)]
    assert [(one.peer, one.size) for one in received.recvs] == [(0, 100)]
    empty = Operation("", CommKind.SEND, "", 0, np.array([[4, 7]]), ONE)
    assert all(not step.sends and not step.recvs for member in (0, 1) for step in lanes_of(empty, member)[0])


@pytest.mark.parametrize("members", [2, 5])
def test_the_lanes_of_a_collective_are_those_of_its_schedule(members: int) -> None:
    ring = Operation("", CommKind.ALL_GATHER, "ring", 1000, np.arange(members).reshape(1, -1), ONE)
    (lane,) = lanes_of(ring, 1)
    steps = list(lane)
    assert len(steps) == members - 1
    assert {one.peer for step in steps for one in step.sends} == {2 % members}
