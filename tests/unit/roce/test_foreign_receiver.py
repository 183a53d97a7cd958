"""Packets of a peer that is not ours: any operation, any payload, any IP ID."""

import pytest

from emulator.roce.connection.foreign_receiver import ForeignReceiver
from emulator.roce.connection.memory import Memory, MemoryRegion
from emulator.roce.connection.messages import ConnectionSettings, Message, Reply, Verb
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.wire.headers import Aeth, Bth, Deth, Extension, ImmDt, Reth, Syndrome
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode, PacketOperation
from emulator.roce.wire.packet import CNP_PAYLOAD, Packet, pack_icrc, pack_packet, pad_bytes
from emulator.roce.wire.psn import Psn

SOURCE, DESTINATION = bytes((10, 99, 0, 2)), bytes((10, 99, 0, 9))
QPN, PORT, PSN, RKEY = 0x11, 50_000, Psn(0xFFFFFE), 77
V6 = bytes((0xFD, 0x99, *bytes(13)))


class End:
    """A queue pair and what it received."""

    def __init__(self, *, is_v6: bool = False) -> None:
        source, destination = (V6 + b"\2", V6 + b"\x09") if is_v6 else (SOURCE, DESTINATION)
        self.path = UdpPath(source, destination, PORT)
        self.region = MemoryRegion(rkey=RKEY, address=1 << 40, length=1024, content=bytearray(1024))
        self.pair = QueuePair(
            ConnectionSettings(path_mtu=256), send_psn=PSN, expect_psn=PSN, memory=Memory([self.region])
        )
        self.taken: list[Packet] = []
        self.refused: list[Packet] = []
        self.receiver = ForeignReceiver(
            self.pair,
            source=source,
            destination=destination,
            qpn=QPN,
            sink=self.taken.append,
            refused=self.refused.append,
        )

    def packet(
        self,
        opcode: Opcode,
        *extensions: Extension,
        psn: int = PSN,
        payload: bytes = b"",
        ip_id: int = 0,
        flipped: int = 0,
        **fields: int,
    ) -> bytes:
        bth = Bth(opcode, Psn(psn & 0xFFFFFF), fields.pop("qpn", QPN), pad=pad_bytes(len(payload)))
        for name, value in fields.items():
            setattr(bth, name, value)
        packet = pack_packet(bth, *extensions, payload=payload)
        return packet + pack_icrc(icrc(self.path, packet, ip_id=ip_id) ^ flipped)

    def receive(self, *packets: bytes) -> list[bytes]:
        stride = len(packets[0])
        return [bytes(one) for one in self.receiver.receive(memoryview(b"".join(packets)), stride, PORT, 5)]


@pytest.mark.parametrize("is_v6", [False, True])
@pytest.mark.parametrize("size", [0, 1, 255, 256])
def test_a_send_of_any_payload_is_delivered(size: int, *, is_v6: bool) -> None:
    end, payload = End(is_v6=is_v6), bytes(range(256))[:size]
    end.receive(end.packet(Opcode.RC_SEND_ONLY_IMM, ImmDt(9), payload=payload))
    (delivered,) = end.pair.responder.delivered
    assert (delivered.operation, delivered.size, delivered.imm) == (PacketOperation.SEND, size, 9)
    assert [one.payload for one in end.taken] == ([payload] if size else [])
    assert end.pair.drops == {}


@pytest.mark.parametrize("ip_id", [1, 0x1234, 0xFFFF])
def test_the_ip_id_of_ipv4_can_be_any(ip_id: int) -> None:
    end = End()
    end.receive(end.packet(Opcode.RC_SEND_ONLY, payload=b"abc", ip_id=ip_id))
    assert len(end.pair.responder.delivered) == 1


def test_a_write_over_several_packets_is_delivered_with_its_place() -> None:
    end = End()
    first = end.packet(Opcode.RC_WRITE_FIRST, Reth(1 << 40, RKEY, 300), payload=bytes(range(256)))
    last = end.packet(Opcode.RC_WRITE_LAST, psn=PSN + 1, payload=b"z" * 44)
    end.receive(first)
    assert end.pair.responder.delivered == []
    end.receive(last)
    (delivered,) = end.pair.responder.delivered
    assert (delivered.operation, delivered.address, delivered.size) == (PacketOperation.WRITE, 1 << 40, 300)
    assert end.region.content == bytes(range(256)) + b"z" * 44 + bytes(1024 - 300)


def test_a_duplicate_and_a_packet_after_a_gap_do_not_reach_the_sink() -> None:
    end = End()
    send = end.packet(Opcode.RC_SEND_ONLY, payload=b"abcd")
    end.receive(send, send)
    end.receive(end.packet(Opcode.RC_SEND_ONLY, psn=PSN + 5, payload=b"efgh"))
    assert [one.payload for one in end.taken] == [b"abcd"]
    assert end.pair.responder.take_reply() == Reply(PSN + 1, Syndrome.SEQUENCE_ERROR, 1)
    assert (end.pair.responder.copies, end.pair.responder.naks) == (1, 1)


