"""All-to-all, even and uneven, step by step."""

from collections import Counter

import pytest

from emulator.errors import PlanError
from emulator.planner.algorithms import schedule
from emulator.planner.collectives.all_to_all import pxn
from emulator.planner.schedule import Collective, Step, Transfer
from emulator.trace.meaning.model import CommKind
from tests.support.collective_simulator import uneven_all_to_all
from tests.support.layouts import beyond, even_layout
from tests.support.schedules import lanes_by_member, steps_of

KIND = CommKind.ALL_TO_ALL


def test_pairwise_meets_one_peer_each_way_in_every_step() -> None:
    (lane,) = lanes_by_member("pairwise", KIND, 4, 8)[1]
    assert lane == [
        Step((Transfer(2, 8 + 4, 2),), (Transfer(0, 2, 2),)),
        Step((Transfer(3, 8 + 6, 2),), (Transfer(3, 24 + 2, 2),)),
        Step((Transfer(0, 8 + 0, 2),), (Transfer(2, 16 + 2, 2),)),
    ]


def test_parallel_does_the_same_in_one_step() -> None:
    for pairwise, parallel in zip(
        lanes_by_member("pairwise", KIND, 5, 50), lanes_by_member("parallel", KIND, 5, 50), strict=True
    ):
        ((step,),) = parallel
        assert step.sends == tuple(send for one in pairwise[0] for send in one.sends)
        assert step.recvs == tuple(recv for one in pairwise[0] for recv in one.recvs)


def test_uneven_offsets_count_from_the_own_row_and_are_unknown_for_receives() -> None:
    first = uneven_all_to_all([[1, 2, 3], [4, 5, 6], [7, 8, 9]])[0]
    (lane,) = schedule("pairwise", first)
    assert steps_of(lane) == [
        Step((Transfer(1, 1, 2),), (Transfer(2, -1, 7),)),
        Step((Transfer(2, 3, 3),), (Transfer(1, -1, 4),)),
    ]


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
