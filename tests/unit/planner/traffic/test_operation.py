"""Operations of a plan: sizes, parts, refusals."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from emulator.errors import PlanError
from emulator.planner.traffic import operation as module
from emulator.planner.traffic.operation import Operation, check_size, traffic_of_collective
from emulator.planner.traffic.phase import Phase
from emulator.trace.meaning.model import CommKind

MIB = 1 << 20


def sent(phases: list[Phase]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for phase in phases:
        for sender, receiver, size in zip(phase.senders, phase.receivers, phase.sizes, strict=True):
            found[int(sender), int(receiver)] += int(size)
    return found


def test_totals_are_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Operation("", CommKind.ALL_TO_ALL, "parallel", 8 * MIB, np.arange(8).reshape(1, -1), np.ones(1, np.int64))
    whole = sent(list(one.totals()))
    monkeypatch.setattr(module, "TRANSFERS_AT_ONCE", 10)
    parts = list(one.totals())
    assert len(parts) > 1
    assert sent(parts) == whole == sent(list(one.phases()))


def test_the_last_group_is_smaller_if_ranks_do_not_divide() -> None:
    traffic = traffic_of_collective(CommKind.ALL_REDUCE, ranks=10, size_bytes=MIB, group_size=4, overrides={})
    assert [(one.groups, one.members) for one in traffic.operations] == [(2, 4), (1, 2)]
    assert traffic.operations[1].ranks.tolist() == [[8, 9]]


def test_sends_of_no_bytes_move_nothing() -> None:
    pair = Operation("", CommKind.SEND, "", 0, np.array([[0, 1]]), np.ones(1, np.int64))
    assert list(pair.phases()) == []
    assert pair.transfers == 1


def test_an_uneven_all_to_all_is_its_splits() -> None:
    splits = Phase(np.array([0, 1]), np.array([1, 0]), np.array([5, 7]))
    one = Operation("", CommKind.ALL_TO_ALL, "direct", 12, np.array([[3, 4]]), np.ones(1, np.int64), splits=splits)
    assert sent(list(one.totals())) == {(0, 1): 5, (1, 0): 7}
    assert one.transfers == 2


def test_plans_that_would_take_too_long_are_refused() -> None:
    traffic = traffic_of_collective(
        CommKind.ALL_TO_ALL, ranks=100, size_bytes=100 * MIB, group_size=100, overrides={"all_to_all": "parallel"}
    )
    check_size(traffic, most=9900)
    with pytest.raises(PlanError, match=r"about 9.9e.03 pairs of communicating ranks; at most 1e.02 are supported"):
        check_size(traffic, most=100)
