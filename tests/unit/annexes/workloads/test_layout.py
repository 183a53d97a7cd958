"""Layout of ranks, and their process groups."""

import pytest

from emulator.annexes.workloads.layout import NUMBERED, Coordinates, Layout
from emulator.annexes.workloads.totals import GroupRole


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
        assert rank in groups[layout.group(GroupRole.TENSOR, at)]
        assert rank in groups[layout.group(GroupRole.DATA, at)]
        if at.pipeline in (0, 3):
            assert rank in groups[layout.group(GroupRole.EMBEDDING, at)]


def test_context_ranks_are_next_to_tensor_ranks_and_experts_span_both() -> None:
    layout = Layout(tensor=2, data=2, pipeline=1, context=2, expert=2)
    assert layout.rank(Coordinates(tensor=1, data=1, pipeline=0, context=0)) == 5
    groups = layout.groups()

    def ranks(role: GroupRole, rank: int) -> tuple[int, ...]:
        return groups[layout.group(role, layout.coordinates(rank))]

    assert ranks(GroupRole.CONTEXT, 5) == (5, 7)
    assert ranks(GroupRole.DATA, 5) == (1, 3, 5, 7)
    assert ranks(GroupRole.EXPERT, 5) == (5, 7)
    assert ranks(GroupRole.EXPERT_DATA, 5) == (1, 5)
    wide = Layout(tensor=1, data=2, pipeline=1, context=2, expert=4)
    assert wide.groups()[wide.group(GroupRole.EXPERT, wide.coordinates(3))] == (0, 1, 2, 3)
    assert wide.group_size(GroupRole.EXPERT_DATA) == 1


@pytest.mark.parametrize("degrees", [(2, 3, 4, 2, 3), (1, 2, 2, 2, 4), (3, 1, 1, 2, 1), (1, 4, 3, 1, 2)])
def test_numbers_members_and_roles_of_groups_agree(degrees: tuple[int, int, int, int, int]) -> None:
    layout = Layout(*degrees)
    groups = layout.groups()
    for rank in range(layout.ranks):
        at = layout.coordinates(rank)
        assert layout.rank(at) == rank
        for role in NUMBERED:
            if layout.group_size(role) > 1 and (role is not GroupRole.EMBEDDING or at.pipeline in (0, degrees[2] - 1)):
                number = layout.group(role, at)
                assert rank in groups[number]
                assert len(groups[number]) == layout.group_size(role)
                assert layout.role(number) is role
    assert layout.role(0) is GroupRole.WORLD
