"""Two trace sets that differ in one thing differ in that aspect alone."""

from dataclasses import replace

import pytest

from emulator.annexes.trace_kit.difference import (
    Aspect,
    ComparedSet,
    Difference,
    OperationPlace,
    difference,
    places,
    used_groups,
)
from emulator.trace.meaning.workload import build_workload
from tests.support.random_traces import random_traces
from tests.support.traces import Node, coll, node, rank_trace, recv, send, storage

A2A = {"in_splits": (1, 3), "out_splits": (1, 3)}


def trace_set(*ranks: list[Node]) -> ComparedSet:
    traces = [rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)]
    return ComparedSet(traces, build_workload(traces))


def compared(one: list[Node], other: list[Node], *, tolerance: float = 0.0) -> Difference:
    """Both sets have two ranks that do the same."""
    return difference(trace_set(one, one), trace_set(other, other), tolerance=tolerance)


BASE = [
    node(1, duration=10),
    coll(2, "all_reduce", 64, deps=[1], duration=5),
    coll(3, "broadcast", 8, deps=[2], root=0),
]


@pytest.mark.parametrize(
    ("other", "aspect", "first"),
    [
        ([BASE[0], replace(BASE[1], raw=BASE[1].raw | {"comm_size": 65}), BASE[2]], Aspect.SIZES, "64 B against 65 B"),
        ([BASE[0], replace(BASE[1], raw=BASE[1].raw | {"comm_type": 7}), BASE[2]], Aspect.TYPES, "reduce_scatter"),
        ([*BASE[:2], replace(BASE[2], raw=BASE[2].raw | {"root": 1})], Aspect.ROOTS, "root 0 against 1"),
        ([*BASE[:2], replace(BASE[2], deps=[1])], Aspect.DEPENDENCIES, "waits for 1 against 0 communications"),
        (
            [replace(BASE[0], duration=11), *BASE[1:]],
            Aspect.DURATIONS,
            "node 1 in canonical order: 10 µs against 11 µs",
        ),
        ([*BASE[:2], replace(BASE[2], name="other")], Aspect.NAMES, "'node 3' against 'other'"),
    ],
    ids=lambda value: str(value) if isinstance(value, Aspect) else "",
)
def test_one_change_is_one_aspect(other: list[Node], aspect: Aspect, first: str) -> None:
    found = compared(BASE, other)
    assert found.aspects == [aspect]
    assert first in found.findings[aspect].first[0]


@pytest.mark.parametrize(
    ("other", "first"),
    [
        (storage(4, "write", 101), "rank 0, transfer 1: write of 100 bytes against write of 101 bytes"),
        (storage(4, "read", 100), "rank 0, transfer 1: write of 100 bytes against read of 100 bytes"),
        (storage(4), "rank 0, transfer 1: write of 100 bytes against none"),
    ],
)
def test_what_ranks_read_and_write_counts(other: Node, first: str) -> None:
    found = compared([*BASE, storage(4, "write", 100)], [*BASE, other])
    assert found.aspects == [Aspect.STORAGE]
    assert found.findings[Aspect.STORAGE].first[0] == first


def test_nothing_differs_from_itself_however_it_is_numbered() -> None:
    renumbered = [replace(one, id=one.id + 100, deps=[other + 100 for other in one.deps]) for one in BASE]
    named = [replace(one, name=f"node {one.id - 100}") if one.raw else one for one in renumbered]
    assert compared(BASE, BASE).is_same
    assert compared(BASE, named).is_same


@pytest.mark.parametrize("seed", range(20))
def test_random_sets_are_the_same_as_themselves(seed: int) -> None:
    one, other = (ComparedSet(traces, build_workload(traces)) for traces in (random_traces(seed), random_traces(seed)))
    assert difference(one, other).is_same


def test_names_of_groups_do_not_count_but_their_ranks_do() -> None:
    def grouped(name: str, ranks: tuple[int, ...]) -> ComparedSet:
        return trace_set(
            *([coll(1, "barrier", 0, pg=name, group_ranks=ranks)] if r in ranks else [node(1)] for r in (0, 1, 2))
        )

    assert difference(grouped("tensor", (0, 1)), grouped("7", (0, 1))).is_same
    found = difference(grouped("tensor", (0, 1)), grouped("tensor", (0, 2)))
    assert found.findings[Aspect.GROUPS].first == [
        "ranks 0-1 only in the first set",
        "ranks 0, 2 only in the second set",
    ]
    assert found.findings[Aspect.OPERATIONS].differing == 2


