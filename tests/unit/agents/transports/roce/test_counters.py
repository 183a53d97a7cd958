"""Counters of a flow at both ends of a queue pair."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agents.transports.roce.connection_id import ConnectionId, qp_facts
from agents.transports.roce.counters import HEADER_DROPS, has_events, received, sent
from emulator.roce.connection.messages import Arrival, ConnectionSettings, Message, Verb
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import Psn

FACTS = qp_facts(
    ConnectionId(rank=1, host="192.0.2.2", peer=4, peer_host="192.0.2.5", index=1, qps=1),
    port_policy="fold",
    seed=0,
    rkey=0,
)


def channel(pair: QueuePair) -> Any:
    return SimpleNamespace(pair=pair, facts=FACTS, posted_bytes=5000, posted_messages=2, source_port=50_001)


def test_the_sending_end_counts_packets_sent_and_responses() -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=1024))
    for size in (4000, 1000):
        pair.requester.post(Message(Verb.WRITE, size))
    while pair.next_run(0, 10) is not None:
        pass
    pair.acknowledge(Psn(2), Syndrome.SEQUENCE_ERROR, 100)
    while pair.next_run(200, 10) is not None:
        pass
    pair.acknowledge(Psn(4), 0x1F, 300)
    pair.notified(400)
    row = sent(channel(pair), 1, 4)
    assert (row.src, row.dst, row.qpn, row.source_port) == (1, 4, FACTS.peer_qpn, 50_001)
    assert (row.bytes, row.messages, row.packets, row.retransmits) == (5000, 2, 8, 3)
    assert (row.naks, row.cnps_received, row.timeouts, row.rnr_naks) == (1, 1, 0, 0)
    assert row.rtt_ns is None or row.rtt_ns >= 0


def test_the_receiving_end_counts_packets_and_drops_by_reason() -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=256))
    pair.responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=256, length=1 << 20))
    pair.responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=256, length=1 << 20))
    pair.responder.receive(Arrival(Opcode.RC_WRITE_MIDDLE, Psn(9), size=256))
    for number, reason in enumerate((*HEADER_DROPS, "icrc", "payload"), start=1):
        if reason != "refused":  # counted by requester and responder
            pair.drop(reason, number)
    pair.marked(7, 0)
    row = received(channel(pair), 1, 4)
    assert (row.src, row.dst, row.qpn) == (4, 1, FACTS.qpn)
    assert (row.copies, row.duplicates, row.out_of_order, row.largest_displacement) == (1, 0, 1, 8)
    assert (row.ecn_marks, row.cnps_sent) == (7, 1)
    counted = {reason: number for number, reason in enumerate(HEADER_DROPS, start=1) if reason != "refused"}
    assert row.dropped_header == sum(counted.values())
    assert (row.dropped_icrc, row.dropped_payload) == (len(HEADER_DROPS) + 1, len(HEADER_DROPS) + 2)


def test_only_a_queue_pair_on_which_something_happened_has_events() -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=1024))
    pair.requester.post(Message(Verb.WRITE, 4000))
    while pair.next_run(0, 10) is not None:
        pass
    pair.responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=1024, length=1 << 20))
    assert not has_events(channel(pair))
    pair.acknowledge(Psn(2), Syndrome.SEQUENCE_ERROR, 100)
    assert has_events(channel(pair))


@pytest.mark.parametrize(
    "happens",
    [
        lambda pair: pair.responder.receive(Arrival(Opcode.RC_WRITE_MIDDLE, Psn(9), size=1024)),
        lambda pair: pair.notified(400),
        lambda pair: pair.marked(1, 0),
        lambda pair: pair.drop("icrc", 1),
    ],
    ids=["out of order", "CNP", "mark", "drop"],
)
def test_every_kind_of_event_is_seen_at_its_end(happens: Callable[[QueuePair], object]) -> None:
    pair = QueuePair(ConnectionSettings(path_mtu=1024))
    happens(pair)
    both = (sent(channel(pair), 1, 4), received(channel(pair), 1, 4))
    assert any(row.has_events for row in both)
    assert has_events(channel(pair))
