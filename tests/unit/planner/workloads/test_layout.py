"""Layout of ranks, and their process groups."""

from __future__ import annotations

from emulator.planner.workloads.layout import Coordinates, Layout


def test_tensor_ranks_are_consecutive_and_stages_are_far_apart() -> None:
    layout = Layout(tensor=2, data=3, pipeline=4)
    assert layout.rank(Coordinates(tensor=1, data=0, pipeline=0)) == 1
    assert layout.rank(Coordinates(tensor=0, data=1, pipeline=0)) == 2
    assert layout.rank(Coordinates(tensor=0, data=0, pipeline=1)) == 6
    assert [layout.rank(layout.coordinates(rank)) for rank in range(24)] == list(range(24))


def test_groups_of_eight_ranks() -> None:
    assert Layout(tensor=2, data=2, pipeline=2).groups() == {
        **{1: (0, 1), 2: (2, 3), 3: (4, 5), 4: (6, 7)},
        **{5: (0, 2), 6: (1, 3), 7: (4, 6), 8: (5, 7)},
        **{9: (0, 4), 10: (1, 5), 11: (2, 6), 12: (3, 7)},
    }


def test_groups_of_one_rank_do_not_exist_and_have_no_number() -> None:
    assert Layout(tensor=1, data=1, pipeline=1).groups() == {}
    assert Layout(tensor=1, data=2, pipeline=1).groups() == {1: (0, 1)}
    assert Layout(tensor=1, data=1, pipeline=3).groups() == {1: (0, 2)}


def test_a_rank_is_a_member_of_its_groups() -> None:
    layout = Layout(tensor=3, data=2, pipeline=4)
    groups = layout.groups()
    for rank in range(layout.ranks):
        at = layout.coordinates(rank)
        assert rank in groups[layout.tensor_group(at)]
        assert rank in groups[layout.data_group(at)]
        if at.pipeline in (0, 3):
            assert rank in groups[layout.embedding_group(at)]
