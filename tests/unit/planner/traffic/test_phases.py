"""The traffic of a group as arrays, against the schedules that its members follow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from emulator.errors import PlanError
from emulator.planner.algorithms import schedule
from emulator.planner.built_in import BUILT_IN
from emulator.planner.schedule import Collective
from emulator.planner.traffic.phases import peer_totals, phases, transfers_per_group
from emulator.trace.meaning.model import CommKind

MEMBERS = 8
ALL = [(kind, name) for kind, names in BUILT_IN.items() for name in names]


def collective(kind: CommKind, size_bytes: int = 4096, members: int = MEMBERS) -> Collective:
    return Collective(kind, members, 0, size_bytes, 0)


def scheduled(name: str, one: Collective) -> Counter[tuple[int, int]]:
    """Bytes of each (sender, receiver), by walking every member's schedule."""
    totals: Counter[tuple[int, int]] = Counter()
    for sender in range(one.members):
        for lane in schedule(name, replace(one, member=sender)):
            for step in lane:
                for transfer in step.sends:
                    totals[sender, transfer.peer] += transfer.size
    return +totals


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda value: str(value))
def test_phases_and_totals_move_what_the_schedules_move(kind: CommKind, name: str) -> None:
    one = collective(kind)
    expected = scheduled(name, one)
    for parts in (list(phases(name, one)), [peer_totals(name, one)]):
        found: Counter[tuple[int, int]] = Counter()
        for phase in parts:
            for sender, receiver, size in zip(phase.senders, phase.receivers, phase.sizes, strict=True):
                found[int(sender), int(receiver)] += int(size)
        assert found == expected
        assert all((phase.sizes > 0).all() for phase in parts)


def test_some_senders_are_a_part_of_all() -> None:
    one = collective(CommKind.ALL_TO_ALL)
    some = peer_totals("parallel", one, np.array([2, 5]))
    assert set(some.senders.tolist()) == {2, 5}
    assert len(some.sizes) == 2 * (MEMBERS - 1)


@pytest.mark.parametrize(("members", "size_bytes"), [(1, 4096), (8, 0)])
def test_a_group_of_one_and_nothing_to_send_have_no_traffic(members: int, size_bytes: int) -> None:
    one = collective(CommKind.ALL_REDUCE, size_bytes, members)
    assert list(phases("ring", one)) == []
    assert len(peer_totals("ring", one).sizes) == 0


def test_an_unknown_algorithm_is_refused_even_with_nothing_to_send() -> None:
    with pytest.raises(PlanError, match="no algorithm 'helix'"):
        list(phases("helix", collective(CommKind.ALL_REDUCE, 0)))


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda value: str(value))
def test_the_estimate_of_transfers_is_of_the_right_order(kind: CommKind, name: str) -> None:
    moved = len(scheduled(name, collective(kind)))
    assert moved <= transfers_per_group(name, kind, MEMBERS) <= 16 * max(1, moved)
