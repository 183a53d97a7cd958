"""Ring steps: what is passed on, in which order, and when blocks are sliced."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.patterns import (
    CHUNK_BYTES,
    MOST_CHUNKS,
    SLICE_BYTES,
    SLICES,
    TreePlace,
    binomial,
    binomial_subtree,
    chain,
    circulant_gather,
    circulant_scatter,
    direct_gather,
    direct_scatter,
    doubling,
    flow_down,
    flow_up,
    halving,
    in_chunks,
    in_order,
    in_slices,
    powers_below,
    ring_pass,
    star,
)
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


def test_direct_empty_blocks_are_not_transferred() -> None:
    assert steps_of(direct_scatter(Blocks(1, 3), member=0)) == [Step((), (Transfer(1, 0, 1), Transfer(2, 0, 1)), True)]
    assert steps_of(direct_scatter(Blocks(1, 3), member=2)) == [Step((Transfer(0, 0, 1),), (), True)]


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


Tree = Callable[[int, int, int], TreePlace]


def subtree(places: list[TreePlace], member: int) -> set[int]:
    return {member}.union(*(subtree(places, child) for child in places[member].children))


def height(places: list[TreePlace], member: int) -> int:
    return max((1 + height(places, child) for child in places[member].children), default=0)


def check_is_a_tree(places: list[TreePlace], root: int) -> None:
    assert places[root].parent is None
    assert subtree(places, root) == set(range(len(places)))
    for member, place in enumerate(places):
        assert all(places[child].parent == member for child in place.children)
        assert (place.parent is None) == (member == root)


@pytest.mark.parametrize("tree", [binomial, chain, star])
@given(st.integers(1, 40), st.data())
def test_every_shape_is_a_tree_with_its_root(tree: Tree, members: int, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, members - 1))
    check_is_a_tree([tree(members, member, root) for member in range(members)], root)


def test_a_binomial_tree_of_eight() -> None:
    places = [binomial(8, member, 0) for member in range(8)]
    assert [place.parent for place in places] == [None, 0, 0, 2, 0, 4, 4, 6]
    assert places[0].children == [4, 2, 1]
    assert places[4].children == [6, 5]


@given(st.integers(1, 60), st.data())
def test_a_binomial_tree_is_logarithmic_and_its_subtrees_are_consecutive(members: int, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, members - 1))
    places = [binomial(members, member, root) for member in range(members)]
    assert height(places, root) == members.bit_length() - 1
    for member in range(members):
        size = binomial_subtree(members, member, root)
        assert subtree(places, member) == {(member + step) % members for step in range(size)}


def test_a_chain_starts_at_the_root_and_wraps_around() -> None:
    places = [chain(4, member, 2) for member in range(4)]
    assert [place.parent for place in places] == [3, 0, None, 2]
    assert [list(place.children) for place in places] == [[1], [], [3], [0]]


def test_the_root_of_a_star_serves_its_successors_first() -> None:
    assert star(5, 3, 3) == TreePlace(None, [4, 0, 1, 2])
    assert star(5, 0, 3) == TreePlace(3, ())


@given(st.integers(1, 80))
def test_an_in_order_tree_is_binary_of_least_height_and_sorted(members: int) -> None:
    places = [in_order(members, member) for member in range(members)]
    (root,) = (member for member, place in enumerate(places) if place.parent is None)
    check_is_a_tree(places, root)
    assert height(places, root) <= members.bit_length()
    for member, place in enumerate(places):
        assert len(place.children) <= 2
        assert not place.children or member % 2 == 1
        left = [child for child in place.children if child < member]
        assert len(left) <= 1
        assert all(below < member for child in left for below in subtree(places, child))


ROOT, MIDDLE, LEAF = TreePlace(None, [1, 2]), TreePlace(7, [8]), TreePlace(7, ())


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
