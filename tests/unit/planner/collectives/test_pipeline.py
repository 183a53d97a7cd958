"""Chunks that flow along a tree."""

from __future__ import annotations

import pytest

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.pipeline import CHUNK_BYTES, MOST_CHUNKS, flow_down, flow_up, in_chunks
from emulator.planner.collectives.trees import Place
from emulator.planner.schedule import Step, Transfer
from tests.support.schedules import steps_of

ROOT, MIDDLE, LEAF = Place(None, [1, 2]), Place(7, [8]), Place(7, ())


@pytest.mark.parametrize(
    ("size_bytes", "chunks"),
    [
        (1, 1),
        (CHUNK_BYTES, 1),
        (CHUNK_BYTES + 1, 2),
        (MOST_CHUNKS * CHUNK_BYTES, MOST_CHUNKS),
        (MOST_CHUNKS * CHUNK_BYTES + 1, MOST_CHUNKS),
        (1 << 40, MOST_CHUNKS),
    ],
)
def test_number_of_chunks(size_bytes: int, chunks: int) -> None:
    assert in_chunks(size_bytes).parts == chunks


def test_chunks_start_where_they_are_told() -> None:
    assert in_chunks(10, start=90).locate(0) == (90, 10)


def test_an_inner_member_receives_a_chunk_while_it_sends_the_previous_one() -> None:
    assert steps_of(flow_down(MIDDLE, Blocks(6, 3))) == [
        Step((), (Transfer(7, 0, 2),)),
        Step((Transfer(8, 0, 2),), (Transfer(7, 2, 2),)),
        Step((Transfer(8, 2, 2),), (Transfer(7, 4, 2),)),
        Step((Transfer(8, 4, 2),)),
    ]
    assert steps_of(flow_up(MIDDLE, Blocks(4, 2))) == [
        Step((), (Transfer(8, 0, 2),), True),
        Step((Transfer(7, 0, 2),), (Transfer(8, 2, 2),), True),
        Step((Transfer(7, 2, 2),)),
    ]


def test_the_root_only_sends_down_and_only_receives_up() -> None:
    assert steps_of(flow_down(ROOT, Blocks(4, 2))) == [
        Step((Transfer(1, 0, 2), Transfer(2, 0, 2))),
        Step((Transfer(1, 2, 2), Transfer(2, 2, 2))),
    ]
    assert steps_of(flow_up(ROOT, Blocks(4, 2))) == [
        Step((), (Transfer(1, 0, 2), Transfer(2, 0, 2)), True),
        Step((), (Transfer(1, 2, 2), Transfer(2, 2, 2)), True),
    ]


def test_a_leaf_only_receives_down_and_only_sends_up() -> None:
    assert steps_of(flow_down(LEAF, Blocks(4, 2))) == [Step((), (Transfer(7, 0, 2),)), Step((), (Transfer(7, 2, 2),))]
    assert steps_of(flow_up(LEAF, Blocks(4, 2))) == [Step((Transfer(7, 0, 2),)), Step((Transfer(7, 2, 2),))]
