"""Recursive halving and doubling, and their circulant form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.halving_doubling import (
    circulant_gather,
    circulant_scatter,
    doubling,
    halving,
    powers_below,
)
from emulator.planner.schedule import Step, Transfer
from tests.support.schedules import steps_of


@pytest.mark.parametrize(
    ("members", "powers"), [(1, []), (2, [1]), (3, [1, 2]), (4, [1, 2]), (5, [1, 2, 4]), (9, [1, 2, 4, 8])]
)
def test_powers_below(members: int, powers: list[int]) -> None:
    assert powers_below(members) == powers


def test_halving_exchanges_half_of_what_is_held() -> None:
    assert steps_of(halving(Blocks(8, 4), position=2, distances=[2, 1], peer_of=lambda position: position + 10)) == [
        Step((Transfer(10, 0, 4),), (Transfer(10, 4, 4),), True),
        Step((Transfer(13, 6, 2),), (Transfer(13, 4, 2),), True),
    ]


@given(st.integers(0, 5), st.integers(0, 200), st.data())
def test_doubling_reverses_halving(log: int, size: int, data: st.DataObject) -> None:
    members = 1 << log
    distances = data.draw(st.permutations(powers_below(members)))
    position = data.draw(st.integers(0, members - 1))
    blocks = Blocks(size, members)
    halved = steps_of(halving(blocks, position=position, distances=distances, peer_of=int))
    doubled = steps_of(doubling(blocks, position=position, distances=distances, peer_of=int))
    assert doubled == [Step(step.recvs, step.sends, False) for step in reversed(halved)]


@given(st.integers(1, 20), st.integers(0, 200), st.data())
def test_the_circulant_scatter_reverses_the_gather(members: int, size: int, data: st.DataObject) -> None:
    member = data.draw(st.integers(0, members - 1))
    blocks = Blocks(size, members)
    gather = steps_of(circulant_gather(blocks, member=member))
    scatter = steps_of(circulant_scatter(blocks, member=member))
    assert scatter == [Step(step.recvs, step.sends, True) for step in reversed(gather)]
