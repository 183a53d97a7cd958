"""Message depth, against the literature and hand-made schedules."""

from __future__ import annotations

import pytest

from emulator.errors import PlanError
from emulator.planner.built_in import BUILT_IN
from emulator.planner.message_depth import message_depth
from emulator.planner.schedule import Collective, Lane, Step, Transfer
from emulator.trace.meaning.model import CommKind


def depth(kind: CommKind, algorithm: str, members: int) -> int:
    return message_depth(algorithm, [Collective(kind, members, member, 1 << 20) for member in range(members)])


@pytest.mark.parametrize(
    ("kind", "algorithm", "members", "wanted"),
    [
        (CommKind.ALL_REDUCE, "ring", 2, 2),
        (CommKind.ALL_REDUCE, "ring", 8, 14),
        (CommKind.ALL_REDUCE, "bidirectional_ring", 8, 14),
        (CommKind.ALL_REDUCE, "halving_doubling", 8, 6),
        (CommKind.ALL_REDUCE, "recursive_doubling", 8, 3),
        (CommKind.ALL_REDUCE, "direct", 8, 2),
        (CommKind.ALL_GATHER, "ring", 5, 4),
        (CommKind.ALL_GATHER, "direct", 5, 1),
        (CommKind.REDUCE_SCATTER, "ring", 5, 4),
        (CommKind.ALL_TO_ALL, "parallel", 6, 1),
        (CommKind.BROADCAST, "parallel", 6, 1),
        (CommKind.BARRIER, "dissemination", 8, 3),
    ],
)
def test_the_depth_is_that_of_the_literature(kind: CommKind, algorithm: str, members: int, wanted: int) -> None:
    assert depth(kind, algorithm, members) == wanted


@pytest.mark.parametrize(("kind", "algorithm"), [(kind, name) for kind, named in BUILT_IN.items() for name in named])
def test_every_algorithm_ends(kind: CommKind, algorithm: str) -> None:
    assert depth(kind, algorithm, 7) >= 1


def test_a_receive_without_a_send_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def lonely(_: str, view: Collective) -> list[Lane]:
        steps = [Step((), (Transfer(1, 0, 5),))] if view.member == 0 else []
        return [iter(steps)]

    monkeypatch.setattr("emulator.planner.message_depth.schedule", lonely)
    with pytest.raises(PlanError, match="ring waits for transfers that no member sends"):
        depth(CommKind.ALL_REDUCE, "ring", 2)


def test_lanes_have_depths_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def two_lanes(_: str, view: Collective) -> list[Lane]:
        out, back = Transfer(1 - view.member, 0, 5), Transfer(1 - view.member, 0, 5)
        exchange = Step((out,), (back,))
        return [iter([exchange] * 3), iter([exchange])]

    monkeypatch.setattr("emulator.planner.message_depth.schedule", two_lanes)
    assert depth(CommKind.ALL_REDUCE, "ring", 2) == 3


def test_groups_of_one_have_no_depth() -> None:
    assert depth(CommKind.ALL_REDUCE, "ring", 1) == 0
