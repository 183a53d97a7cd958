"""What a requester sends, sends again and gives up; the window alone is in test_pacing.py."""

from emulator.roce.connection.messages import LEAST_REACH_PACKETS, ConnectionSettings, Message, Verb
from emulator.roce.connection.requester import Requester
from emulator.roce.connection.send_queue import NEVER
from emulator.roce.tuning import LEAST_PACKETS_AFTER_LOSS, PATIENCE_NS
from emulator.roce.wire.headers import NO_CREDIT_LIMIT, Syndrome
from emulator.roce.wire.psn import Psn


def sender(packets: int, *, window_packets: int = 64) -> Requester:
    requester = Requester(ConnectionSettings(path_mtu=256, window_packets=window_packets, ack_interval=window_packets))
    requester.post(Message(Verb.WRITE, 256 * packets))
    return requester


def sent(requester: Requester, now: int) -> list[tuple[int, int]]:
    runs = []
    while (run := requester.next_run(now, 1000)) is not None:
        runs.append((int(run.psn), run.packets))
    return runs


def test_the_end_of_a_message_goes_at_once_and_a_small_piece_of_one_waits_for_the_window() -> None:
    requester = Requester(ConnectionSettings(path_mtu=256, window_packets=64, ack_interval=64, smallest_run=8))
    for packets in (30, 3, 28, 20):
        requester.post(Message(Verb.WRITE, 256 * packets))
    assert sent(requester, 0) == [(0, 30), (30, 3), (33, 28)], "3 packets would fit the window"
    requester.acknowledge(Psn(4), NO_CREDIT_LIMIT, 1)
    assert sent(requester, 1) == [(61, 8)]


def test_nothing_is_awaited_before_the_first_packet_and_after_the_last_acknowledgement() -> None:
    requester = sender(4)
    assert requester.deadline_ns == NEVER
    sent(requester, 7)
    assert 7 < requester.deadline_ns < NEVER
    requester.acknowledge(Psn(3), NO_CREDIT_LIMIT, 8)
    assert requester.deadline_ns == NEVER


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
    assert sum(count for _, count in sent(requester, requester.deadline_ns)) == LEAST_PACKETS_AFTER_LOSS


def test_an_answer_to_what_was_never_sent_is_refused_and_a_late_one_is_not() -> None:
    requester = sender(200)
    sent(requester, 0)
    for psn in (64, 1 << 23, (1 << 24) - LEAST_REACH_PACKETS - 2):
        requester.acknowledge(Psn(psn), NO_CREDIT_LIMIT, 1)
    assert requester.refused_packets == 3
    requester.acknowledge(Psn((1 << 24) - 5), Syndrome.SEQUENCE_ERROR, 1)
    assert (requester.refused_packets, requester.naks, requester.in_flight) == (3, 0, 64)


def test_an_answer_ends_the_count_of_timeouts_in_a_row() -> None:
    requester = sender(200)
    sent(requester, 0)
    retries = ConnectionSettings().retry_count
    for answered in range(5):
        for _ in range(retries):
            requester.handle_timer(requester.deadline_ns)
            sent(requester, requester.deadline_ns)
        requester.acknowledge(Psn(answered), NO_CREDIT_LIMIT, requester.deadline_ns)
    assert (requester.failure, requester.timeouts) == (None, 5 * retries)
    for _ in range(retries + 1):
        assert requester.failure is None
        requester.handle_timer(requester.deadline_ns)
    assert requester.failure is not None
    assert requester.deadline_ns == NEVER


def test_silence_lasts_over_timeouts_until_something_is_acknowledged() -> None:
    requester = sender(200)
    sent(requester, 5)
    assert requester.silent_since_ns == 5
    requester.acknowledge(Psn(0), NO_CREDIT_LIMIT, 7)
    for _ in range(3):
        requester.handle_timer(requester.deadline_ns)
        sent(requester, requester.deadline_ns)
        assert requester.silent_since_ns == 7
    requester.acknowledge(Psn(1), NO_CREDIT_LIMIT, 10**9)
    assert requester.silent_since_ns == 10**9


def test_time_that_the_owner_was_held_up_is_silence_all_the_same() -> None:
    requester = sender(200)
    sent(requester, 5)
    for now in (1_000, 2_000):  # twice in a row
        due = requester.deadline_ns
        requester.defer_timeout(300, now)
        assert (requester.deadline_ns, requester.silent_since_ns) == (due + 300, 5)
    requester.handle_timer(requester.deadline_ns)
    assert requester.silent_since_ns == 5
    requester.acknowledge(Psn(0), NO_CREDIT_LIMIT, 10**9)
    assert requester.silent_since_ns == 10**9


def test_the_packets_of_a_message_count_as_they_are_acknowledged() -> None:
    requester = sender(200)
    requester.post(Message(Verb.WRITE_IMM, 300))
    assert requester.unacknowledged_bytes == 200 * 256 + 300
    sent(requester, 0)
    requester.acknowledge(Psn(9), NO_CREDIT_LIMIT, 1)
    assert requester.unacknowledged_bytes == 190 * 256 + 300
    for psn in (73, 137, 199, 200):
        sent(requester, 2)
        requester.acknowledge(Psn(psn), NO_CREDIT_LIMIT, 2)
    assert requester.unacknowledged_bytes == 256 + 44 - 256
    sent(requester, 3)
    requester.acknowledge(Psn(201), NO_CREDIT_LIMIT, 3)
    assert (requester.unacknowledged_bytes, requester.is_idle) == (0, True)


