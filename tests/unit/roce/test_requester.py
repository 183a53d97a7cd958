"""A message of one packet that goes at once is as though it had been posted and taken as a run."""

from agents.roce.headers import NO_CREDIT_LIMIT, Syndrome
from agents.roce.messages import ConnectionSettings, Message, Verb
from agents.roce.psn import Psn
from agents.roce.requester import Requester

SETTINGS = ConnectionSettings(window_packets=4, ack_interval=2)


def message(key: int) -> Message:
    return Message(Verb.WRITE_IMM, 10, key=key)


def state(requester: Requester) -> dict[str, object]:
    return {name: getattr(requester, name) for name in Requester.__slots__ if name not in ("_messages", "_window")}


def test_it_leaves_the_state_that_post_and_run_leave() -> None:
    one, other = Requester(SETTINGS, initial_psn=0xFFFFFF), Requester(SETTINGS, initial_psn=0xFFFFFF)
    for now in (5, 6, 7):
        psn = one.start(message(now), now)
        other.post(message(now))
        run = other.next_run(now, 64)
        assert run is not None
        assert psn == run.psn
        assert state(one) == state(other)
    for requester in (one, other):
        assert [m.key for m in requester.acknowledge(Psn(0), NO_CREDIT_LIMIT, 9)] == [5, 6]
    assert state(one) == state(other)


def test_it_waits_behind_what_was_posted_and_for_the_window() -> None:
    requester = Requester(SETTINGS)
    requester.post(message(0))
    assert requester.start(message(1), 0) is None
    assert requester.next_run(0, 64) is not None
    for key in (1, 2, 3):
        assert requester.start(message(key), 0) == key
    assert requester.start(message(4), 0) is None
    assert requester.in_flight == 4
    assert requester.backlog == 0


def test_it_waits_until_what_goes_again_has_gone() -> None:
    requester = Requester(SETTINGS)
    for key in (0, 1):
        requester.start(message(key), 0)
    assert requester.acknowledge(Psn(0), Syndrome.SEQUENCE_ERROR, 1) == ()
    assert requester.start(message(2), 2) is None
    run = requester.next_run(2, 64)
    assert run is not None
    assert run.is_again


def test_time_in_which_nobody_looked_is_no_silence() -> None:
    requester = Requester(SETTINGS)
    requester.start(message(0), 0)
    due = requester.deadline_ns
    requester.held_up(10_000, 20_000)
    assert requester.deadline_ns == due + 10_000
    requester.held_up(10**12, 30_000)
    assert requester.deadline_ns == due + 30_000
