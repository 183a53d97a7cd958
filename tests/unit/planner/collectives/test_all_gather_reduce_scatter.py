"""Closed forms of all-gather and reduce-scatter, and how the two relate."""

from collections.abc import Iterable, Sequence

import pytest

from emulator.planner.collectives.all_gather_reduce_scatter import (
    aggregate_bytes,
    all_gather_trees,
    carried,
    reduce_scatter_trees,
)
from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.patterns import powers_below
from emulator.planner.schedule import Collective, Step, Transfer
from emulator.trace.meaning.model import CommKind
from tests.support.schedules import bytes_per_member, covered, lanes_by_member, moved, view

GROUPS = [1, 2, 5, 8]
ALGORITHMS = ["ring", "halving_doubling", "direct"]
GATHER, SCATTER = CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER


def ranges(transfers: Iterable[Transfer]) -> list[tuple[int, int]]:
    return [(transfer.offset, transfer.size) for transfer in transfers]


def sent_sizes(lanes: Sequence[Sequence[Step]]) -> list[int]:
    return [send.size for lane in lanes for step in lane for send in step.sends]


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("members", GROUPS)
def test_all_gather_receives_every_other_shard_once(name: str, members: int) -> None:
    shard = 6
    for member, lanes in enumerate(lanes_by_member(name, GATHER, members, shard)):
        steps = [step for lane in lanes for step in lane]
        own = set(range(member * shard, (member + 1) * shard))
        assert covered(ranges(recv for step in steps for recv in step.recvs)) == set(range(members * shard)) - own
        assert moved(lanes) == ((members - 1) * shard, (members - 1) * shard)
        assert bytes_per_member(name, view(GATHER, members, member, shard)) == moved(lanes)
        assert not any(step.reduces for step in steps)


@pytest.mark.parametrize("name", ["direct", "halving_doubling"])
@pytest.mark.parametrize("members", [2, 3, 4, 6, 8])
def test_reduce_scatter_is_all_gather_in_reverse(name: str, members: int) -> None:
    shard = 5
    gathers = lanes_by_member(name, GATHER, members, shard)
    scatters = lanes_by_member(name, SCATTER, members, members * shard)
    for gather, scatter in zip(gathers, scatters, strict=True):
        assert scatter == [[Step(step.recvs, step.sends, True) for step in reversed(lane)] for lane in gather]


@pytest.mark.parametrize("name", ["ring", "direct"])
@pytest.mark.parametrize("members", [2, 3, 4, 7])
def test_reduce_scatter_then_all_gather_moves_what_an_all_reduce_moves(name: str, members: int) -> None:
    size = members * 12
    all_reduce = lanes_by_member(name, CommKind.ALL_REDUCE, members, size)
    scatter = lanes_by_member(name, SCATTER, members, size)
    gather = lanes_by_member(name, GATHER, members, size // members)
    for whole, first, second in zip(all_reduce, scatter, gather, strict=True):
        assert [len(lane) for lane in whole] == [len(a) + len(b) for a, b in zip(first, second, strict=True)]
        assert moved(whole) == tuple(a + b for a, b in zip(moved(first), moved(second), strict=True))
        assert sorted(sent_sizes(whole)) == sorted(sent_sizes(first) + sent_sizes(second))


def test_halving_is_at_distance_half_of_the_group_first() -> None:
    for member, lanes in enumerate(lanes_by_member("halving_doubling", SCATTER, 8, 64)):
        assert [step.sends[0].peer ^ member for step in lanes[0]] == [4, 2, 1]
        assert [step.sends[0].size for step in lanes[0]] == [32, 16, 8]
    for member, lanes in enumerate(lanes_by_member("halving_doubling", GATHER, 8, 8)):
        assert [step.sends[0].peer ^ member for step in lanes[0]] == [1, 2, 4]
        assert [step.sends[0].size for step in lanes[0]] == [8, 16, 32]


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
