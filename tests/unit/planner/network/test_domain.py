"""Transfers inside a scale-up domain, on integer times."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.network.domain import DomainModel
from emulator.topology.model import Domain

ONE_BYTE_PER_NS = Domain(8 * 10**9)
Posted = tuple[int, int, int, int]
"""(when, sender, receiver, bytes)"""
POSTED = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 3), st.integers(0, 3), st.integers(0, 400)), min_size=1, max_size=12
).map(sorted)


def play(domain: Domain, posted: Sequence[Posted], *, looks: Iterable[int] = ()) -> dict[int, int]:
    """When each transfer arrives, by its index; the model is looked at whenever it asks for it, and at `looks`."""
    model: DomainModel[int] = DomainModel(domain)
    found: dict[int, int] = {}

    def until(now_ns: int) -> None:
        while (next_ns := model.next_ns) is not None and next_ns <= now_ns:
            arrived = model.arrivals(next_ns)
            found.update({number: at_ns for at_ns, number in arrived})

    moments = [(when, number) for number, (when, *_) in enumerate(posted)] + [(when, -1) for when in looks]
    for when, number in sorted(moments):
        until(when)
        if number >= 0:
            _, sender, receiver, size_bytes = posted[number]
            model.post(sender, receiver, size_bytes, number, now_ns=when)
        else:
            assert model.arrivals(when) == []
    until(1 << 60)
    return found


@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 1), (0, 2), (0, 3)], [(1, 0), (2, 0), (3, 0)], [(2, 2)]])
@pytest.mark.parametrize("rate_bps", [8 * 10**9, 3_600 * 10**9, 7 * 10**9])
def test_transfers_from_or_to_one_rank_take_their_sum_and_the_latency(
    pairs: list[tuple[int, int]], rate_bps: int
) -> None:
    at_ns, size_bytes, rounds = 10**16 + 1, 1 << 20, 5
    arrived = play(Domain(rate_bps, 2_000), [(at_ns, *pair, size_bytes) for pair in pairs * rounds])
    transfers = len(pairs) * rounds
    exact_ns = transfers * size_bytes * 8 * 10**9 / rate_bps + 2_000
    assert max(arrived.values()) - at_ns == math.ceil(exact_ns - 1e-3)
    assert len(arrived) == transfers


def test_pairs_with_ports_of_their_own_do_not_wait_for_each_other() -> None:
    ring = [(0, rank, (rank + 1) % 4, 100) for rank in range(4)]
    assert set(play(ONE_BYTE_PER_NS, ring).values()) == {100}


def test_a_port_is_shared_equally_by_those_that_are_active() -> None:
    assert play(ONE_BYTE_PER_NS, [(0, 0, 1, 100), (0, 0, 3, 100), (0, 2, 1, 100)]) == {0: 200, 1: 200, 2: 200}
    assert play(ONE_BYTE_PER_NS, [(0, 0, 1, 100), (50, 0, 2, 100)]) == {0: 150, 1: 200}


def test_the_more_crowded_port_decides() -> None:
    posted = [(0, 0, 1, 120), (0, 0, 2, 120), (0, 0, 3, 120), (0, 4, 1, 120)]
    assert play(ONE_BYTE_PER_NS, posted) == {0: 360, 1: 360, 2: 360, 3: 240}  # a third of a port, and a half


def test_control_waits_for_nothing() -> None:
    domain = Domain(8 * 10**9, 7)
    assert play(domain, [(0, 0, 1, 100), (10, 0, 1, 0), (11, 0, 1, 0)]) == {0: 107, 1: 17, 2: 18}


def test_what_a_rank_that_leaves_has_under_way_is_forgotten() -> None:
    model: DomainModel[str] = DomainModel(ONE_BYTE_PER_NS)
    for name, sender, receiver in (("a", 0, 1), ("b", 0, 1), ("c", 1, 2), ("d", 0, 2)):
        model.post(sender, receiver, 100, name, now_ns=0)
    assert sorted(model.drop(1)) == ["a", "b", "c"]
    assert [(one.at_ns, one.transfer) for one in model.arrivals(1_000)] == [(100, "d")]
    assert model.next_ns is None


def test_bytes_that_are_through_count_before_their_transfer_arrives() -> None:
    model: DomainModel[str] = DomainModel(ONE_BYTE_PER_NS)
    model.post(0, 1, 100, "a", now_ns=0)
    model.post(0, 2, 100, "b", now_ns=0)
    assert (model.under_way_bytes(0, now_ns=50), model.under_way_bytes(1, now_ns=50)) == (50, 0)


@given(POSTED, st.sampled_from([Domain(8 * 10**9), Domain(3 * 10**9, 11), Domain(3_600 * 10**9, 3)]))
def test_all_arrive_in_order_and_no_port_is_faster_than_it_is(posted: list[Posted], domain: Domain) -> None:
    arrived = play(domain, posted)
    assert sorted(arrived) == list(range(len(posted)))
    byte_ns = 8 * 10**9 / domain.rate_bps
    for end in (1, 2):
        load: Counter[int] = Counter()
        for one in posted:
            load[one[end]] += one[3]
        for rank, size_bytes in load.items():
            own = [number for number, one in enumerate(posted) if one[end] == rank and one[3]]
            if own:
                span_ns = max(arrived[number] for number in own) - min(posted[number][0] for number in own)
                assert span_ns + 1e-3 >= size_bytes * byte_ns + domain.latency_ns
    for pair in {one[1:3] for one in posted}:
        times = [arrived[number] for number, one in enumerate(posted) if one[1:3] == pair and one[3]]
        assert times == sorted(times)


@given(POSTED, st.lists(st.integers(0, 600), max_size=5))
def test_looking_changes_nothing(posted: list[Posted], looks: list[int]) -> None:
    domain = Domain(3 * 10**9, 5)
    assert play(domain, posted, looks=looks) == play(domain, posted)
