"""What had still to move after the last post, against times worked out by hand: 8 ns a byte, no headers."""

import random
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.network.fluid_simulation import lanes_of
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.ideal_times import group_times_ns
from emulator.planner.network.late_ranks import LateRanks, RemainingTimes
from emulator.planner.traffic.operation import Operation, Traffic, TrafficPlace
from emulator.planner.traffic.phase import Phase
from emulator.topology.model import Domain, Host, Topology
from emulator.trace.meaning.model import CommKind as K

NO_OVERHEAD, GBIT = WireOverhead(1, 1), 10**9
TWO_A_HOST, ONE_A_HOST = (0, 0, 1, 1), (0, 1, 2, 3)
KB_NS = 8_000  # 1,000 bytes


def topology(places: Sequence[int], *, rate: int | None = GBIT, domain: Domain | None = None) -> Topology:
    hosts = [Host(f"h{number}", rate, domain=domain) for number in range(max(places) + 1)]
    return Topology("t", hosts, tuple(places), ("127.0.0.1",) * len(places))


def operation(kind: K, algorithm: str, size_bytes: int, ranks: int = 4) -> Operation:
    return Operation("", kind, algorithm, size_bytes, np.arange(ranks).reshape(1, -1), np.ones(1, np.int64))


def remaining(
    kind: K, algorithm: str, size: int, places: Sequence[int], posts: Sequence[int], **bounds: int
) -> int | None:
    return LateRanks(operation(kind, algorithm, size), topology(places), NO_OVERHEAD, **bounds).remaining_ns(0, posts)


@pytest.mark.parametrize(
    ("late_ns", "left_kb"),
    [
        (0, 4),  # each of two ranks sends 1 KB to each of the two over there
        (KB_NS, 3),  # meanwhile each port passed 1 KB of what the other three exchange
        (2 * KB_NS, 2),  # all 2 KB between ranks 0, 1 and 2 that cross ports
        (1_000 * KB_NS, 2),  # and nothing else can
    ],
)
def test_the_others_exchange_what_does_not_need_the_late_rank(late_ns: int, left_kb: int) -> None:
    posts = (70, 70, 70, 70 + late_ns)
    assert remaining(K.ALL_TO_ALL, "parallel", 4_000, TWO_A_HOST, posts) == left_kb * KB_NS


def test_steps_that_wait_for_the_late_rank_stay() -> None:
    # pairwise: 1 > 2 and 2 > 0 cross; 0 waits for 3, so 0 > 2 of its second step does not. Three of four each way stay.
    assert remaining(K.ALL_TO_ALL, "pairwise", 4_000, TWO_A_HOST, (0, 0, 0, 10**9)) == 3 * KB_NS


def test_a_ring_needs_all_of_the_late_ranks_port() -> None:
    # 3 > 0 crosses in all six steps, none of which can begin.
    assert remaining(K.ALL_REDUCE, "ring", 4_000, TWO_A_HOST, (0, 0, 0, 10**9)) == 6 * KB_NS
    assert remaining(K.ALL_REDUCE, "ring", 4_000, ONE_A_HOST, (0, 0, 0, 10**9)) == 6 * KB_NS


def test_of_a_broadcast_only_the_copy_for_the_late_leaf_is_left() -> None:
    assert remaining(K.BROADCAST, "parallel", 1_000, ONE_A_HOST, (0, 0, 0, 0)) == 3 * KB_NS
    assert remaining(K.BROADCAST, "parallel", 1_000, ONE_A_HOST, (0, 0, 0, 10**9)) == 1 * KB_NS
    assert remaining(K.BROADCAST, "parallel", 1_000, ONE_A_HOST, (10**9, 0, 0, 0)) == 3 * KB_NS


def test_what_was_possible_later_had_less_time() -> None:
    # Rank 2 posts 1 KB of time before rank 3: of the 2 KB each way that it makes possible, one has passed.
    assert remaining(K.ALL_TO_ALL, "parallel", 4_000, TWO_A_HOST, (0, 0, 9 * KB_NS, 10 * KB_NS)) == 3 * KB_NS


def test_the_collective_before_occupied_the_ports_of_those_it_kept() -> None:
    late = LateRanks(operation(K.ALL_TO_ALL, "parallel", 4_000), topology(TWO_A_HOST), NO_OVERHEAD)
    posts = (0, 0, 0, 2 * KB_NS)
    assert late.remaining_ns(0, posts) == 2 * KB_NS
    assert late.remaining_ns(0, posts, (-5, -5, -5, -5)) == 2 * KB_NS
    # Rank 3 was kept until its post, or until half of its lateness was over: its port carried that.
    assert late.remaining_ns(0, posts, (-5, -5, -5, 2 * KB_NS)) == 4 * KB_NS
    assert late.remaining_ns(0, posts, (-5, -5, -5, 1 * KB_NS)) == 3 * KB_NS


