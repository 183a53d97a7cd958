"""Placement policies against placements worked out by hand, and what holds for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import PlanError
from emulator.topology.placement import UNLIMITED, place_as_mapped, place_in_blocks, place_on_rails, place_round_robin


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [((9, 9, 9), "0001122"), ((1, 9, 9), "0111222"), ((9, 1, 1), "0000012"), ((7, 9), "0000111"), ((3, 9), "0001111")],
)
def test_blocks_are_as_equal_as_capacities_allow(capacities: Sequence[int], expected: str) -> None:
    assert "".join(map(str, place_in_blocks(7, capacities))) == expected


@pytest.mark.parametrize(
    ("capacities", "expected"), [((9, 9, 9), "0120120"), ((9, 1, 9), "0120202"), ((0, 9), "1111111")]
)
def test_round_robin_skips_full_hosts(capacities: Sequence[int], expected: str) -> None:
    assert "".join(map(str, place_round_robin(7, capacities))) == expected


@pytest.mark.parametrize(
    ("ranks", "capacities", "interfaces", "expected"),
    [
        (3, (9, 9), (4, 4), "000"),
        (6, (9, 9), (4, 4), "000011"),
        (8, (9, 9), (4, 4), "00001111"),
        (9, (9, 9), (4, 4), "000000001"),
        (5, (2, 9), (4, 4), "00111"),
        (7, (2, 9), (4, 4), "0011111"),
        (0, (2, 9), (4, 4), ""),
    ],
)
def test_rails_fill_every_interface_once_before_any_gets_a_second_rank(
    ranks: int, capacities: Sequence[int], interfaces: Sequence[int], expected: str
) -> None:
    assert "".join(map(str, place_on_rails(ranks, capacities, interfaces))) == expected


def test_a_mapping_is_taken_as_written_and_may_name_more_ranks() -> None:
    assert place_as_mapped(3, {2: 0, 0: 1, 1: 1, 7: 0}, (1, 2)) == [1, 1, 0]


def test_a_mapping_must_name_every_rank() -> None:
    with pytest.raises(PlanError, match="rank 1 has no host: the topology's placement covers only 2 of 3 ranks"):
        place_as_mapped(3, {0: 0, 2: 0}, (9,))


def test_a_mapping_cannot_overfill_a_host() -> None:
    with pytest.raises(PlanError, match=r"the placement puts 3 ranks on hosts\[1\], which has room for 2"):
        place_as_mapped(3, {0: 1, 1: 1, 2: 1}, (9, 2))


def on_two_rails(ranks: int, capacities: Sequence[int]) -> list[int]:
    return place_on_rails(ranks, capacities, [2] * len(capacities))


POLICIES = pytest.mark.parametrize("place", [place_in_blocks, place_round_robin, on_two_rails])


@POLICIES
def test_too_many_ranks_are_refused(place: Callable[[int, Sequence[int]], list[int]]) -> None:
    assert sorted(place(5, (2, 3))) == [0, 0, 1, 1, 1]
    message = "the trace has 6 ranks, but the hosts have room for only 5: add hosts or slots"
    with pytest.raises(PlanError, match=message):
        place(6, (2, 3))


@POLICIES
@given(capacities=st.lists(st.integers(0, 9), min_size=1, max_size=6), data=st.data())
def test_every_rank_has_a_host_and_no_host_too_many(
    place: Callable[[int, Sequence[int]], list[int]], capacities: list[int], data: st.DataObject
) -> None:
    ranks = data.draw(st.integers(0, sum(capacities)))
    placed = place(ranks, capacities)
    assert len(placed) == ranks
    assert all(count <= capacities[host] for host, count in Counter(placed).items())


@given(capacities=st.lists(st.integers(0, 9), min_size=1, max_size=6), data=st.data())
def test_blocks_keep_consecutive_ranks_together(capacities: list[int], data: st.DataObject) -> None:
    placed = place_in_blocks(data.draw(st.integers(0, sum(capacities))), capacities)
    assert placed == sorted(placed)


def test_hosts_without_room_do_not_count_in_shares() -> None:
    assert place_in_blocks(6, [UNLIMITED, 0, UNLIMITED, 0, 0]) == [0, 0, 0, 2, 2, 2]
    assert place_on_rails(4, [UNLIMITED, 0, UNLIMITED], [2, 1, 2]) == [0, 0, 2, 2]
