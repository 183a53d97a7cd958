"""The oldest request that is open, as responses come."""

from emulator.annexes.bench_kit.audit.tracking import Acknowledged


def test_nothing_is_known_before_the_first_response() -> None:
    state = Acknowledged()
    state.expect_responses(5, 8)
    assert (state.oldest, state.accepted) == (None, None)


def test_an_acknowledgement_closes_everything_before_it() -> None:
    state = Acknowledged()
    state.accept_before(10)
    state.accept_before(7)
    assert state.oldest == 10


def test_an_acknowledgement_does_not_close_a_read() -> None:
    state = Acknowledged()
    state.expect_responses(5, 8)
    state.accept_before(10)
    assert (state.oldest, state.accepted) == (5, 10)


def test_a_read_closes_packet_by_packet() -> None:
    state = Acknowledged()
    state.expect_responses(5, 8)
    oldest = []
    for psn in (5, 6, 7):
        state.answer(psn)
        oldest.append(state.oldest)
    assert oldest == [6, 7, 8]


def test_a_response_accepts_the_requests_before_it() -> None:
    state = Acknowledged()
    state.expect_responses(5, 8)
    state.answer(5)
    assert state.accepted == 6


def test_a_lost_response_keeps_its_read_open_until_it_comes() -> None:
    state = Acknowledged()
    state.expect_responses(5, 8)
    state.expect_responses(8, 9)
    for psn in (5, 7, 8):
        state.answer(psn)
    assert state.oldest == 6
    state.answer(6)
    assert state.oldest == 9


def test_the_older_of_two_reads_counts_in_any_order_of_the_capture() -> None:
    state = Acknowledged()
    state.expect_responses(8, 9)
    state.expect_responses(5, 8)
    state.accept_before(20)
    assert state.oldest == 5


def test_a_repeated_response_changes_nothing() -> None:
    state = Acknowledged()
    state.expect_responses(5, 7)
    for psn in (5, 6, 5, 6):
        state.answer(psn)
    assert state.oldest == 7
