import pytest

from emulator.results.statistics.samples.classes import JCT, ClassKey, class_rows, count_classes
from emulator.results.statistics.samples.collectives import merge
from emulator.trace.meaning.names import SEND_RECV
from emulator.trace.meaning.workload import build_workload
from tests.support.runs import collective, pair, table
from tests.support.traces import coll, rank_trace, recv, send


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (ClassKey(JCT, 8), "iteration (JCT)"),
        (ClassKey("all_reduce", 4, 65536, "ring"), "all_reduce, 4 ranks, 64 KiB, ring"),
        (ClassKey(SEND_RECV, 2, 7), "send_recv, 2 ranks, 7 B"),
    ],
)
def test_a_class_is_named_by_what_its_measurements_share(key: ClassKey, text: str) -> None:
    assert str(key) == text


@pytest.mark.parametrize(
    ("key", "takes_time"),
    [
        (ClassKey(JCT, 1), True),
        (ClassKey("all_reduce", 2, 1), True),
        (ClassKey("all_reduce", 2, 0), False),
        (ClassKey("all_reduce", 1, 8), False),
        (ClassKey("barrier", 2, 0), True),
        (ClassKey("barrier", 1, 0), False),
        (ClassKey(SEND_RECV, 2, 0), False),
    ],
)
def test_a_collective_takes_time_if_ranks_exchange_something(key: ClassKey, takes_time: bool) -> None:
    assert key.takes_time is takes_time


def test_rows_are_grouped_by_kind_members_size_and_algorithm() -> None:
    rows = [
        *collective([0, 0], [1, 1], instance=0),
        *collective([0, 0], [2, 2], instance=1, algorithm="direct"),
        *collective([0, 0], [3, 3], instance=2, size_bytes=8),
        *collective([0, 0, 0], [4, 4, 4], instance=3),
        *collective([0, 0], [5, 5], instance=4, kind="all_gather"),
        *pair(0, 6, instance=5, algorithm=""),
        *collective([0, 0], [7, 7], instance=0, iteration=1),
    ]
    merged = merge(table(rows))
    found = {str(key): sorted(merged.cct_ns[rows].tolist()) for key, rows in class_rows(merged)}
    assert found == {
        "all_reduce, 2 ranks, 8 B, ring": [3],
        "all_reduce, 2 ranks, 1000 B, ring": [1, 7],
        "all_reduce, 2 ranks, 1000 B, direct": [2],
        "all_reduce, 3 ranks, 1000 B, ring": [4],
        "all_gather, 2 ranks, 1.95 KiB, ring": [5],  # two shards of 1000 bytes
        "send_recv, 2 ranks, 1000 B": [6],
    }


def test_without_measurements_there_is_no_class() -> None:
    assert list(class_rows(merge(table([])))) == []


def test_classes_of_a_workload_are_counted_before_it_is_played() -> None:
    first = [coll(1, "all_reduce", 64), coll(2, "all_reduce", 64), coll(3, "all_gather", 64), send(4, 1, 9)]
    second = [coll(1, "all_reduce", 64), coll(2, "all_reduce", 64), coll(3, "all_gather", 64), recv(4, 0, 9)]
    workload = build_workload([rank_trace(0, first), rank_trace(1, second)])
    assert count_classes(workload) == 1 + 3, "JCT, all_reduce, all_gather, the pair"


def test_classes_that_take_no_time_are_not_counted() -> None:
    nodes = [coll(1, "all_reduce", 0), coll(2, "barrier", 0)]
    workload = build_workload([rank_trace(rank, nodes) for rank in range(2)])
    assert count_classes(workload) == 2, "JCT and the barrier"


def test_members_with_uneven_splits_are_one_class() -> None:
    nodes = [
        [coll(1, "all_to_all", 64, in_splits=(32, 32), out_splits=(32, 96))],
        [coll(1, "all_to_all", 128, in_splits=(96, 32), out_splits=(32, 32))],
    ]
    workload = build_workload([rank_trace(rank, listed) for rank, listed in enumerate(nodes)])
    assert count_classes(workload) == 2
