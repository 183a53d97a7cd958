"""A queue pair: what the pacer, the window and congestion notifications let it send, and what it counts."""

from collections import Counter

import pytest

from emulator.roce.connection.messages import Arrival, ConnectionSettings, Message, Verb
from emulator.roce.connection.queue_pair import PACKET_OVERHEAD_BYTES, QueuePair
from emulator.roce.connection.send_queue import NEVER
from emulator.roce.dcqcn import ReactionPoint, preset
from emulator.roce.pacing import FixedRate
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import Psn


def sent_at_once(pair: QueuePair, now: int) -> list[int]:
    """Packets of every run that may go now; the pair then waits."""
    lengths = []
    while (run := pair.next_run(now, 1000)) is not None:
        lengths.append(run.packets)
    return lengths


def leading_pair(point: ReactionPoint) -> QueuePair:
    pair = QueuePair(ConnectionSettings(path_mtu=1024, window_packets=10_000), congestion=point, lead_ns=5_000_000)
    pair.requester.post(Message(Verb.WRITE, 8 << 20))
    return pair


def test_a_queue_pair_earns_its_lead_by_sending_at_line_rate_without_a_cnp() -> None:
    """A receiver that is congested asks for less within milliseconds; until then little must be on its way."""
    point = ReactionPoint(preset("paper", line_rate_bps=100e6))
    pair = leading_pair(point)
    now, ahead_ns, longest = 0, [], []
    while now < 60_000_000:
        longest.append(max(sent_at_once(pair, now), default=0))
        ahead_ns.append(pair.pacer.next_ns - now)
        now = pair.paced_until
    assert ahead_ns[0] < 2_500_000  # one run, and one more for the lead that it earned
    assert longest[0] == 12  # 1 ms at 100 Mbit/s, of 1,040 bytes each
    assert 9_000_000 < max(ahead_ns) < 10_000_000  # a run of 5 ms, 5 ms before its time
    assert max(longest) == 60  # 5 ms
    assert ahead_ns.index(max(ahead_ns)) > 10

    pair.notified(now)
    sent_at_once(pair, now)
    assert pair.paced_until == pair.pacer.next_ns  # below the line rate there is no lead


def test_a_queue_pair_that_was_cut_earns_its_lead_anew() -> None:
    point = ReactionPoint(preset("paper", line_rate_bps=100e6))
    pair = leading_pair(point)
    now = 0
    while now < 60_000_000:
        sent_at_once(pair, now)
        now = pair.paced_until
    pair.notified(now)
    recovered = now + 10**9
    assert point.rate_bps(recovered) == 100e6
    assert sent_at_once(pair, recovered)[0] == 12


def test_a_queue_pair_sends_shorter_runs_below_line_rate() -> None:
    point = ReactionPoint(preset("paper", line_rate_bps=100e6))
    pair = leading_pair(point)
    sent_at_once(pair, 0)
    point.notified(3_000_000)
    assert sent_at_once(pair, 3_000_001)[0] == 6


def posted(pair: QueuePair, *sizes: int) -> QueuePair:
    for size in sizes:
        pair.requester.post(Message(Verb.WRITE, size))
    return pair


def test_without_a_rate_only_the_window_limits() -> None:
    pair = posted(QueuePair(ConnectionSettings(path_mtu=1024, window_packets=20)), 100 * 1024)
    assert not pair.is_paced
    run = pair.next_run(0, 1000)
    assert run.packets == 20
    assert pair.next_run(0, 1000) is None
    assert pair.paced_until == NEVER  # an answer opens the window, no time does


def test_a_fixed_rate_spaces_runs_by_their_bytes_with_headers() -> None:
    rate_bps = 8e9  # 1 byte per ns
    pair = posted(QueuePair(ConnectionSettings(path_mtu=1024), congestion=FixedRate(rate_bps)), 5 * 1024)
    assert pair.is_paced
    run = pair.next_run(0, 2)
    assert run.packets == 2
    span_ns = 2 * (1024 + PACKET_OVERHEAD_BYTES)
    later = pair.pacer.next_ns
    assert later == span_ns
    assert pair.next_run(later - 1, 2) is None
    assert pair.paced_until == pair.deadline_ns == later
    assert pair.next_run(later, 2) is not None


def test_the_last_packet_of_a_message_is_charged_with_its_own_length() -> None:
    pair = posted(QueuePair(ConnectionSettings(path_mtu=1024), congestion=FixedRate(8e9)), 1024 + 10)
    run = pair.next_run(0, 2)
    assert run.ends_message
    assert pair.pacer.next_ns == 1024 + 10 + 2 * PACKET_OVERHEAD_BYTES


def test_nothing_waits_for_the_pacer_when_nothing_is_left_to_send() -> None:
    pair = posted(QueuePair(ConnectionSettings(path_mtu=1024), congestion=FixedRate(8e6)), 100)
    assert pair.next_run(0, 2) is not None
    assert pair.next_run(1, 2) is None
    assert pair.paced_until == NEVER


def test_messages_that_several_answers_complete_are_fetched_together() -> None:
    pair = posted(QueuePair(ConnectionSettings(path_mtu=1024)), 100, 200, 300)
    assert pair.completed is None
    for _ in range(3):
        pair.next_run(0, 1)
    pair.acknowledge(Psn(0), 0x1F, 1)
    pair.acknowledge(Psn(2), 0x1F, 2)
    assert pair.completed is not None
    assert [message.size for message in pair.completed] == [100, 200, 300]
    pair.completed = None
    pair.acknowledge(Psn(2), 0x1F, 3)
    assert pair.completed == ()  # an answer, which completed nothing


def test_a_queue_pair_sends_a_cnp_per_gap_however_many_packets_are_marked() -> None:
    pair = QueuePair(ConnectionSettings(), cnp_gap_ns=50_000)
    assert [pair.marked(3, now) for now in (0, 49_999, 50_000, 99_999)] == [True, False, True, False]
    assert (pair.ecn_marks, pair.cnps_sent) == (12, 2)


def test_a_cnp_cuts_the_rate_and_is_counted() -> None:
    point = ReactionPoint(preset("paper", line_rate_bps=1e9))
    pair = QueuePair(ConnectionSettings(), congestion=point)
    pair.notified(5)
    assert (pair.cnps_received, point.rate_bps(5)) == (1, 0.5e9)


def test_drops_are_counted_by_reason_with_what_either_end_refused() -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=256))
    assert pair.drops == Counter()
    pair.drop("icrc")
    pair.drop("icrc", 4)
    pair.drop("rkey")
    pair.acknowledge(Psn(7), Syndrome.SEQUENCE_ERROR, 0)  # nothing was sent
    pair.responder.receive(Arrival(Opcode.CNP, Psn(0), packets=2))  # not a packet of a message
    assert pair.drops == {"icrc": 5, "rkey": 1, "refused": 3}


@pytest.mark.parametrize("expect", [0, 5])
def test_both_directions_begin_at_their_own_psn(expect: int) -> None:
    pair = posted(QueuePair(ConnectionSettings(), send_psn=Psn(0xFFFFFF), expect_psn=Psn(expect)), 1, 1)
    runs = [pair.next_run(0, 1) for _ in range(2)]
    assert [run and run.psn for run in runs] == [0xFFFFFF, 0]
    assert pair.responder.expected == expect
