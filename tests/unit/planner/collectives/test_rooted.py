"""Closed forms of broadcast and reduce: every root, bytes per member, and reduce as the reverse of broadcast."""

import pytest

from emulator.planner.collectives.patterns import CHUNK_BYTES, binomial, binomial_subtree
from emulator.trace.meaning.model import CommKind
from tests.support.schedules import bytes_per_member, covered, lanes_by_member, moved, view

BROADCAST, REDUCE = CommKind.BROADCAST, CommKind.REDUCE
GROUPS = [(2, 0), (2, 1), (3, 2), (5, 0), (8, 3)]


@pytest.mark.parametrize(("members", "root"), GROUPS)
def test_bytes_by_algorithm(members: int, root: int) -> None:
    for member in range(members):
        position = (member - root) % members
        received = 0 if position == 0 else 100
        children = len(binomial(members, member, root).children)
        sent = {"tree": children * 100, "ring": 100 * (position < members - 1)}
        sent["parallel"] = (members - 1) * 100 if position == 0 else 0
        for name, size in sent.items():
            assert bytes_per_member(name, view(BROADCAST, members, member, 100, root)) == (size, received)


@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_a_ring_is_pipelined_in_chunks(chunks: int) -> None:
    first, middle, last = lanes_by_member("ring", BROADCAST, 3, chunks * CHUNK_BYTES)
    assert [len(lane) for (lane,) in (first, middle, last)] == [chunks, chunks + 1, chunks]
    assert all(send.size == CHUNK_BYTES for step in first[0] for send in step.sends)


def test_trees_and_parallel_send_the_array_at_once() -> None:
    for name in ("tree", "parallel"):
        for lanes in lanes_by_member(name, BROADCAST, 4, 5 * CHUNK_BYTES):
            sizes = {transfer.size for step in lanes[0] for transfer in (*step.sends, *step.recvs)}
            assert sizes == {5 * CHUNK_BYTES}


GATHER, SCATTER = CommKind.GATHER, CommKind.SCATTER
ALGORITHMS = ["tree", "parallel"]
GATHER_SCATTER_GROUPS = [(2, 0), (2, 1), (3, 1), (5, 4), (8, 0), (8, 5)]


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(("members", "root"), GATHER_SCATTER_GROUPS)
def test_the_root_of_a_gather_receives_every_other_shard_once(name: str, members: int, root: int) -> None:
    shard = 10
    lanes = lanes_by_member(name, GATHER, members, shard, root)[root]
    received = covered([(recv.offset, recv.size) for lane in lanes for step in lane for recv in step.recvs])
    assert received == set(range(members * shard)) - set(range(root * shard, (root + 1) * shard))
    assert moved(lanes) == (0, (members - 1) * shard)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(("members", "root"), GATHER_SCATTER_GROUPS)
def test_scatter_moves_what_gather_moves_in_the_other_direction(name: str, members: int, root: int) -> None:
    shard = 9
    gathers = lanes_by_member(name, GATHER, members, shard, root)
    scatters = lanes_by_member(name, SCATTER, members, members * shard, root)
    assert [moved(lanes)[::-1] for lanes in gathers] == [moved(lanes) for lanes in scatters]


@pytest.mark.parametrize(("members", "root"), GATHER_SCATTER_GROUPS)
def test_a_tree_forwards_its_subtree(members: int, root: int) -> None:
    for member in range(members):
        size = binomial_subtree(members, member, root)
        sent = 0 if member == root else size * 4
        assert bytes_per_member("tree", view(GATHER, members, member, 4, root)) == (sent, (size - 1) * 4)