def test_a_longer_set_has_operations_of_its_own() -> None:
    found = compared(BASE, [*BASE, coll(4, "all_reduce", 1)])
    assert found.findings[Aspect.OPERATIONS].first == ["collective 3 of ranks 0-1 only in the second set"]
    assert Aspect.SIZES not in found.aspects


def test_messages_are_matched_by_the_order_of_their_tags() -> None:
    one = trace_set([send(1, 1, 5, tag=7), send(2, 1, 6, tag=8)], [recv(1, 0, 5, tag=7), recv(2, 0, 6, tag=8)])
    other = trace_set([send(1, 1, 5, tag=1), send(2, 1, 9, tag=2)], [recv(1, 0, 5, tag=1), recv(2, 0, 9, tag=2)])
    found = difference(one, other)
    assert found.aspects == [Aspect.SIZES]
    assert found.findings[Aspect.SIZES].first == ["message 1 from rank 0 to 1 (tag 2 of those): 6 B against 9 B"]


def test_splits_count_where_sizes_are_equal() -> None:
    def uneven(splits: tuple[int, int]) -> ComparedSet:
        back = (4 - splits[0], 4 - splits[1])
        return trace_set(
            [coll(1, "all_to_all", 4, in_splits=splits, out_splits=(splits[0], back[0]))],
            [coll(1, "all_to_all", 4, in_splits=back, out_splits=(splits[1], back[1]))],
        )

    found = difference(uneven((1, 3)), uneven((2, 2)))
    assert found.aspects == [Aspect.SIZES]
    assert found.findings[Aspect.SIZES].first[0].endswith("the same sizes with other splits")


def test_tolerance_is_of_the_first_duration() -> None:
    slower = [replace(BASE[0], duration=11), *BASE[1:]]
    assert compared(BASE, slower, tolerance=0.1).is_same
    finding = compared(BASE, [replace(one, duration=2 * one.duration) for one in BASE]).findings[Aspect.DURATIONS]
    assert (finding.differing, finding.compared) == (4, 6)
    assert compared(BASE, slower, tolerance=0.09).aspects == [Aspect.DURATIONS]
    assert compared(BASE, slower).duration_ratio == (1.0, pytest.approx(1.05), pytest.approx(1.1))


def test_other_numbers_of_ranks_and_nodes() -> None:
    found = difference(
        trace_set([coll(1, "barrier", 0)], [coll(1, "barrier", 0)]),
        trace_set([coll(1, "barrier", 0), node(2, duration=3)]),
    )
    assert found.findings[Aspect.RANKS].first == ["2 against 1 ranks"]
    assert found.findings[Aspect.COMPUTE].first == ["rank 0: 0 against 1 nodes"]
    assert found.findings[Aspect.DURATIONS].first == ["rank 0, compute: 0 ns against 3 µs"]


def test_groups_of_the_same_ranks_are_told_apart_by_their_first_use() -> None:
    def nodes(peer: int) -> list:
        message = send(4, 1) if peer else recv(4, 0)
        return [
            coll(1, "barrier", 0, pg="b", group_ranks=(0, 1)),
            coll(2, "barrier", 0, pg="a", group_ranks=(0, 1)),
            message,
        ]

    workload = build_workload([rank_trace(0, nodes(1)), rank_trace(1, nodes(0))])
    assert sorted(places(workload).values()) == [
        OperationPlace((0, 1), 0, 0, is_message=False),
        OperationPlace((0, 1), 0, 0, is_message=True),
        OperationPlace((0, 1), 1, 0, is_message=False),
    ]
    assert used_groups(workload) == {(0, 1): 2}


def test_places_in_words() -> None:
    assert str(OperationPlace((0, 1, 2), 0, 4, is_message=False)) == "collective 5 of ranks 0-2"
    assert str(OperationPlace((0, 1), 1, 0, is_message=False)) == "collective 1 of ranks 0-1 (group 2 of those)"
    assert str(OperationPlace((3, 1), 0, 0, is_message=True)) == "message 1 from rank 3 to 1"
