"""Gaps in the numbers of datagrams."""

from agents.annexes.background.gaps import Gaps, Pauses
from emulator.control.flows import FlowGap


def test_a_gap_lasts_from_the_last_datagram_to_the_next_one() -> None:
    gaps = Gaps()
    gaps.came(0, 100, 5)
    gaps.came(1, 200, 7)
    gaps.came(5, 700, 25)
    assert gaps.found() == [FlowGap(200, 700, 3, 20)]
    assert (gaps.next, gaps.last_ns) == (6, 700)


def test_what_is_only_late_is_no_gap() -> None:
    gaps = Gaps()
    for number, at_ns in ((0, 100), (3, 300), (1, 310), (2, 320), (4, 900)):
        gaps.came(number, at_ns, None)
    assert gaps.found() == []


def test_the_longest_gaps_are_kept_in_the_order_of_time() -> None:
    gaps = Gaps(most=2)
    for number, at_ns in ((0, 0), (2, 50), (4, 60), (6, 90)):
        gaps.came(number, at_ns, None)
    assert [(one.start_ns, one.end_ns) for one in gaps.found()] == [(0, 50), (60, 90)]


def test_the_end_of_a_sender_shows_what_was_lost_before_it() -> None:
    gaps = Gaps()
    gaps.ended(4, 50)
    assert gaps.found() == []  # nothing came before: from when on is not known
    gaps = Gaps()
    gaps.came(0, 10, 3)
    gaps.ended(4, 50)
    gaps.ended(4, 70)
    assert gaps.found() == [FlowGap(10, 50, 3)]


def test_a_sender_pauses_when_it_sends_nothing_for_more_than_one_and_a_half_intervals() -> None:
    pauses = Pauses(100)
    for at_ns in (1_000, 1_100, 1_250, 1_401, 1_401, 9_000):
        pauses.sent(at_ns)
    assert pauses.found() == [FlowGap(1_250, 1_401, 0), FlowGap(1_401, 9_000, 0)]


def test_the_longest_pauses_are_kept_in_the_order_of_time() -> None:
    pauses = Pauses(10, most=2)
    for at_ns in (50, 250, 280, 480, 500, 800):
        pauses.sent(at_ns)
    assert [(one.start_ns, one.end_ns) for one in pauses.found()] == [(280, 480), (500, 800)]


def test_a_sender_whose_intervals_vary_does_not_pause() -> None:
    pauses = Pauses(None)
    pauses.sent(1)
    pauses.sent(10**12)
    assert pauses.found() == []
