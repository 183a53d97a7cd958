"""All-to-all with PXN: flows between nodes, their rails and their bytes."""

from __future__ import annotations

from collections import Counter

import pytest

from emulator.errors import PlanError
from emulator.planner.collectives.pxn import pxn
from emulator.planner.schedule import Collective
from emulator.trace.meaning.model import CommKind
from tests.support.layouts import beyond, even_layout

S = 6 * 8 * 1000


@pytest.mark.parametrize(("nodes", "rails"), [(2, 4), (4, 2), (3, 4)])
def test_one_transfer_per_rail_and_remote_node(nodes: int, rails: int) -> None:
    layout, n = even_layout(nodes, rails), nodes * rails
    assert beyond(CommKind.ALL_TO_ALL, "pxn", layout, S) == {
        (rail, rail): nodes * (nodes - 1) * rails * S // n for rail in range(rails)
    }
    for member in range(n):
        (lane,) = pxn(Collective(CommKind.ALL_TO_ALL, n, member, S, layout=layout))
        sends = [send for step in lane for send in step.sends]
        assert Counter(send.peer for send in sends).most_common(1)[0][1] == 1
        remote = [send.size for send in sends if layout.node_of[send.peer] != layout.node_of[member]]
        assert remote == [rails * S // n] * (nodes - 1)


def test_an_uneven_all_to_all_is_refused() -> None:
    view = Collective(CommKind.ALL_TO_ALL, 2, 0, 5, send_splits=(2, 3), recv_splits=(2, 2))
    with pytest.raises(PlanError, match="for uneven ones use pairwise or parallel"):
        pxn(view)
