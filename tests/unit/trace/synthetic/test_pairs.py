"""All-reduces between pairs of ranks."""

from __future__ import annotations

import pytest

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.pairs import PairsWorkload, pairs_workload
from emulator.trace.synthetic.synthetic import GroupRole

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


def test_totals_are_those_of_the_nodes() -> None:
    nodes = [node for rank in range(6) for node in WORKLOAD.nodes(rank)]
    totals = WORKLOAD.totals
    assert (totals.nodes, totals.compute_nodes, totals.compute_micros) == (len(nodes), 0, 0)
    assert sum(entry.total_bytes for entry in totals.traffic) == sum(node.size_bytes for node in nodes)
    assert [(entry.role, entry.group_size, entry.operations) for entry in totals.traffic] == [
        (GroupRole.DATA, 2, 6),
        (GroupRole.DATA, 2, 3),
    ]


@pytest.mark.parametrize("ranks", [-2, 0, 1, 3])
def test_pairs_need_an_even_number_of_ranks(ranks: int) -> None:
    with pytest.raises(PlanError, match=f"{ranks} ranks cannot form pairs: use an even number"):
        PairsWorkload(ranks, [(8, 1)])


def test_two_ranks_are_a_pair() -> None:
    assert pairs_workload(PairsWorkload(2, [])).groups == {1: (0, 1)}
