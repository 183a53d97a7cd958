"""Acknowledgements, notifications, and what is neither; tests/unit/agents/nic/test_spray.py has data."""

import pytest

from emulator.roce.connection.messages import ConnectionSettings, Message, Verb
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.receiver import MultipathPair, MultipathReceiver
from emulator.roce.multipath.wire import Placed, Reason, SelectiveAck
from emulator.roce.pacing import FixedRate
from emulator.roce.wire.framing import BTH, ICRC, Framing
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.payload import Payload
from emulator.roce.wire.psn import Psn


def test_marked_packets_cause_a_notification_and_are_named() -> None:
    pair = MultipathPair(ConnectionSettings())
    pair.placer.begin()
    pair.placer.place(Placed(Psn(0), 0, 0, 10, None, True, 28))
    assert pair.marked(1, 10**9)
    ack = pair.responder.take_reply()
    assert isinstance(ack, SelectiveAck)
    assert (pair.ecn_marks, ack.reports) == (1, [(Reason.MARKED, 0)])


def test_a_rate_paces_the_packets_of_all_paths_together() -> None:
    pair = MultipathPair(ConnectionSettings(path_mtu=1024), congestion=FixedRate(8e6), health=Health(4))
    pair.requester.post(Message(Verb.WRITE, 1 << 20))
    run = pair.next_run(10**9, 64)
    assert run is not None
    assert pair.next_run(10**9, 64) is None
    assert pair.paced_until > 10**9


SOURCE, DESTINATION, PORT, QPN = bytes(4), bytes((127, 0, 0, 1)), 50_000, 9
PATH = UdpPath(SOURCE, DESTINATION, PORT)


def receiver() -> MultipathReceiver:
    pair = MultipathPair(ConnectionSettings(path_mtu=1024))
    return MultipathReceiver(
        pair, Payload(path_mtu=1024), source=SOURCE, destination=DESTINATION, qpn=QPN, rkey=0, verify_every=1
    )


def receive(one: MultipathReceiver, packet: bytes) -> None:
    one.receive(memoryview(packet), len(packet), PORT, 10)


def whole(packet: bytes) -> bytes:
    return packet + ICRC.pack(icrc(PATH, packet))


def test_an_acknowledgement_completes_messages() -> None:
    one = receiver()
    one.pair.requester.post(Message(Verb.WRITE, 100))
    one.pair.next_run(0, 9)
    receive(one, whole(SelectiveAck(Psn(0), 0x1F, 1).pack(QPN)))
    assert [message.size for message in one.pair.completed or ()] == [100]


def test_a_notification_is_for_congestion_control() -> None:
    one = receiver()
    receive(one, bytes(Framing(PATH, QPN, one.payload).notification()))
    assert one.pair.cnps_received == 1


def test_trimmed_answers_are_counted() -> None:
    one = receiver()
    receive(one, SelectiveAck(Psn(0), 0x1F, 1, b"\2\0\0\0").pack(QPN)[:20])
    receive(one, bytes(Framing(PATH, QPN, one.payload).notification())[:20])
    assert (one.pair.placer.trimmed, dict(one.pair.drops)) == (2, {})


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (bytes(3), "length"),
        (BTH.pack(Opcode.RC_ACK, 0, 0xFFFF, QPN, 0) + bytes(4), "opcode"),
        (BTH.pack(Opcode.RC_WRITE_ONLY, 1, 0xFFFF, QPN, 0) + bytes(20), "header"),
        (SelectiveAck(Psn(0), 0x1F, 1).pack(QPN) + bytes(4), "icrc"),
        (whole(SelectiveAck(Psn(0), 0x1F, 1).pack(QPN) + bytes(4)), "length"),
    ],
    ids=["short", "opcode", "version", "icrc", "long"],
)
def test_what_is_wrong_is_dropped_by_reason(packet: bytes, reason: str) -> None:
    one = receiver()
    receive(one, packet)
    assert one.pair.drops == {reason: 1}