def test_nothing_is_left_where_nothing_crosses_a_port() -> None:
    assert remaining(K.ALL_TO_ALL, "parallel", 4_000, (0, 0, 0, 0), (0, 0, 0, 5)) == 0


def test_a_port_without_a_rate_leaves_it_open() -> None:
    found = LateRanks(operation(K.ALL_TO_ALL, "parallel", 4_000), topology(TWO_A_HOST, rate=None), NO_OVERHEAD)
    assert found.remaining_ns(0, (0, 0, 0, 9)) is None


def test_a_domain_has_ports_of_its_own() -> None:
    on = topology((0, 0, 0, 0), rate=None, domain=Domain(8 * GBIT, latency_ns=0))
    late = LateRanks(operation(K.ALL_TO_ALL, "parallel", 4_000), on, NO_OVERHEAD)
    assert late.remaining_ns(0, (0, 0, 0, 0)) == 3_000  # each sends three blocks of 1 KB, 1 ns a byte
    assert late.remaining_ns(0, (0, 0, 0, 10**9)) == 3_000  # rank 3 still does
    assert late.remaining_ns(0, (0, 0, 10**9, 10**9)) == 3_000


def test_uneven_blocks_count_as_they_are() -> None:
    matrix = np.array([[0, 10, 2_000, 30], [40, 0, 50, 60], [70, 80, 0, 90], [100, 110, 120, 0]])
    senders, receivers = np.nonzero(matrix)
    uneven = replace(
        operation(K.ALL_TO_ALL, "pairwise", 2_040), splits=Phase(senders, receivers, matrix[senders, receivers])
    )
    late = LateRanks(uneven, topology(ONE_A_HOST), NO_OVERHEAD)
    assert late.remaining_ns(0, (0, 0, 0, 0)) == (2_000 + 50 + 120) * 8  # into rank 2
    parallel = LateRanks(replace(uneven, algorithm="parallel"), topology(ONE_A_HOST), NO_OVERHEAD)
    assert parallel.remaining_ns(0, (0, 0, 0, 10**9)) == (100 + 110 + 120) * 8


def test_of_large_groups_only_what_is_left_in_any_case_is_told() -> None:
    late = (0, 0, 0, 10**9)
    assert remaining(K.ALL_REDUCE, "ring", 4_000, TWO_A_HOST, late, most_transfers=3) == 6 * KB_NS
    assert remaining(K.ALL_TO_ALL, "parallel", 4_000, TWO_A_HOST, late, most_transfers=3) is None


_KINDS = [
    (K.ALL_REDUCE, "ring"),
    (K.ALL_REDUCE, "halving_doubling"),
    (K.ALL_TO_ALL, "parallel"),
    (K.ALL_TO_ALL, "pairwise"),
    (K.BROADCAST, "ring"),
    (K.BROADCAST, "tree"),
    (K.REDUCE, "tree"),
    (K.ALL_GATHER, "ring"),
    (K.GATHER, "parallel"),
]


def of_workload(places: Sequence[int], one: Operation, whole_ns: int, **bounds: int) -> RemainingTimes:
    traffic = Traffic(len(places), [one], places=[TrafficPlace(0, 0)])
    return RemainingTimes(traffic, topology(places), NO_OVERHEAD, np.array([whole_ns]), **bounds)


def test_a_roofline_gets_what_is_left_for_its_posts() -> None:
    times = of_workload(TWO_A_HOST, operation(K.ALL_TO_ALL, "parallel", 4_000), 4 * KB_NS)
    assert times.instances == {0}
    assert times.remaining_ns(0, {0: 5, 1: 5, 2: 5, 3: 5}) == 4 * KB_NS
    assert times.remaining_ns(0, {0: 0, 3: 10**9, 1: 0, 2: 0}) == 2 * KB_NS
    bounded = of_workload(TWO_A_HOST, operation(K.ALL_TO_ALL, "parallel", 4_000), 4 * KB_NS, most_followed=3)
    assert bounded.remaining_ns(0, {0: 0, 1: 0, 2: 0, 3: KB_NS}) == 3 * KB_NS
    assert bounded.remaining_ns(0, {0: 0, 1: 0, 2: 0, 3: 10**9}) == 0


