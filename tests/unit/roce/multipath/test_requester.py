"""How packets are dealt to paths, and what is sent again; tests/property/test_multipath.py has the rest."""

from emulator.roce.connection.messages import ConnectionSettings, Message, Verb
from emulator.roce.connection.send_queue import NEVER
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.requester import SPAN_WINDOWS, MultipathRequester
from emulator.roce.multipath.wire import Reason, Report, SelectiveAck
from emulator.roce.wire.psn import Psn

MS = 1_000_000


def requester(*, packets: int, paths: int = 2, window: int = 64, batch: int = 1) -> MultipathRequester:
    settings = ConnectionSettings(path_mtu=256, window_packets=window)
    one = MultipathRequester(settings, Psn(100), health=Health(paths), batch_packets=batch)
    one.post(Message(Verb.WRITE, packets * 256))
    return one


def dealt(one: MultipathRequester, now: int = 0, most: int = 64) -> dict[int, list[int]]:
    run = one.next_run(now, most)
    return {} if run is None else {burst.path: list(burst.packets) for burst in run.bursts}


def ack(psn: int, bits: int = 0, *reports: Report) -> SelectiveAck:
    return SelectiveAck(Psn(psn), 0x1F, 0, bits.to_bytes(8, "little"), reports)


def test_packets_or_batches_take_paths_in_turn() -> None:
    assert dealt(requester(packets=5)) == {0: [0, 2, 4], 1: [1, 3]}
    assert dealt(requester(packets=7, batch=3)) == {0: [0, 1, 2, 6], 1: [3, 4, 5]}


def test_what_later_packets_of_its_path_have_overtaken_is_sent_again() -> None:
    one = requester(packets=20)
    dealt(one)
    one.acknowledge_selectively(ack(99, 0b101010100), MS)  # 2, 4, 6, 8: packet 0 was before all of them
    assert (one.retransmits, one.backlog) == (0, 1)
    assert [*dealt(one, MS).values()] == [[0]]
    assert (one.retransmits, one.paths.lost.tolist()) == (1, [1, 0])


def test_what_arrives_before_it_is_sent_again_was_not_lost() -> None:
    one = requester(packets=20)
    dealt(one)
    one.acknowledge_selectively(ack(99, 0b101010100), MS)
    one.acknowledge_selectively(ack(100, 0b10101010), MS)  # packet 0 was only late
    assert (one.backlog, one.retransmits, one.paths.lost.tolist()) == (0, 0, [0, 0])


def test_a_trimmed_packet_is_sent_again_at_once_and_only_once() -> None:
    one = requester(packets=4)
    dealt(one)
    one.acknowledge_selectively(ack(100, 0), MS)
    report = ack(100, 0, Report(Reason.TRIMMED, Psn(101)))
    one.acknowledge_selectively(report, MS)
    assert dealt(one, MS) == {0: [1]}
    one.acknowledge_selectively(report, MS + 1)  # the same report on another way
    assert (dealt(one, MS + 1), one.paths.trimmed.tolist()) == ({}, [0, 1])


def test_the_window_counts_what_is_in_flight_and_the_span_what_may_pass_a_gap() -> None:
    one = requester(packets=100, window=4)
    assert sum(map(len, dealt(one).values())) == 4
    assert one.is_full
    for last in range(4, 4 * SPAN_WINDOWS + 9):
        one.acknowledge_selectively(ack(99, (1 << last) - 2), MS)
        dealt(one, MS)
    assert one._sent == 4 * SPAN_WINDOWS
    assert one.is_full


def test_a_retired_path_is_probed_with_a_duplicate_and_used_again() -> None:
    one = requester(packets=9, paths=3)
    one.health.retire(1, 0)
    assert dealt(one, now=1) == {0: [0, 2, 4, 6, 8], 2: [1, 3, 5, 7]}
    one.post(Message(Verb.WRITE, 512))
    run = one.next_run(one.health.probe_ns[1], 9)
    (probe,) = (burst for burst in run.bursts if not burst.packets)
    assert (probe.path, probe.psn) == (1, 100 - 1 - 1)
    one.acknowledge_selectively(ack(99, 0, Report(Reason.DUPLICATE, probe.psn)), MS)
    assert one.health.in_use == [0, 1, 2]


def test_a_mark_narrows_the_window_of_its_path_alone() -> None:
    one = requester(packets=40)
    dealt(one)
    one.acknowledge_selectively(ack(99, 0, Report(Reason.MARKED, Psn(101))), MS)
    assert one.paths.window.tolist() == [64.0, 0.7 * 20]
    assert one.paths.marked.tolist() == [0, 1]


def test_silence_sends_everything_in_flight_again_and_nothing_is_awaited_in_the_end() -> None:
    one = requester(packets=3)
    dealt(one)
    due = one.deadline_ns
    one.handle_timer(due - 1)
    assert one.backlog == 0
    one.handle_timer(due)
    assert (one.backlog, one.timeouts, one.health.in_use) == (3, 1, [0, 1])
    dealt(one, due)
    assert [message.packets for message in one.acknowledge_selectively(ack(102), due + 1)] == [3]
    assert (one.deadline_ns, one.is_idle) == (NEVER, True)


def test_answers_to_what_was_never_sent_are_refused() -> None:
    one = requester(packets=3)
    one.acknowledge_selectively(ack(150), 1)
    assert one.refused_packets == 1
