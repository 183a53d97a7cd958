"""Acknowledgements, notifications, and what is neither; tests/unit/agents/nic/test_spray.py has data."""

import pytest

from emulator.roce.connection.messages import ConnectionSettings, Message, Verb
from emulator.roce.multipath.queue_pair import MultipathPair
from emulator.roce.multipath.receiver import MultipathReceiver
from emulator.roce.multipath.wire import SelectiveAck
from emulator.roce.wire.framing import BTH, ICRC, Framing
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.payload import Payload
from emulator.roce.wire.psn import Psn

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
    assert (one.pair.responder.trimmed, dict(one.pair.drops)) == (2, {})


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
