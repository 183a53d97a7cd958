"""Migration of a queue pair to its alternate path and back, without sockets."""

from random import Random

import pytest

from emulator.roce.connection.messages import Arrival, ConnectionSettings, Message, Verb
from emulator.roce.connection.migration import ALTERNATE, PRIMARY, PROBE_INTERVAL_NS, PROBES_TO_RETURN, PathState
from emulator.roce.connection.requester import Requester
from emulator.roce.connection.responder import Responder
from emulator.roce.connection.send_queue import NEVER
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import Psn, add

MESSAGES = 40
SETTINGS = ConnectionSettings(path_mtu=1024, window_packets=16, ack_interval=4, retry_count=2)


def exhaust(requester: Requester) -> int:
    """Answer nothing until retries are exhausted; returns the time."""
    now = 0
    while requester.failure is None:
        while requester.next_run(now, 8) is not None:
            pass
        now = requester.deadline_ns
        requester.handle_timer(now)
    return now


@pytest.mark.parametrize("lost_from", [0, 1, 17, MESSAGES - 1])
@pytest.mark.parametrize("are_answers_lost", [False, True])
def test_every_message_is_delivered_once_whatever_the_psn_of_the_migration(
    lost_from: int, are_answers_lost: bool
) -> None:
    first = Psn(Random(lost_from).getrandbits(24))
    requester, responder = Requester(SETTINGS, first), Responder(SETTINGS, first)
    for number in range(MESSAGES):
        requester.post(Message(Verb.WRITE_IMM, 100, address=number, imm=1))
    done: list[Message] = []
    now, path, sent = 0, PathState(), 0
    while not requester.is_idle:
        while (run := requester.next_run(now, 1)) is not None:
            sent += 1
            is_lost = path.path == PRIMARY and sent > lost_from
            if is_lost and not are_answers_lost:
                continue
            responder.receive(
                Arrival(Opcode.RC_WRITE_ONLY_IMM, run.psn, 1, 100, run.ack_request, run.message.address, 0, 100, 1)
            )
            if (reply := responder.take_reply()) is not None and not is_lost:
                done += requester.acknowledge(reply.psn, reply.syndrome, now, None)
        if not requester.is_idle:
            now = requester.deadline_ns
            requester.handle_timer(now)
            if requester.failure is not None:
                assert path.exhausted(now, 16)
                requester.migrate(now)
    assert [one.address for one in done] == list(range(MESSAGES))
    assert [one.address for one in responder.delivered] == list(range(MESSAGES))
    assert [one.path for one in path.moves] == [ALTERNATE]


def test_a_peer_that_answers_on_neither_path_has_failed() -> None:
    requester, path = Requester(SETTINGS), PathState()
    requester.post(Message(Verb.WRITE_IMM, 100, address=1, imm=1))
    now = exhaust(requester)
    assert path.exhausted(now, 16)
    requester.migrate(now)
    assert requester.failure is None
    run = requester.next_run(now, 8)  # at once, not after another timeout
    assert (run.psn, run.is_again) == (requester.oldest_psn, True)
    while requester.failure is None:
        while requester.next_run(now, 8) is not None:
            pass
        now = requester.deadline_ns
        requester.handle_timer(now)
    assert not path.exhausted(now, 16)


def test_a_refused_queue_pair_does_not_migrate() -> None:
    requester = Requester(SETTINGS)
    requester.post(Message(Verb.WRITE_IMM, 100, address=1, imm=1))
    run = requester.next_run(0, 1)
    requester.acknowledge(run.psn, 0x62, 1)
    requester.migrate(2)
    assert requester.failure is not None


def test_traffic_moves_back_after_probes_in_a_row_and_not_before() -> None:
    path = PathState()
    assert path.exhausted(7, 16)
    answers = [True, True, False, *[True] * PROBES_TO_RETURN]
    for is_answered in answers:
        assert path.probe(path.probe_ns)
        if is_answered:
            path.heard()
    back_ns = path.probe_ns
    assert not path.probe(back_ns)
    assert (path.path, path.probe_ns) == (PRIMARY, NEVER)
    assert [tuple(one) for one in path.moves] == [
        (7, ALTERNATE, 16),
        (7 + (len(answers) + 1) * PROBE_INTERVAL_NS, PRIMARY, 16),
    ]


def test_a_probe_delivers_nothing_and_leaves_what_is_owed_as_it_is() -> None:
    first = Psn(9)
    responder = Responder(SETTINGS, first, is_probed=True)
    responder.receive(Arrival(Opcode.RC_WRITE_ONLY, add(first, -1), 1, 0, True, 0, 0, 0, 0))
    assert responder.take_reply() is None
    assert (responder.acknowledgement().psn, responder.delivered, responder.expected) == (add(first, -1), [], first)
    assert (responder.probes, responder.duplicates, responder.copies) == (1, 0, 0)


def test_without_a_second_path_an_empty_write_that_comes_again_is_like_any_other() -> None:
    found = []
    for size in (0, 8):
        first, responder = Psn(9), Responder(SETTINGS, Psn(9))
        for _ in range(2):
            responder.receive(Arrival(Opcode.RC_WRITE_ONLY, first, 1, size, True, 0, 0, size, 0))
        reply = responder.take_reply()
        assert reply is not None
        found.append((reply, responder.probes, responder.duplicates, responder.copies))
    assert found[0] == found[1]
    assert found[0][1:] == (0, 0, 1)


def test_a_path_that_answers_is_returned_to_when_the_other_one_is_lost() -> None:
    path = PathState()
    assert path.exhausted(7, 16)
    assert path.probe(path.probe_ns)
    assert not path.exhausted(path.probe_ns - 1, 16)  # neither has answered
    path.heard()
    assert path.probe(path.probe_ns)  # answered once, and asked again
    assert path.exhausted(path.probe_ns - 1, 16)
    assert (path.path, path.probe_ns) == (PRIMARY, NEVER)
    assert path.exhausted(path.moves[-1].at_ns + 1, 16)
    assert path.path == ALTERNATE
    assert not path.exhausted(path.probe_ns - 1, 16)  # an answer counts for one return
