import numpy as np
import pytest

from emulator.errors import ResultError
from emulator.statistics.collectives import UNKNOWN, busbw_factor, merge, nccl_size
from emulator.trace.model import CommKind
from tests.support.runs import collective, pair, row, table

K = CommKind

# Worked out by hand from nccl-tests' performance notes: for a comm_size of 1,200 bytes and 2, 3 and 8 ranks, the size
# that nccl-tests names and bus bandwidth over algorithm bandwidth.
BY_HAND = [
    (K.ALL_REDUCE, (1200, 1200, 1200), (1, 4 / 3, 1.75)),
    (K.REDUCE, (1200, 1200, 1200), (1, 1, 1)),
    (K.ALL_GATHER, (2400, 3600, 9600), (1 / 2, 2 / 3, 7 / 8)),
    (K.GATHER, (2400, 3600, 9600), (1 / 2, 2 / 3, 7 / 8)),
    (K.SCATTER, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.BROADCAST, (1200, 1200, 1200), (1, 1, 1)),
    (K.ALL_TO_ALL, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.REDUCE_SCATTER, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.REDUCE_SCATTER_BLOCK, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.SEND, (1200, 1200, 1200), (1, 1, 1)),
]


@pytest.mark.parametrize(("kind", "sizes", "factors"), BY_HAND)
def test_size_and_factor_are_those_of_nccl_tests(
    kind: CommKind, sizes: tuple[int, ...], factors: tuple[float, ...]
) -> None:
    for members, size, factor in zip((2, 3, 8), sizes, factors, strict=True):
        assert nccl_size(kind, size_bytes=1200, members=members) == size
        assert busbw_factor(kind, members=members) == pytest.approx(factor)


def test_every_collective_was_worked_out() -> None:
    assert {kind for kind, _, _ in BY_HAND} == set(CommKind) - {K.BARRIER, K.RECV}


def test_nothing_crosses_a_bus_in_a_group_of_one_or_a_barrier() -> None:
    assert busbw_factor(K.ALL_REDUCE, members=1) is None
    assert busbw_factor(K.BARRIER, members=8) is None


def test_a_collective_is_timed_from_its_last_post_to_its_last_done() -> None:
    merged = merge(table(collective([100, 250, 180], [900, 700, 800])))
    assert (merged.cct_ns[0], merged.span_ns[0], merged.skew_ns[0]) == (650, 800, 150)
    assert merged.members[0] == 3


def test_a_pair_is_timed_from_the_post_of_the_send_to_the_arrival_of_the_last_byte() -> None:
    merged = merge(table(pair(100, 400, received_post=350)))
    assert len(merged) == 1
    assert (merged.cct_ns[0], merged.members[0], merged.kind[0]) == (300, 2, K.SEND)
    assert (merged.span_ns[0], merged.skew_ns[0]) == (305, 250)


def test_a_pair_that_moved_nothing_is_timed_as_a_collective() -> None:
    send, recv = pair(100, 400, received_post=350)
    merged = merge(table([send, recv | {"arrival_ns": None}]))
    assert merged.cct_ns[0] == 405 - 350


def test_instances_and_iterations_stay_apart_whatever_the_order_of_rows() -> None:
    rows = [
        one
        for iteration in (-1, 0, 1)
        for instance in (0, 1, 2)
        for one in collective([0, 0], [iteration * 10 + 20, instance + 50], iteration=iteration, instance=instance)
    ]
    rng = np.random.default_rng(7)
    merged = merge(table([rows[at] for at in rng.permutation(len(rows))]))
    assert merged.iteration.tolist() == [-1] * 3 + [0] * 3 + [1] * 3
    assert merged.instance.tolist() == [0, 1, 2] * 3
    assert merged.cct_ns.tolist() == [50, 51, 52] * 3


def test_what_lacks_a_member_is_left_out_and_counted() -> None:
    whole, cut = collective([0, 0], [10, 20]), collective([0, 0], [10, 20], instance=1)[:1]
    lonely = pair(0, 9, instance=2)[:1]
    merged = merge(table([*whole, *cut, *lonely]))
    assert (merged.instance.tolist(), merged.incomplete) == ([0], 2)


def test_two_sends_are_no_pair() -> None:
    send, _ = pair(0, 9)
    assert merge(table([send, send | {"rank": 1}])).incomplete == 1


def test_payload_that_ran_ahead_marks_a_collective_but_no_pair() -> None:
    early = collective([0, 0], [10, 20])
    early[1]["early"] = True
    assert merge(table([*early, *pair(0, 9, instance=1, early=True)])).early.tolist() == [True, False]


def test_the_trace_times_a_collective_by_its_member_that_waited_least() -> None:
    members = collective([0, 0, 0], [9, 9, 9])
    for one, traced in zip(members, (3000, None, 600), strict=True):
        one["traced_ns"] = traced
    merged = merge(table([*members, *collective([0, 0], [9, 9], instance=1)]))
    assert merged.traced_ns.tolist() == [600, UNKNOWN]


def test_uneven_members_count_as_the_largest() -> None:
    members = collective([0, 0], [9, 9], kind="all_to_all")
    members[0]["size_bytes"] = 70
    assert merge(table(members)).size_bytes.tolist() == [1000]


def test_nothing_merges_to_nothing() -> None:
    merged = merge(table([]))
    assert (len(merged), merged.incomplete, merged.algorithms) == (0, 0, ())


def test_a_kind_from_the_future_is_named() -> None:
    with pytest.raises(ResultError, match="all_scatter"):
        merge(table([row(kind="all_scatter")]))
