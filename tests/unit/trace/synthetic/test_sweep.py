"""Workloads of one collective over a range of sizes."""

import pytest

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.sweep import SweepWorkload, comm_size_of, listed_sizes, sweep_sizes, sweep_workload


@pytest.mark.parametrize(
    ("kind", "comm_size"),
    [
        (CommKind.ALL_GATHER, 16),
        (CommKind.GATHER, 16),
        (CommKind.REDUCE_SCATTER, 64),
        (CommKind.ALL_TO_ALL, 64),
        (CommKind.SCATTER, 64),
        (CommKind.BARRIER, 0),
    ],
)
def test_comm_size_is_the_input_of_a_rank(kind: CommKind, comm_size: int) -> None:
    assert comm_size_of(kind, ranks=4, size_bytes=64) == comm_size


def sizes(kind: CommKind, ranks: int, least: int, most: int, factor: float = 2) -> list[int]:
    return sweep_sizes(kind, ranks=ranks, least=least, most=most, factor=factor)


def test_sizes_grow_by_the_factor_up_to_the_last() -> None:
    assert sizes(CommKind.ALL_REDUCE, 3, 8, 64) == [8, 16, 32, 64]
    assert sizes(CommKind.ALL_REDUCE, 3, 5, 100, 3) == [5, 15, 45]
    assert sizes(CommKind.REDUCE_SCATTER, 3, 7, 7) == [7]


def test_factors_below_2_drop_fractions_and_never_stand_still() -> None:
    assert sizes(CommKind.ALL_REDUCE, 3, 1024, 4000, 1.5) == [1024, 1536, 2304, 3456]
    assert sizes(CommKind.ALL_REDUCE, 3, 1, 5, 1.1) == [1, 2, 3, 4, 5]


def test_sizes_grow_by_a_step() -> None:
    assert sweep_sizes(CommKind.REDUCE, ranks=2, least=8, most=30, step=10) == [8, 18, 28]
    with pytest.raises(PlanError, match="the step of the sweep is 0 bytes: it must be at least 1"):
        sweep_sizes(CommKind.REDUCE, ranks=2, least=8, most=30, step=0)


def test_a_step_that_is_too_small_for_the_range_is_refused() -> None:
    with pytest.raises(PlanError, match="more than 10,000 sizes from 1 to 1000000000 bytes: take larger steps"):
        sweep_sizes(CommKind.REDUCE, ranks=2, least=1, most=10**9, step=1)


def test_listed_sizes_are_played_in_ascending_order_and_once() -> None:
    assert listed_sizes(CommKind.REDUCE, ranks=2, sizes=[4096, 1, 4096, 0]) == [1, 4096]
    assert listed_sizes(CommKind.GATHER, ranks=3, sizes=[10, 9, 2]) == [9]
    assert listed_sizes(CommKind.BARRIER, ranks=3, sizes=[10, 9]) == [0]
    with pytest.raises(PlanError, match="send_recv needs at least 2 ranks"):
        listed_sizes(CommKind.SEND, ranks=1, sizes=[8])
    with pytest.raises(PlanError, match="reduce of 2 ranks needs at least 1 bytes; the largest size is 0"):
        listed_sizes(CommKind.REDUCE, ranks=2, sizes=[0])


@pytest.mark.parametrize("kind", [CommKind.ALL_GATHER, CommKind.GATHER])
def test_a_gathered_array_is_rounded_down_to_equal_shards(kind: CommKind) -> None:
    assert sizes(kind, 3, 8, 64) == [6, 15, 30, 63]
    assert sizes(kind, 6, 1, 16) == [6, 12]  # 1, 2 and 4 bytes give no shard; 8 and 16 round to 6 and 12
    assert sizes(kind, 100, 64, 256) == [100, 200]  # 64 gives none, 128 and 256 round to 100 and 200


def test_sizes_that_round_to_the_same_value_occur_once() -> None:
    assert sizes(CommKind.ALL_GATHER, 8, 8, 31, 3) == [8, 24]
    assert sizes(CommKind.ALL_GATHER, 64, 65, 65) == [64]


def test_a_barrier_has_one_size() -> None:
    assert sizes(CommKind.BARRIER, 3, 8, 64) == [0]


@pytest.mark.parametrize(
    ("least", "most", "factor", "problem"),
    [
        (0, 8, 2, "sizes from 0 to 8 bytes: the first must be at least 1, and at most the last"),
        (-1, 8, 2, "sizes from -1 to 8 bytes"),
        (16, 8, 2, "sizes from 16 to 8 bytes"),
        (8, 16, 1, "the factor of the sweep is 1: it must be above 1"),
        (8, 16, 0, "the factor of the sweep is 0: it must be above 1"),
    ],
)
def test_empty_ranges_are_refused(least: int, most: int, factor: int, problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        sizes(CommKind.ALL_REDUCE, 2, least, most, factor)


def test_too_many_ranks_for_any_size_are_refused() -> None:
    with pytest.raises(PlanError, match="all_gather of 64 ranks needs at least 64 bytes; the largest size is 32"):
        sizes(CommKind.ALL_GATHER, 64, 8, 63)


def test_each_size_occurs_once_in_order_one_after_the_other() -> None:
    workload = sweep_workload(SweepWorkload(CommKind.ALL_GATHER, 3, [6, 15, 30]))
    for rank in range(3):
        nodes = list(workload.nodes(rank))
        assert [(node.node_id, node.deps, node.name, node.size_bytes) for node in nodes] == [
            (1, (), "all_gather.6", 2),
            (2, (1,), "all_gather.15", 5),
            (3, (2,), "all_gather.30", 10),
        ]
        assert {node.kind for node in nodes} == {CommKind.ALL_GATHER}
    assert (workload.ranks, workload.groups, workload.name) == (3, {}, "all_gather")


def test_every_rank_sends_to_the_next_and_receives_from_the_one_before() -> None:
    workload = sweep_workload(SweepWorkload(CommKind.SEND, 3, [8, 16]))
    for rank in range(3):
        nodes = list(workload.nodes(rank))
        assert [(node.node_id, node.deps, node.kind, node.peer, node.size_bytes) for node in nodes] == [
            (1, (), CommKind.SEND, (rank + 1) % 3, 8),
            (2, (), CommKind.RECV, (rank - 1) % 3, 8),
            (3, (1, 2), CommKind.SEND, (rank + 1) % 3, 16),
            (4, (1, 2), CommKind.RECV, (rank - 1) % 3, 16),
        ]
    assert workload.name == "send_recv"