def test_a_read_request_owes_responses_of_the_length_requested() -> None:
    end = End()
    end.receive(end.packet(Opcode.RC_READ_REQUEST, Reth(1 << 40, RKEY, 600)))
    assert end.pair.responder.owes_responses
    run = end.pair.responder.next_response(99)
    assert (run.psn, run.packets, run.total, run.last_bytes) == (PSN, 3, 3, 88)
    assert not end.pair.responder.owes_responses


def test_an_ack_and_read_responses_complete_messages() -> None:
    end = End()
    send, read = Message(Verb.SEND, 10), Message(Verb.READ, 300)
    for message in (send, read):
        end.pair.requester.post(message)
    while end.pair.next_run(0, 10) is not None:
        pass
    end.receive(end.packet(Opcode.RC_ACK, Aeth(0x1F, 1)))
    assert end.pair.completed == [send]
    end.pair.completed = None
    end.receive(end.packet(Opcode.RC_READ_RESPONSE_FIRST, Aeth(0x1F, 2), psn=PSN + 1, payload=bytes(256)))
    assert not end.pair.completed
    end.receive(end.packet(Opcode.RC_READ_RESPONSE_LAST, Aeth(0x1F, 2), psn=PSN + 2, payload=bytes(44)))
    assert end.pair.completed == [read]


def test_the_payload_of_a_read_reaches_the_sink_once_and_in_order() -> None:
    end = End()
    end.pair.requester.post(Message(Verb.READ, 600))
    assert end.pair.next_run(0, 1) is not None
    middle = end.packet(Opcode.RC_READ_RESPONSE_MIDDLE, psn=PSN + 1, payload=b"b" * 256)
    end.receive(middle)  # before the first one: it will be requested again
    end.receive(end.packet(Opcode.RC_READ_RESPONSE_FIRST, Aeth(0x1F, 1), payload=b"a" * 256))
    end.receive(middle)
    end.receive(middle)
    end.receive(end.packet(Opcode.RC_READ_RESPONSE_LAST, Aeth(0x1F, 1), psn=PSN + 2, payload=b"c" * 88))
    assert b"".join(bytes(one.payload) for one in end.taken) == b"a" * 256 + b"b" * 256 + b"c" * 88


def test_a_nak_sends_again() -> None:
    end = End()
    end.pair.requester.post(Message(Verb.SEND, 10))
    assert end.pair.next_run(0, 10) is not None
    end.receive(end.packet(Opcode.RC_ACK, Aeth(0x60, 0)))
    assert (end.pair.requester.naks, end.pair.requester.backlog) == (1, 1)


def test_a_notification_is_counted() -> None:
    end = End()
    end.receive(end.packet(Opcode.CNP, psn=0, payload=CNP_PAYLOAD, becn=True))
    end.receive(end.packet(Opcode.CNP, psn=0, payload=CNP_PAYLOAD))
    assert (end.pair.cnps_received, end.pair.drops) == (1, {"header": 1})


@pytest.mark.parametrize(
    ("reason", "packet"),
    [
        ("icrc", lambda end: end.packet(Opcode.RC_SEND_ONLY, payload=b"abc", flipped=1)),
        ("header", lambda end: end.packet(Opcode.RC_SEND_ONLY, payload=b"abc", p_key=0x8001)),
        ("header", lambda end: end.packet(Opcode.RC_SEND_ONLY, payload=b"abc", version=1)),
        ("opcode", lambda end: end.packet(Opcode.UD_SEND_ONLY, Deth(1, 2), payload=b"abc")),
        ("opcode", lambda end: b"\x1f" + end.packet(Opcode.RC_SEND_ONLY)[1:]),
        ("length", lambda end: end.packet(Opcode.RC_SEND_ONLY)[:9]),
        ("length", lambda end: end.packet(Opcode.RC_ACK, Aeth(0x1F, 1), payload=b"abcd")),
    ],
)
def test_what_is_wrong_is_dropped_and_counted_by_reason(reason: str, packet: object) -> None:
    end = End()
    end.receive(packet(end))  # type: ignore[operator]
    assert end.pair.drops == {reason: 1}
    assert end.pair.responder.delivered == end.taken == []


@pytest.mark.parametrize("opcode", [Opcode.UC_SEND_ONLY, Opcode.UC_WRITE_FIRST, Opcode.UD_SEND_ONLY])
def test_packets_of_another_transport_service_are_dropped_and_shown(opcode: Opcode) -> None:
    end = End()
    extensions = (Deth(1, 2),) if opcode is Opcode.UD_SEND_ONLY else ()
    extensions += (Reth(0, 1, 512),) if opcode is Opcode.UC_WRITE_FIRST else ()
    end.receive(end.packet(opcode, *extensions, payload=bytes(256)))
    end.receive(end.packet(Opcode.RC_SEND_ONLY, payload=b"abcd"))
    assert [one.meaning.service.name for one in end.refused] == [opcode.name[:2]]
    assert (end.pair.drops, len(end.taken)) == ({"opcode": 1}, 1)


def test_packets_of_other_queue_pairs_are_returned() -> None:
    end = End()
    other, own = end.packet(Opcode.RC_SEND_ONLY, qpn=99), end.packet(Opcode.RC_SEND_ONLY)
    assert end.receive(other, own, other) == [other, other]
    assert len(end.pair.responder.delivered) == 1
