"""What queue pairs carried by time: every byte in the bin in which it was taken, in bounded memory."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from agents.nic.timeline import QueuePairBins, TimelineLog
from agents.transports.roce.endpoint import ConnectionId, qp_facts
from emulator.control.observations import Timeline, TimelineFlow
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.options import RoceOptions, timeline_bin_ns_after

FACTS = qp_facts(ConnectionId(1, "192.0.2.2", 0, "192.0.2.1", 1, 1), port_policy="fold", seed=0, rkey=7)
IN, OUT = TimelineFlow(0, 1, FACTS.qpn), TimelineFlow(1, 0, FACTS.peer_qpn)
BIN_NS = 1000


def rows(timeline: Timeline) -> list[tuple[TimelineFlow, int, int, int, int]]:
    columns = (timeline.start_ns, timeline.bytes, timeline.retransmits, timeline.ecn_marks)
    flows = [timeline.flows[number] for number in timeline.flow]
    return list(zip(flows, *(one.tolist() for one in columns), strict=True))


@pytest.fixture
def log() -> TimelineLog:
    found = TimelineLog(BIN_NS)
    found.most_rows = 1 << 10
    return found


def queue_pair(log: TimelineLog) -> tuple[QueuePair, QueuePairBins]:
    pair = QueuePair(RoceOptions().connection(window_packets=20))
    return pair, log.follow(pair, FACTS, rank=1, peer=0)


def take(pair: QueuePair, bins: QueuePairBins, at_ns: Sequence[int], size: int = 100) -> None:
    """Receptions of that many bytes."""
    ends_ns = 0
    for now in at_ns:
        if now >= ends_ns:
            ends_ns = bins.turn(now)
            assert ends_ns - BIN_NS <= now < ends_ns
        pair.responder.taken_bytes += size


def test_what_is_taken_counts_in_the_bin_of_its_reception(log: TimelineLog) -> None:
    pair, bins = queue_pair(log)
    take(pair, bins, [5300, 5999, 6000, 9100])
    assert rows(log.report()) == [(IN, 5000, 200, 0, 0), (IN, 6000, 100, 0, 0), (IN, 9000, 100, 0, 0)]


def test_the_sender_counts_what_it_sends_again_and_the_receiver_marks(log: TimelineLog) -> None:
    pair, bins = queue_pair(log)
    bins.turn(5300)
    pair.requester.retransmits += 3
    pair.ecn_marks += 2
    bins.turn(7000)
    pair.requester.retransmits += 1
    assert rows(log.report()) == [(IN, 5000, 0, 0, 2), (OUT, 5000, 0, 3, 0), (OUT, 7000, 0, 1, 0)]


def test_a_report_in_the_midst_of_a_bin_loses_nothing(log: TimelineLog) -> None:
    pair, bins = queue_pair(log)
    take(pair, bins, [5300])
    assert rows(log.report()) == [(IN, 5000, 100, 0, 0)]
    pair.responder.taken_bytes += 7
    assert rows(log.report()) == [(IN, 5000, 107, 0, 0)]


def test_bins_become_longer_until_the_rows_fit(log: TimelineLog) -> None:
    pair, bins = queue_pair(log)
    random, now, ends_ns, most = Random(5), 0, 0, 0
    for _ in range(20_000):
        now += random.randrange(3 * BIN_NS)
        if now >= ends_ns:
            ends_ns = bins.turn(now)
        pair.responder.taken_bytes += 10
        most = max(most, len(log._rows) // 5)
    found = log.report()
    assert most <= log.most_rows
    assert found.bin_ns == log.bin_ns == 32 * BIN_NS
    assert not (found.start_ns % found.bin_ns).any()
    assert found.bytes.sum() == 200_000
    assert (np.diff(found.start_ns) > 0).all()


@pytest.mark.parametrize("flows", [1, 5, 16])
@pytest.mark.parametrize("length", [60, 1_600, 2_000, 9_999])
@pytest.mark.parametrize("turn", [7, 1 << 20])
def test_bins_become_as_long_as_a_plan_says_or_half(log: TimelineLog, flows: int, length: int, turn: int) -> None:
    """In iterations of so many bins."""
    pairs = [QueuePair(RoceOptions().connection(window_packets=20)) for _ in range(flows)]
    bins = [log.follow(one, FACTS, rank=1, peer=2 + peer) for peer, one in enumerate(pairs)]
    now = ends_ns = most = 0
    while now < length * BIN_NS:
        for one, its in zip(pairs, bins, strict=True):
            ends_ns = its.turn(now)
            one.responder.taken_bytes += 1
            most = max(most, len(log._rows) // 5)
        now = ends_ns
        if now // BIN_NS % turn == 0:
            log.tidy()
    found = log.report()
    assert most <= log.most_rows
    planned = timeline_bin_ns_after(BIN_NS, flows=flows, duration_ns=length * BIN_NS, rows=log.most_rows)
    assert planned in (found.bin_ns, 2 * found.bin_ns)


def test_every_flow_keeps_a_row_however_little_memory_there_is(log: TimelineLog) -> None:
    log.most_rows = 1
    others = [QueuePair(RoceOptions().connection(window_packets=20)) for _ in range(50)]
    bins = [log.follow(one, FACTS, rank=1, peer=2 + peer) for peer, one in enumerate(others)]
    for now in range(0, 100 * BIN_NS, BIN_NS):
        for one, its in zip(others, bins, strict=True):
            its.turn(now)
            one.responder.taken_bytes += 1
    found = log.report()
    assert found.bytes.sum() == 5000
    assert len(set(found.flow.tolist())) == 50


def test_between_iterations_there_is_room_again(log: TimelineLog) -> None:
    pair, bins = queue_pair(log)
    take(pair, bins, range(0, 800 * BIN_NS, BIN_NS))
    log.tidy()
    assert log.bin_ns == 2 * BIN_NS
    assert len(log._rows) // 5 == 400
