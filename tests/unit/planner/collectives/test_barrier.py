"""Barriers: messages and steps."""

from __future__ import annotations

import pytest

from emulator.planner.schedule import BARRIER_BYTES, Step, Transfer
from emulator.trace.meaning.model import CommKind
from tests.support.schedules import bytes_per_member, lanes_by_member, view

KIND = CommKind.BARRIER
TOKEN = BARRIER_BYTES


@pytest.mark.parametrize("members", [2, 3, 4, 7, 8, 9])
def test_dissemination_doubles_its_reach_in_every_step(members: int) -> None:
    steps = (members - 1).bit_length()
    for member, lanes in enumerate(lanes_by_member("dissemination", KIND, members, 0)):
        assert lanes == [
            [
                Step(
                    (Transfer((member + (1 << k)) % members, 0, TOKEN),),
                    (Transfer((member - (1 << k)) % members, 0, TOKEN),),
                )
                for k in range(steps)
            ]
        ]
        assert bytes_per_member("dissemination", view(KIND, members, member, 0)) == (steps, steps)


def test_a_tree_collects_from_the_children_before_it_reports_to_the_parent() -> None:
    root, leaf, middle, _ = lanes_by_member("tree", KIND, 4, 0)
    parent, child = (Transfer(0, 0, TOKEN),), (Transfer(3, 0, TOKEN),)
    assert middle == [[Step((), child), Step(parent, parent), Step(child)]]
    assert leaf == [[Step(parent, parent)]]
    children = (Transfer(2, 0, TOKEN), Transfer(1, 0, TOKEN))
    assert root == [[Step((), children), Step(children)]]
