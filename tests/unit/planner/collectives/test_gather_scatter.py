"""Closed forms of gather and scatter: every root, bytes per member, and scatter as the reverse of gather."""

from __future__ import annotations

import pytest

from emulator.planner.collectives.trees import binomial_subtree
from emulator.trace.meaning.model import CommKind
from tests.support.schedules import bytes_per_member, covered, lanes_by_member, moved, view

GATHER, SCATTER = CommKind.GATHER, CommKind.SCATTER
ALGORITHMS = ["tree", "parallel"]
GROUPS = [(2, 0), (2, 1), (3, 1), (5, 4), (8, 0), (8, 5)]


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(("members", "root"), GROUPS)
def test_the_root_of_a_gather_receives_every_other_shard_once(name: str, members: int, root: int) -> None:
    shard = 10
    lanes = lanes_by_member(name, GATHER, members, shard, root)[root]
    received = covered([(recv.offset, recv.size) for lane in lanes for step in lane for recv in step.recvs])
    assert received == set(range(members * shard)) - set(range(root * shard, (root + 1) * shard))
    assert moved(lanes) == (0, (members - 1) * shard)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(("members", "root"), GROUPS)
def test_scatter_moves_what_gather_moves_in_the_other_direction(name: str, members: int, root: int) -> None:
    shard = 9
    gathers = lanes_by_member(name, GATHER, members, shard, root)
    scatters = lanes_by_member(name, SCATTER, members, members * shard, root)
    assert [moved(lanes)[::-1] for lanes in gathers] == [moved(lanes) for lanes in scatters]


@pytest.mark.parametrize(("members", "root"), GROUPS)
def test_a_tree_forwards_its_subtree(members: int, root: int) -> None:
    for member in range(members):
        size = binomial_subtree(members, member, root)
        sent = 0 if member == root else size * 4
        assert bytes_per_member("tree", view(GATHER, members, member, 4, root)) == (sent, (size - 1) * 4)