def test_where_packets_go_slowly_an_acknowledgement_is_asked_for_well_within_a_timeout() -> None:
    settings = ConnectionSettings(path_mtu=256, window_packets=4096, ack_interval=2048, timeout_exponent=14)
    requester = Requester(settings)
    requester.post(Message(Verb.WRITE, 256 * 4096))
    start, asked = 10**9, []
    for number in range(200):
        now = start + number * 1_000_000
        run = requester.next_run(now, 1)
        if run.ack_request:
            asked.append(now)
            requester.acknowledge(run.psn, NO_CREDIT_LIMIT, now)
    gaps = [after - before for before, after in zip([start, *asked], asked, strict=False)]
    assert max(gaps) <= settings.timeout_ns // 4
    assert len(asked) < 30, "not every packet"


def test_a_pause_between_messages_makes_none_of_them_ask_early() -> None:
    requester = Requester(ConnectionSettings(path_mtu=256, window_packets=64, ack_interval=32))
    for number in range(3):
        requester.post(Message(Verb.WRITE, 256 * 8))
        now = (number + 1) * 10**9
        runs = [requester.next_run(now, 2) for _ in range(4)]
        assert [run is not None and run.ack_request for run in runs] == [False, False, False, True]
        requester.acknowledge(Psn(8 * number + 7), NO_CREDIT_LIMIT, now)


def test_a_path_that_always_loses_the_same_packet_is_given_up_although_naks_keep_coming() -> None:
    requester, now = sender(20), 0
    while requester.failure is None:
        assert now < 5_000_000_000
        sent(requester, now)
        now += 100_000  # a round trip
        if requester.deadline_ns <= now:
            requester.handle_timer(now)
        requester.acknowledge(Psn(0), Syndrome.SEQUENCE_ERROR, now)
    settings = ConnectionSettings()
    assert requester.timeouts == settings.retry_count + 1
    assert now < 28 * settings.timeout_ns  # 27 times the nominal value, as without an answer
    assert requester.silent_since_ns <= 100_000


def test_a_packet_that_is_sent_again_has_the_whole_timeout_once_more() -> None:
    requester = sender(200)
    sent(requester, 0)
    requester.acknowledge(Psn(10), Syndrome.SEQUENCE_ERROR, 1_000)
    sent(requester, 50_000)
    assert requester.deadline_ns == 50_000 + ConnectionSettings().timeout_ns
    requester.acknowledge(Psn(10), Syndrome.SEQUENCE_ERROR, 60_000)
    sent(requester, 70_000)
    assert requester.deadline_ns == 50_000 + ConnectionSettings().timeout_ns


def test_a_window_that_is_overfull_opens_until_something_more_goes() -> None:
    settings = ConnectionSettings(path_mtu=4096, window_packets=2048, ack_interval=1024, smallest_run=15)
    requester, now = Requester(settings), 68_000_000
    requester.post(Message(Verb.WRITE, 4096 * 100_000))
    sent(requester, 0)
    requester.handle_timer(requester.deadline_ns)
    sent(requester, now)
    for _ in range(4):
        now += PATIENCE_NS
        sent(requester, now)
    requester.acknowledge(Psn(0), NO_CREDIT_LIMIT, now + 1)
    assert sent(requester, now + 1) == []  # half of what is on its way is beyond the window
    more = []
    while requester.opens_ns != NEVER:
        more += sent(requester, requester.opens_ns)
    assert more


def test_an_acknowledgement_is_requested_as_soon_as_an_interval_is_full() -> None:
    requester = Requester(ConnectionSettings(window_packets=64, ack_interval=4))
    requester.post(Message(Verb.WRITE, 20 * 4096))
    runs = [requester.next_run(0, most) for most in (3, 1, 4)]
    assert [run and run.ack_request for run in runs] == [False, True, True]


def test_a_pause_of_the_owner_never_lies_in_the_future() -> None:
    settings = ConnectionSettings()
    requester = Requester(settings)
    requester.post(Message(Verb.WRITE, 100))
    assert requester.next_run(100, 1) is not None
    requester.defer_timeout(10**12, 200)
    assert requester.deadline_ns == 200 + settings.timeout_ns


def test_of_a_run_that_goes_on_after_a_loss_only_what_went_before_counts_as_sent_again() -> None:
    requester = Requester(ConnectionSettings(window_packets=20, ack_interval=10))
    requester.post(Message(Verb.WRITE, 10 * 4096))
    assert requester.next_run(0, 5) is not None
    requester.acknowledge(Psn(2), Syndrome.SEQUENCE_ERROR, 1)
    runs = [requester.next_run(2, 10) for _ in range(2)]
    assert [run and (run.offset, run.packets) for run in runs] == [(2, 2), (4, 2)]
    assert (requester.retransmits, requester.sent_packets) == (3, 9)


def test_an_answer_to_what_was_sent_twice_is_no_sample_of_the_round_trip() -> None:
    settings = ConnectionSettings()
    requester = Requester(settings)
    requester.post(Message(Verb.WRITE, 100))
    assert requester.next_run(0, 1) is not None
    requester.handle_timer(settings.timeout_ns)
    assert requester.next_run(settings.timeout_ns, 1) is not None
    requester.acknowledge(Psn(0), 0x1F, settings.timeout_ns + 5)
    assert (requester.is_idle, requester.rtt_ns) == (True, None)
