"""Cutting an array into blocks and slices."""

from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.collectives.blocks import Blocks, array_of, shards_of, transfer, transfers
from emulator.planner.schedule import Transfer, block
from emulator.trace.meaning.model import CommKind
from tests.support.schedules import covered, view

SIZES, PARTS = st.integers(0, 300), st.integers(1, 20)


def test_the_first_blocks_are_one_byte_longer() -> None:
    blocks = Blocks(11, 4, start=100)
    assert [blocks.locate(index) for index in range(4)] == [(100, 3), (103, 3), (106, 3), (109, 2)]
    assert [blocks.size(index) for index in (-1, 0, 3, 4, 7)] == [2, 3, 2, 3, 2]


@given(SIZES, PARTS)
def test_blocks_are_those_of_the_schedule_and_cover_the_array(size: int, parts: int) -> None:
    blocks = Blocks(size, parts)
    located = [blocks.locate(index) for index in range(parts)]
    assert located == [block(size, parts, index) for index in range(parts)]
    assert [length for _, length in located] == [blocks.size(index) for index in range(parts)]
    assert covered(located) == set(range(size))
    assert max(length for _, length in located) - min(length for _, length in located) <= 1


@given(SIZES, PARTS, st.data())
def test_a_span_is_its_blocks(size: int, parts: int, data: st.DataObject) -> None:
    blocks = Blocks(size, parts, start=7)
    first = data.draw(st.integers(0, parts))
    count = data.draw(st.integers(0, parts - first))
    inside = covered([blocks.locate(index) for index in range(first, first + count)])
    assert covered([blocks.span(first, count)]) == inside


@given(SIZES, PARTS, st.data())
def test_an_arc_wraps_around(size: int, parts: int, data: st.DataObject) -> None:
    blocks = Blocks(size, parts)
    first, count = data.draw(st.integers(0, parts - 1)), data.draw(st.integers(0, parts))
    inside = covered([blocks.locate(index % parts) for index in range(first, first + count)])
    arc = blocks.arc(first, count)
    assert covered(arc) == inside
    assert len(arc) == (1 if first + count <= parts else 2)


@given(SIZES, PARTS, st.integers(1, 4))
def test_slices_of_a_block_cover_it(size: int, parts: int, slices: int) -> None:
    blocks = Blocks(size, parts, start=3)
    for index in range(parts):
        pieces = [blocks.cut(slices, number).locate(index) for number in range(slices)]
        assert covered(pieces) == covered([blocks.locate(index)])
    assert blocks.cut(slices, 0).parts == parts


def test_an_array_has_a_block_per_member_and_shards_add_up() -> None:
    reduce_scatter, all_gather = (view(kind, 3, 0, 10) for kind in (CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER))
    assert [array_of(reduce_scatter).size(index) for index in range(3)] == [4, 3, 3]
    assert [shards_of(all_gather).locate(index) for index in range(3)] == [(0, 10), (10, 10), (20, 10)]


def test_empty_transfers_are_left_out() -> None:
    assert transfer(5, (8, 2)) == (Transfer(5, 8, 2),)
    assert transfer(5, (8, 0)) == ()
    assert transfers(5, [(8, 2), (10, 0), (0, 1)]) == (Transfer(5, 8, 2), Transfer(5, 0, 1))
