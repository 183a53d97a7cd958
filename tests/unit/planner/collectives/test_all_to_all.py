"""All-to-all, even and uneven, step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.algorithms import bytes_per_member, schedule
from emulator.planner.schedule import Step, Transfer, block
from emulator.trace.model import CommKind
from tests.support.collective_simulator import uneven_all_to_all
from tests.support.schedules import lanes_by_member, moved, steps_of, view

KIND = CommKind.ALL_TO_ALL


def test_pairwise_meets_one_peer_each_way_in_every_step() -> None:
    (lane,) = lanes_by_member("pairwise", KIND, 4, 8)[1]
    assert lane == [
        Step((Transfer(2, 8 + 4, 2),), (Transfer(0, 2, 2),)),
        Step((Transfer(3, 8 + 6, 2),), (Transfer(3, 24 + 2, 2),)),
        Step((Transfer(0, 8 + 0, 2),), (Transfer(2, 16 + 2, 2),)),
    ]


def test_parallel_does_the_same_in_one_step() -> None:
    for pairwise, parallel in zip(
        lanes_by_member("pairwise", KIND, 5, 50), lanes_by_member("parallel", KIND, 5, 50), strict=True
    ):
        ((step,),) = parallel
        assert step.sends == tuple(send for one in pairwise[0] for send in one.sends)
        assert step.recvs == tuple(recv for one in pairwise[0] for recv in one.recvs)


@pytest.mark.parametrize("name", ["pairwise", "parallel"])
@pytest.mark.parametrize("members", [2, 3, 8])
@pytest.mark.parametrize("size", [1, 7, 24])
def test_bytes_are_all_blocks_but_the_own_one(name: str, members: int, size: int) -> None:
    for member, lanes in enumerate(lanes_by_member(name, KIND, members, size)):
        own = block(size, members, member)[1]
        assert moved(lanes) == (size - own, (members - 1) * own)
        assert bytes_per_member(name, view(KIND, members, member, size)) == moved(lanes)


@pytest.mark.parametrize("name", ["pairwise", "parallel"])
@given(st.integers(2, 6), st.data())
def test_uneven_bytes_are_the_sums_of_the_splits_without_the_own(name: str, members: int, data: st.DataObject) -> None:
    row = st.lists(st.integers(0, 9), min_size=members, max_size=members)
    matrix = data.draw(st.lists(row, min_size=members, max_size=members))
    for member, uneven in enumerate(uneven_all_to_all(matrix)):
        lanes = [steps_of(lane) for lane in schedule(name, uneven)]
        sent = sum(matrix[member]) - matrix[member][member]
        received = sum(line[member] for line in matrix) - matrix[member][member]
        assert moved(lanes) == bytes_per_member(name, uneven) == (sent, received)


def test_uneven_offsets_count_from_the_own_row_and_are_unknown_for_receives() -> None:
    first = uneven_all_to_all([[1, 2, 3], [4, 5, 6], [7, 8, 9]])[0]
    (lane,) = schedule("pairwise", first)
    assert steps_of(lane) == [
        Step((Transfer(1, 1, 2),), (Transfer(2, -1, 7),)),
        Step((Transfer(2, 3, 3),), (Transfer(1, -1, 4),)),
    ]
