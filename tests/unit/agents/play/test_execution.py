"""One collective on one rank, event by event."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import pytest

from agents.play import tags
from agents.play.execution import Execution
from emulator.errors import LocalProtocolError
from emulator.planner.schedule import Step, Transfer
from emulator.roce.connection.messages import FirstSent
from emulator.roce.constants import LOOKAHEAD_STEPS

SERIAL = 5
RANKS = (10, 11, 12, 13)  # the rank of member m is 10 + m


class Posts:
    """An endpoint that keeps what is posted, as (peer, what, size)."""

    def __init__(self) -> None:
        self.posted: list[tuple[int, str, int]] = []

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        kind, lane, serial = tags.split(tag)
        assert serial == SERIAL
        self.posted.append((peer, "credit" if kind == tags.CREDIT else f"lane {lane}", size))

    def take(self) -> list[tuple[int, str, int]]:
        taken, self.posted = self.posted, []
        return taken


def to(member: int, size: int = 8) -> Transfer:
    return Transfer(member, 0, size)


def step(sends: Iterable[Transfer] = (), recvs: Iterable[Transfer] = ()) -> Step:
    return Step(tuple(sends), tuple(recvs))


def started(*lanes: Sequence[Step], credited: set[int] | None = None, with_credits: bool = True) -> tuple[Any, Posts]:
    posts = Posts()
    execution = Execution(
        posts,  # type: ignore[arg-type]
        [iter(lane) for lane in lanes],
        serial=SERIAL,
        ranks=RANKS,
        credited=(credited or set()) if with_credits else None,
    )
    execution.start()
    return execution, posts


def test_nothing_to_move_is_done_at_once() -> None:
    for lanes in ([], [[]], [[step()], []]):
        execution, posts = started(*lanes)
        assert execution.is_done
        assert (posts.posted, execution.has_posted) == ([], False)


def test_without_credits_sends_go_at_once_and_the_next_step_waits_for_all_receives() -> None:
    execution, posts = started([step([to(1), to(2, 9)], [to(1), to(2)]), step([to(3)])], with_credits=False)
    assert posts.take() == [(11, "lane 0", 8), (12, "lane 0", 9)]
    execution.has_posted = False
    execution.arrived(11, 0, 8, 100)
    assert (posts.take(), execution.has_posted) == ([], False)
    execution.arrived(12, 0, 8, 200)
    assert (posts.take(), execution.has_posted) == ([(13, "lane 0", 8)], True)
    assert (execution.bytes_sent, execution.bytes_received, execution.arrival_ns) == (25, 16, 200)
    for left in (2, 1, 0):
        assert not execution.is_done
        assert execution.waiting_on() == f"{left + 1} acknowledgements"
        execution.acknowledged()
    assert execution.is_done


def test_a_rank_that_posted_before_is_sent_to_at_once_and_others_when_their_credit_comes() -> None:
    execution, posts = started([step([to(1), to(2), to(2, 9)])], credited={11})
    assert posts.take() == [(11, "lane 0", 8)]
    assert execution.waiting_on() == "ranks 12 to post it too"
    execution.credit(12)
    assert posts.take() == [(12, "lane 0", 8), (12, "lane 0", 9)]
    execution.credit(12)
    assert posts.take() == []


def test_a_credit_is_given_once_to_each_peer_that_will_send() -> None:
    lanes = [[step((), [to(1)]), step((), [to(1), to(2)])], [step((), [to(2)]), step([to(3)])]]
    _, posts = started(*lanes)
    assert sorted(posts.take()) == [(11, "credit", 0), (12, "credit", 0)]


def test_credits_run_a_few_steps_ahead_and_no_further() -> None:
    steps = [step((), [to(1)])] * LOOKAHEAD_STEPS + [step((), [to(2)]), step((), [to(3)])]
    execution, posts = started(steps)
    assert posts.take() == [(11, "credit", 0)]
    execution.arrived(11, 0, 8, 1)
    assert posts.take() == [(12, "credit", 0)]
    execution.arrived(11, 0, 8, 2)
    assert posts.take() == [(13, "credit", 0)]


def test_steps_are_made_when_they_are_needed() -> None:
    made = 0

    def endless() -> Iterable[Step]:
        nonlocal made
        for _ in repeat(None):
            made += 1
            yield step((), [to(1)])

    execution, _ = started(endless())  # type: ignore[arg-type]
    for now in range(5):
        execution.arrived(11, 0, 8, now)
    assert made == LOOKAHEAD_STEPS + 5


def test_what_comes_before_its_step_is_kept_for_it() -> None:
    execution, posts = started(
        [step((), [to(1)]), step([to(3)], [to(2), to(2)]), step((), [to(2)])], with_credits=False
    )
    for now in range(3):
        execution.arrived(12, 0, 8, now)
    assert execution.waiting_on() == "payload from ranks 11"
    execution.arrived(11, 0, 8, 3)
    assert posts.take() == [(13, "lane 0", 8)]
    execution.acknowledged()
    assert execution.is_done
    assert execution.bytes_received == 32


@pytest.mark.parametrize("count", range(1, 7))
def test_transfers_that_come_together_are_those_that_come_one_by_one(count: int) -> None:
    steps = [step((), [to(1), to(1), to(2)]), step([to(3)], [to(1)]), step([to(2), to(3)], [to(1), to(1), to(1)])]
    together, posts = started(steps, with_credits=False)
    one_by_one, other_posts = started(steps, with_credits=False)
    for execution in (together, one_by_one):
        execution.arrived(12, 0, 8, 1)
    together.arrived(11, 0, 8, 2, count)
    for _ in range(count):
        one_by_one.arrived(11, 0, 8, 2)
    assert posts.posted == other_posts.posted
    assert together.waiting_on() == one_by_one.waiting_on()
    assert together.bytes_received == one_by_one.bytes_received == 8 + 8 * count
    for execution, made in ((together, posts), (one_by_one, other_posts)):
        for _ in range(6 - count):
            execution.arrived(11, 0, 8, 3)
        for _ in made.posted:
            execution.acknowledged()
        assert execution.is_done


def test_lanes_run_side_by_side() -> None:
    execution, posts = started(
        [step((), [to(1)]), step([to(2)])], [step((), [to(1)]), step([to(2, 9)])], with_credits=False
    )
    execution.arrived(11, 1, 8, 1)
    assert posts.take() == [(12, "lane 1", 9)]
    execution.acknowledged()
    assert not execution.is_done
    execution.arrived(11, 0, 8, 2)
    assert posts.take() == [(12, "lane 0", 8)]
    execution.acknowledged()
    assert execution.is_done


def test_a_lane_that_does_not_exist_is_refused() -> None:
    execution, _ = started([step((), [to(1)])])
    with pytest.raises(LocalProtocolError, match="rank 11 sent on lane 1 of an algorithm with 1"):
        execution.arrived(11, 1, 8, 1)


def test_other_bytes_than_the_algorithm_says_are_refused() -> None:
    execution, _ = started([step((), [to(1, 8)])])
    with pytest.raises(LocalProtocolError, match="a collective of 4 ranks received 7 bytes instead of 8"):
        execution.arrived(11, 0, 7, 1)


def test_more_lanes_than_a_tag_holds_are_refused() -> None:
    started(*[[]] * tags.MAX_LANES)
    with pytest.raises(LocalProtocolError, match="has 65 lanes, at most 64 fit a tag"):
        started(*[[]] * (tags.MAX_LANES + 1))


def test_credits_mean_nothing_where_they_are_off() -> None:
    execution, posts = started([step([to(1)], [to(1)])], with_credits=False)
    posts.take()
    execution.credit(11)
    assert posts.take() == []


def test_silent_ranks_are_named_a_few_of_them() -> None:
    execution, _ = started([step((), [to(3), to(1), to(3)])])
    assert execution.waiting_on() == "payload from ranks 11, 13"
