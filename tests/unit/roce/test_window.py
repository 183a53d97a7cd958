from agents.roce.headers import NO_CREDIT_LIMIT, Syndrome
from agents.roce.messages import LEAST_REACH_PACKETS, Arrival, ConnectionSettings, Message, Verb
from agents.roce.opcodes import Opcode
from agents.roce.psn import Psn
from agents.roce.requester import NEVER, Requester
from agents.roce.responder import Responder
from agents.roce.window import LEAST_PACKETS, PATIENCE_NS, SendWindow


def window(most: int = 512) -> SendWindow:
    return SendWindow(most, ack_interval=most // 2, smallest_run=15)


def test_a_loss_halves_it_down_to_a_floor_and_more_of_it_asks_for_acknowledgements() -> None:
    one = window()
    sizes = []
    for _ in range(8):
        one.lost()
        sizes.append((one.packets, one.ack_interval, one.smallest_run))
    assert sizes[:3] == [(256, 64, 15), (128, 32, 15), (64, 16, 8)]
    assert sizes[-1] == (LEAST_PACKETS, 2, 1)


def test_it_grows_in_proportion_to_what_arrives_until_nothing_holds_it_down() -> None:
    one = window()
    one.lost()
    one.acknowledged(256)
    assert one.packets == 256 + 16
    while one.is_reduced:
        one.acknowledged(one.packets)
    assert (one.packets, one.ack_interval, one.smallest_run) == (512, 256, 15)


def test_it_never_exceeds_what_the_settings_allow() -> None:
    one = window(10)
    one.lost()
    assert one.packets == LEAST_PACKETS
    assert [one.open() for _ in range(6)] == [True] * 4 + [False] * 2
    assert one.packets == 10
    tiny = window(2)
    tiny.lost()
    assert (tiny.packets, tiny.is_reduced) == (2, False)


def sender(packets: int, *, window_packets: int = 64) -> Requester:
    requester = Requester(ConnectionSettings(path_mtu=256, window_packets=window_packets, ack_interval=window_packets))
    requester.post(Message(Verb.WRITE, 256 * packets))
    return requester


def sent(requester: Requester, now: int) -> list[tuple[int, int]]:
    runs = []
    while (run := requester.next_run(now, 1000)) is not None:
        runs.append((int(run.psn), run.packets))
    return runs


def test_a_nak_sends_again_from_its_psn_on_and_no_more_than_the_smaller_window() -> None:
    requester = sender(200)
    assert sent(requester, 0) == [(0, 64)]
    requester.acknowledge(Psn(10), Syndrome.SEQUENCE_ERROR, 1)
    runs = sent(requester, 1)
    assert runs[0][0] == 10
    assert sum(count for _, count in runs) == 32
    assert requester.retransmits == 32
    assert len(runs) >= 4  # each run asks for an acknowledgement


def test_a_nak_that_comes_twice_before_anything_was_sent_again_changes_nothing() -> None:
    requester = sender(200)
    sent(requester, 0)
    for _ in range(5):
        requester.acknowledge(Psn(10), Syndrome.SEQUENCE_ERROR, 1)
    assert sum(count for _, count in sent(requester, 1)) == 32


def test_an_acknowledgement_seen_twice_sends_nothing_again() -> None:
    requester = sender(200)
    sent(requester, 0)
    for _ in range(5):
        requester.acknowledge(Psn(9), NO_CREDIT_LIMIT, 1)
    assert sent(requester, 1) == [(64, 10)]
    assert requester.retransmits == 0


def test_a_window_that_stays_full_opens_a_little_after_a_while_and_no_further_than_twice() -> None:
    requester = sender(500)
    sent(requester, 0)
    requester.acknowledge(Psn(10), Syndrome.SEQUENCE_ERROR, 1)
    assert sent(requester, 1)[-1] == (34, 8)
    assert requester.opens_ns == 1 + PATIENCE_NS
    assert sent(requester, PATIENCE_NS) == []
    opened = [sent(requester, 1 + i * PATIENCE_NS) for i in range(1, 7)]
    assert opened == [[(42, 8)], [(50, 8)], [(58, 8)], [(66, 8)], [], []]
    requester.acknowledge(Psn(73), NO_CREDIT_LIMIT, 9 * PATIENCE_NS)
    assert sum(count for _, count in sent(requester, 9 * PATIENCE_NS)) == 36


def test_a_window_that_was_never_reduced_waits_for_an_answer() -> None:
    requester = sender(500)
    sent(requester, 0)
    assert requester.opens_ns == NEVER
    assert sent(requester, 100 * PATIENCE_NS) == []
    requester.handle_timer(requester.deadline_ns)
    assert sum(count for _, count in sent(requester, requester.deadline_ns)) == LEAST_PACKETS


def test_an_answer_to_what_was_never_sent_is_refused_and_a_late_one_is_not() -> None:
    requester = sender(200)
    sent(requester, 0)
    for psn in (64, 1 << 23, (1 << 24) - LEAST_REACH_PACKETS - 2):
        requester.acknowledge(Psn(psn), NO_CREDIT_LIMIT, 1)
    assert requester.refused_packets == 3
    requester.acknowledge(Psn((1 << 24) - 5), Syndrome.SEQUENCE_ERROR, 1)
    assert (requester.refused_packets, requester.naks, requester.in_flight) == (3, 0, 64)


def test_a_packet_beyond_anybodys_window_is_refused_and_draws_no_answer() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    for psn in (LEAST_REACH_PACKETS + 1, 1 << 23, (1 << 24) - LEAST_REACH_PACKETS - 1):
        responder.receive(Arrival(Opcode.RC_WRITE_MIDDLE, Psn(psn), size=256))
    assert (responder.refused_packets, responder.take_reply()) == (3, None)
    responder.receive(Arrival(Opcode.RC_WRITE_MIDDLE, Psn(LEAST_REACH_PACKETS), size=256))
    assert responder.take_reply() == (0, Syndrome.SEQUENCE_ERROR, 0)
