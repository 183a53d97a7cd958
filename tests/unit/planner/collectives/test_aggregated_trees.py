"""PAT: how far what goes."""

from __future__ import annotations

import pytest

from emulator.planner.collectives.aggregated_trees import (
    aggregate_bytes,
    all_gather_trees,
    carried,
    reduce_scatter_trees,
)
from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.halving_doubling import powers_below
from emulator.planner.schedule import Collective
from emulator.trace.meaning.model import CommKind


@pytest.mark.parametrize(
    ("members", "blocks"),
    [(8, [(4, 1), (2, 2), (1, 4)]), (6, [(4, 1), (2, 1), (1, 3)]), (2, [(1, 1)]), (7, [(4, 1), (2, 2), (1, 3)])],
)
def test_little_goes_far_and_most_to_the_neighbour(members: int, blocks: list[tuple[int, int]]) -> None:
    (gather,) = all_gather_trees(Collective(CommKind.ALL_GATHER, members, 0, 10))
    assert [(send.peer, send.size // 10) for step in gather for send in step.sends] == blocks
    (scatter,) = reduce_scatter_trees(Collective(CommKind.REDUCE_SCATTER, members, 0, 10 * members))
    back = [(members - send.peer, send.size // 10) for step in scatter for send in step.sends]
    assert back == blocks[::-1]


@pytest.mark.parametrize("members", [2, 5, 8, 13])
def test_bytes_of_an_aggregate_are_those_of_its_blocks(members: int) -> None:
    for longer in range(members):
        blocks = Blocks(3 * members + longer, members)
        for distance in powers_below(members):
            for last in range(members):
                behind = carried(blocks, distance)
                assert aggregate_bytes(blocks, last, behind) == sum(blocks.size(last - each) for each in behind)