@pytest.mark.parametrize(
    ("kind", "algorithm", "places", "can_shrink"),
    [
        (K.ALL_REDUCE, "ring", ONE_A_HOST, False),
        (K.ALL_REDUCE, "ring", TWO_A_HOST, True),
        (K.ALL_REDUCE, "tree", ONE_A_HOST, True),
        (K.BROADCAST, "parallel", ONE_A_HOST, True),
    ],
)
def test_alike_members_with_ports_of_their_own_are_not_followed(
    kind: K, algorithm: str, places: Sequence[int], can_shrink: bool
) -> None:
    assert bool(of_workload(places, operation(kind, algorithm, 4_000), 1).instances) is can_shrink


class Playout:
    """A network that carries one transfer at a time through each port, in a random order."""

    def __init__(self, one: Operation, places: Sequence[int], posts: Sequence[int], rng: random.Random) -> None:
        self.lanes = {(m, n): list(lane) for m in range(one.members) for n, lane in enumerate(lanes_of(one, m))}
        self.places, self.posts, self.rng = places, posts, rng
        self.step = dict.fromkeys(self.lanes, 0)
        self.missing: dict[tuple[int, int], list[int]] = {}
        self.came: dict[tuple[int, int], list[int]] = {lane: [] for lane in self.lanes}
        self.waiting: list[tuple[int, int, int, int]] = []
        self.present: set[int] = set()

    def last_arrival_ns(self) -> int:
        """Time of the last arrival, a byte taking 8 ns through both ports."""
        events = [(post, "post", (member,)) for member, post in enumerate(self.posts)]
        heapify(events)
        busy: set[tuple[str, int]] = set()
        last = 0
        while events:
            now, what, facts = heappop(events)
            if what == "post":
                self.present.add(facts[0])
                for lane in self.lanes:
                    if lane[0] == facts[0]:
                        self.advance(lane)
            else:
                sender, receiver, number = facts
                busy -= self.ports(sender, receiver)
                last = now
                self.came[receiver, number].append(sender)
                self.advance((receiver, number))
            self.rng.shuffle(self.waiting)
            for one in list(self.waiting):
                sender, receiver, number, size = one
                ports = self.ports(sender, receiver)
                if {sender, receiver} <= self.present and not ports & busy:
                    busy |= ports
                    self.waiting.remove(one)
                    heappush(events, (now + (8 * size if ports else 0), "through", (sender, receiver, number)))
        return last

    def ports(self, sender: int, receiver: int) -> set[tuple[str, int]]:
        ends = self.places[sender], self.places[receiver]
        return set() if ends[0] == ends[1] else {("out", ends[0]), ("in", ends[1])}

    def advance(self, lane: tuple[int, int]) -> None:
        member, number = lane
        if member not in self.present:
            return
        while True:
            for sender in list(self.came[lane]):
                if sender in self.missing.get(lane, []):
                    self.missing[lane].remove(sender)
                    self.came[lane].remove(sender)
            if self.missing.get(lane) or self.step[lane] == len(self.lanes[lane]):
                return
            step = self.lanes[lane][self.step[lane]]
            self.step[lane] += 1
            self.waiting += [(member, one.peer, number, one.size) for one in step.sends]
            self.missing[lane] = [one.peer for one in step.recvs]


def drawn(data: st.DataObject) -> tuple[Operation, list[int], list[int]]:
    kind, algorithm = data.draw(st.sampled_from(_KINDS))
    ranks = data.draw(st.sampled_from([2, 4, 8]))
    places = data.draw(st.lists(st.integers(0, 2), min_size=ranks, max_size=ranks))
    posts = data.draw(st.lists(st.integers(0, 40_000), min_size=ranks, max_size=ranks))
    hosts = [sorted(set(places)).index(one) for one in places]
    return operation(kind, algorithm, 8 * data.draw(st.integers(1, 500)), ranks), hosts, posts


@given(st.data())
def test_no_network_is_faster(data: st.DataObject) -> None:
    one, places, posts = drawn(data)
    left = LateRanks(one, topology(places), NO_OVERHEAD).remaining_ns(0, posts)
    last = Playout(one, places, posts, random.Random(data.draw(st.integers(0, 99)))).last_arrival_ns()
    assert left <= max(0, last - max(posts))


@given(st.data())
def test_it_is_between_all_bytes_and_all_that_the_skew_leaves(data: st.DataObject) -> None:
    """No less than all bytes without what a port passes within the skew, no more than all; more lateness, less left."""
    found, places, posts = drawn(data)
    on = topology(places)
    (whole,) = group_times_ns(found, on, NO_OVERHEAD)
    left = LateRanks(found, on, NO_OVERHEAD).remaining_ns(0, posts)
    assert max(0, whole - (max(posts) - min(posts))) <= left <= whole
    last = posts.index(max(posts))
    later = [post + 10_000 * (member == last) for member, post in enumerate(posts)]
    more = LateRanks(found, on, NO_OVERHEAD).remaining_ns(0, later)
    assert more <= left
