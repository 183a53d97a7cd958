"""All-reduces between pairs of ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.sweep import PairSweepWorkload, PairsWorkload, pair_sweep_workload, pairs_workload

WORKLOAD = pairs_workload(PairsWorkload(6, [(8, 2), (1024, 1)]))


def test_consecutive_ranks_are_pairs() -> None:
    assert WORKLOAD.groups == {1: (0, 1), 2: (2, 3), 3: (4, 5)}
    assert [[node.group for node in WORKLOAD.nodes(rank)] for rank in (0, 1, 5)] == [[1] * 3, [1] * 3, [3] * 3]


def test_sizes_follow_one_another_as_often_as_given() -> None:
    assert [(node.name, node.size_bytes, node.deps) for node in WORKLOAD.nodes(3)] == [
        ("all_reduce.8", 8, ()),
        ("all_reduce.8", 8, (1,)),
        ("all_reduce.1024", 1024, (2,)),
    ]
    assert {node.kind for node in WORKLOAD.nodes(3)} == {CommKind.ALL_REDUCE}


@pytest.mark.parametrize("ranks", [-2, 0, 1, 3])
def test_pairs_need_an_even_number_of_ranks(ranks: int) -> None:
    with pytest.raises(PlanError, match=f"{ranks} ranks cannot form pairs: use an even number"):
        PairsWorkload(ranks, [(8, 1)])


def test_two_ranks_are_a_pair() -> None:
    assert pairs_workload(PairsWorkload(2, [])).groups == {1: (0, 1)}


def transfers(sweep: PairSweepWorkload) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(source, destination) of all sends, and of all receives."""
    nodes = pair_sweep_workload(sweep).nodes
    all_nodes = [(rank, node) for rank in range(sweep.ranks) for node in nodes(rank)]
    sends = [(rank, node.peer) for rank, node in all_nodes if node.kind is CommKind.SEND]
    return sends, [(node.peer, rank) for rank, node in all_nodes if node.kind is CommKind.RECV]


@given(st.integers(2, 40))
def test_every_pair_is_played_once_in_each_direction(ranks: int) -> None:
    sends, receives = transfers(PairSweepWorkload(ranks, 1000))
    everyone = {(one, other) for one in range(ranks) for other in range(ranks) if one != other}
    assert len(sends) == len(everyone)
    assert set(sends) == set(receives) == everyone


@given(st.integers(2, 40), st.data())
def test_fewer_rounds_load_every_rank_alike(ranks: int, data: st.DataObject) -> None:
    rounds = data.draw(st.integers(1, ranks - 1))
    sends, receives = transfers(PairSweepWorkload(ranks, 1000, rounds))
    assert sorted(sends) == sorted(receives) == sorted(set(sends))
    for end in (0, 1):
        assert [sum(pair[end] == rank for pair in sends) for rank in range(ranks)] == [rounds] * ranks


def test_a_round_begins_when_the_one_before_has_ended_everywhere() -> None:
    nodes = list(pair_sweep_workload(PairSweepWorkload(3, 1000)).nodes(0))
    assert [(node.node_id, node.deps) for node in nodes] == [
        (1, ()),
        (2, ()),
        (3, (1, 2)),
        (4, (3,)),
        (5, (3,)),
        (6, (4, 5)),
    ]
    assert [node.kind for node in nodes[2::3]] == [CommKind.BARRIER] * 2


@pytest.mark.parametrize(("ranks", "rounds"), [(1, None), (4, 4), (4, 0)])
def test_what_cannot_be_played_is_refused(ranks: int, rounds: int | None) -> None:
    with pytest.raises(PlanError):
        PairSweepWorkload(ranks, 1000, rounds)
