"""The direct exchange, step by step."""

from __future__ import annotations

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.direct import direct_gather, direct_scatter
from emulator.planner.schedule import Step, Transfer
from tests.support.schedules import steps_of


def test_a_gather_sends_the_own_block_and_receives_all_others() -> None:
    assert steps_of(direct_gather(Blocks(9, 3), member=1)) == [
        Step((Transfer(2, 3, 3), Transfer(0, 3, 3)), (Transfer(2, 6, 3), Transfer(0, 0, 3)), False)
    ]


def test_a_scatter_is_the_reverse_and_reduces() -> None:
    (gather,) = steps_of(direct_gather(Blocks(10, 4), member=2))
    (scatter,) = steps_of(direct_scatter(Blocks(10, 4), member=2))
    assert scatter == Step(gather.recvs, gather.sends, True)


def test_every_member_starts_with_its_successor() -> None:
    first = [steps_of(direct_gather(Blocks(8, 4), member=member))[0].sends[0].peer for member in range(4)]
    assert first == [1, 2, 3, 0]


def test_empty_blocks_are_not_transferred() -> None:
    assert steps_of(direct_scatter(Blocks(1, 3), member=0)) == [Step((), (Transfer(1, 0, 1), Transfer(2, 0, 1)), True)]
    assert steps_of(direct_scatter(Blocks(1, 3), member=2)) == [Step((Transfer(0, 0, 1),), (), True)]
