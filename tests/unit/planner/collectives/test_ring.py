"""Ring steps: what is passed on, in which order, and when blocks are sliced."""

from __future__ import annotations

from itertools import pairwise

import pytest

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.ring import SLICE_BYTES, SLICES, in_slices, ring_pass
from emulator.planner.schedule import Step, Transfer
from tests.support.schedules import steps_of


def test_a_member_passes_on_what_it_received_in_the_previous_step() -> None:
    steps = steps_of(ring_pass(Blocks(40, 4), first=1, to=2, source=0, reduces=True))
    assert steps == [
        Step((Transfer(2, 10, 10),), (Transfer(0, 0, 10),), True),
        Step((Transfer(2, 0, 10),), (Transfer(0, 30, 10),), True),
        Step((Transfer(2, 30, 10),), (Transfer(0, 20, 10),), True),
    ]
    for earlier, later in pairwise(steps):
        assert [(t.offset, t.size) for t in earlier.recvs] == [(t.offset, t.size) for t in later.sends]


def test_empty_blocks_are_not_transferred() -> None:
    steps = steps_of(ring_pass(Blocks(2, 4), first=3, to=1, source=2, reduces=False))
    assert steps == [
        Step((), (), False),
        Step((), (Transfer(2, 1, 1),), False),
        Step((Transfer(1, 1, 1),), (Transfer(2, 0, 1),), False),
    ]


@pytest.mark.parametrize(
    ("members", "block_bytes", "slices"),
    [
        (3, SLICES * SLICE_BYTES, SLICES),
        (3, SLICES * SLICE_BYTES - 1, 1),
        (2, 8 * SLICE_BYTES, 1),
        (1, 8 * SLICE_BYTES, 1),
    ],
)
def test_large_blocks_of_three_or_more_members_are_sliced(members: int, block_bytes: int, slices: int) -> None:
    assert len(in_slices(Blocks(members * block_bytes, members))) == slices


def test_the_smallest_block_decides_about_slices() -> None:
    assert len(in_slices(Blocks(3 * SLICES * SLICE_BYTES - 1, 3))) == 1
