"""The one way in: what is due is taken where it stands, what is special is looked at, what is wrong is dropped."""

import dataclasses
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from emulator.roce.connection.messages import Arrival, Message, Reply, Verb
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.connection.receiver import Receiver
from emulator.roce.options import RoceOptions
from emulator.roce.tuning import KNOWN_PORTS
from emulator.roce.wire.framing import ICRC, Framing
from emulator.roce.wire.headers import Bth
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.payload import Payload, Staging
from emulator.roce.wire.psn import Psn, add

PORT, COUNT, PSN, QPN, RKEY = 50_000, 30, Psn(9), 16, 77
SOURCE, DESTINATION = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
PATH = UdpPath(SOURCE, DESTINATION, PORT)


class End:
    """A queue pair whose peer has sent the FIRST packet of a message of so many; PSN is next."""

    def __init__(
        self, *, verify_every: int = 16, seed: int | None = None, receiver: str = "gbn", packets: int = 1 << 12,
        path_mtu: int = 4096, call_bytes: int = 0,
    ) -> None:  # fmt: skip
        settings = RoceOptions(receiver=receiver, path_mtu=path_mtu).connection(window_packets=200)
        self.payload = Payload(path_mtu=path_mtu, seed=seed, call_bytes=call_bytes)
        self.staging, self.framing = Staging(self.payload), Framing(PATH, QPN, self.payload)
        self.stride = self.payload.packet_bytes
        self.pair = QueuePair(settings, expect_psn=add(PSN, -1))
        self.responder = self.pair.responder
        self.receiver = Receiver(
            self.pair, self.payload, source=SOURCE, destination=DESTINATION, qpn=QPN, rkey=RKEY,
            verify_every=verify_every,
        )  # fmt: skip
        if packets:
            self.responder.receive(
                Arrival(Opcode.RC_WRITE_FIRST, self.responder.expected, 1, path_mtu, length=packets * path_mtu)
            )

    def run(self, psn: int = PSN, *, count: int = COUNT, asks: bool = False, ends: bool = False) -> bytearray:
        """MIDDLE packets on end, the first one packet 1 of its message."""
        self.framing.middles(self.staging, Psn(psn), self.payload.slot(1), count, asks, ends, are_cut=True)
        return bytearray(b"".join(self.staging.pieces(self.payload.slot(1), count)))

    def receive(self, packets: bytes | bytearray, stride: int = 0) -> list[bytes]:
        others = self.receiver.receive(memoryview(packets), stride or self.stride, PORT, 0)
        return [bytes(one) for one in others]

    def taken(self) -> int:
        return self.responder.expected - PSN


def reseal(packet: bytearray, ip_id: int = 0) -> bytearray:
    """With a right ICRC."""
    packet[-4:] = ICRC.pack(icrc(PATH, bytes(packet[:-4]), ip_id=ip_id))
    return packet


@pytest.mark.parametrize("seed", [None, 3], ids=["constant", "random"])
@pytest.mark.parametrize("path_mtu", [1024, 4096])
def test_packets_that_are_due_are_taken_together(path_mtu: int, seed: int | None) -> None:
    end = End(path_mtu=path_mtu, seed=seed)
    assert end.receive(end.run()) == []
    assert end.taken() == COUNT
    assert end.responder.received_bytes == (1 + COUNT) * path_mtu
    end.receive(end.run())
    assert (end.taken(), end.responder.copies, dict(end.pair.drops)) == (COUNT, COUNT, {})


@pytest.mark.parametrize("path_mtu", [1024, 4096])
def test_a_full_last_packet_ends_the_message_and_asks(path_mtu: int) -> None:
    end = End(packets=1 + COUNT, path_mtu=path_mtu)
    end.receive(end.run(asks=True, ends=True))
    assert end.taken() == COUNT
    assert [one.size for one in end.responder.delivered] == [(1 + COUNT) * path_mtu]
    assert end.responder.is_urgent


def test_an_ack_request_inside_a_run_is_seen() -> None:
    end = End()
    packets = end.run(count=10, asks=True) + end.run(PSN + 10, count=10)
    end.receive(packets)
    assert (end.taken(), end.responder.is_urgent) == (20, True)


def test_what_follows_the_end_of_a_message_that_is_longer_breaks_the_connection() -> None:
    end = End(packets=2 + COUNT)
    end.receive(end.run(ends=True))
    assert end.responder.is_broken


def test_packets_beyond_the_message_break_the_connection_only_with_a_right_icrc() -> None:
    end = End(packets=1 + COUNT)
    packets = end.run()
    packets[end.stride - 1] ^= 1
    end.receive(packets[: 2 * end.stride])
    assert not end.responder.is_broken
    end = End(packets=1)
    end.receive(end.run())
    assert end.responder.is_broken


def test_every_header_counts() -> None:
    end = End(verify_every=1 << 20)
    packets = end.run()
    packets[7 * end.stride + 1] |= 1  # another transport version
    end.receive(packets)
    assert (end.taken(), dict(end.pair.drops)) == (7, {"header": 1})
    assert end.responder.early_packets == COUNT - 8


def test_packets_for_another_queue_pair_are_handed_back() -> None:
    end = End()
    other = Framing(PATH, QPN + 1, end.payload)
    other.middles(end.staging, Psn(500), 0, 2, False, False, are_cut=True)
    theirs = b"".join(end.staging.pieces(0, 2))
    mine = end.run(count=4)
    stranger = bytes(theirs)
    others = end.receive(mine[: 2 * end.stride] + stranger + mine[2 * end.stride :])
    assert b"".join(others) == stranger
    assert end.taken() == 4


def test_a_shorter_packet_behind_merged_ones_is_looked_at_alone() -> None:
    end = End(packets=4)
    end.receive(end.run(count=2) + end.framing.single(Opcode.RC_WRITE_LAST, Psn(PSN + 2), size=100))
    assert (end.taken(), end.responder.is_broken) == (2, True)  # the message would have had a full one
    end = End(packets=4)
    end.receive(end.run(count=2) + b"x" * 15)
    assert (end.taken(), dict(end.pair.drops)) == (2, {"length": 1})


@pytest.mark.parametrize("verify_every", [1, 3])
@pytest.mark.parametrize("damaged", [0, 3, COUNT - 1])
def test_a_damaged_packet_that_a_sample_finds_is_dropped_wherever_it_is(verify_every: int, damaged: int) -> None:
    end = End(verify_every=verify_every)
    for index in range(verify_every):
        assert not end.pair.drops
        packets = end.run(PSN + index * COUNT)
        if index == verify_every - 1:
            packets[damaged * end.stride + 500] ^= 1
        end.receive(packets)
    assert sum(end.pair.drops.values()) == 1
    assert end.taken() == (verify_every - 1) * COUNT + damaged
    end.receive(end.run(end.responder.expected))
    assert end.taken() == verify_every * COUNT + damaged


def test_a_damaged_packet_between_samples_is_taken_and_one_of_random_payload_never_is() -> None:
    for seed, taken in ((None, COUNT), (3, 5)):
        end = End(verify_every=1 << 10, seed=seed)
        packets = end.run()
        packets[5 * end.stride + 500] ^= 1
        end.receive(packets)
        assert end.taken() == taken


def test_one_look_in_so_many_is_a_sample() -> None:
    end = End(verify_every=3)
    for index, is_sample in enumerate((False, False, True, False, False, True)):
        packets = end.run(PSN + index * COUNT)
        packets[-500] ^= 1
        before = end.pair.drops.total()
        end.receive(packets)
        assert (end.pair.drops.total() > before) is is_sample
        if is_sample:
            end.receive(end.run(end.responder.expected, count=1))
            break


@pytest.mark.parametrize("psn", [PSN - 4, PSN + 4], ids=["some again", "early"])
@pytest.mark.parametrize("seed", [None, 3], ids=["constant", "random"])
def test_a_damaged_packet_is_dropped_among_packets_that_are_not_due(psn: int, seed: int | None) -> None:
    end = End(verify_every=1, seed=seed, receiver="ooo")
    packets = end.run(psn)
    packets[20 * end.stride + 500] ^= 1
    end.receive(packets)
    assert end.pair.drops["icrc"]
    assert end.taken() + end.responder.early_packets <= COUNT - 1


def test_early_packets_are_refused_together_and_draw_one_nak() -> None:
    for seed in (None, 3):
        end = End(seed=seed)
        end.receive(end.run(PSN + 4))
        assert (end.responder.take_reply() is not None, end.responder.take_reply()) == (True, None)
        assert (end.responder.early_packets, end.responder.naks, end.taken()) == (COUNT, 1, 0)
        assert not end.pair.drops


def test_random_payload_longer_than_its_slots_is_compared_from_any_packet_on() -> None:
    end = End(seed=5, path_mtu=1024, call_bytes=3000, verify_every=1)
    count = end.payload.slots + 4
    for start in range(0, 3 * count, count):
        packets = bytearray()
        for at in range(count):
            slot = end.payload.slot(1 + start + at)
            end.framing.middles(end.staging, add(PSN, start + at), slot, 1, False, False, are_cut=False)
            packets += b"".join(end.staging.pieces(slot, 1))
        end.receive(packets)
        assert (end.taken(), dict(end.pair.drops)) == (start + count, {})


def test_where_a_sample_finds_something_wrong_every_packet_that_came_with_it_is_compared() -> None:
    end = End(verify_every=2, receiver="ooo")
    end.receive(end.run())
    packets = end.run(PSN + COUNT)
    for damaged in (5, 9):
        packets[damaged * end.stride + 500] ^= 1
    end.receive(packets)
    assert end.pair.drops == {"payload": 2}
    assert (end.taken(), end.responder.early_packets) == (COUNT + 5, COUNT - 7)


def test_a_packet_far_behind_the_first_of_a_reception_is_looked_at_like_any_other() -> None:
    end = End(path_mtu=1024, call_bytes=0)
    packets = end.run(count=300)
    again = reseal(end.run(PSN + 3, count=1))
    packets[280 * end.stride : 281 * end.stride] = again
    end.receive(packets)
    assert (end.taken(), end.responder.copies, end.responder.early_packets) == (280, 1, 19)


# Packets that come alone.

MESSAGE = Message(Verb.WRITE_IMM, 100, address=5, imm=1, rkey=RKEY)


def idle(**options: object) -> End:
    return End(packets=0, **options)  # type: ignore[arg-type]


def test_a_write_of_one_packet_is_delivered_with_any_ip_id() -> None:
    end = idle()
    for psn, ip_id in ((PSN - 1, 0), (PSN, 40_000)):
        packet = reseal(bytearray(end.framing.write(psn, MESSAGE)), ip_id)
        end.receive(packet, len(packet))
    assert [(one.address, one.size, one.imm) for one in end.responder.delivered] == 2 * [(5, 100, 1)]


Change = Callable[[bytearray], object]


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("header", lambda packet: packet.__setitem__(1, packet[1] | 1)),
        ("header", lambda packet: packet.__setitem__(2, 0x12)),
        ("opcode", lambda packet: packet.__setitem__(0, 0x64)),
        ("opcode", lambda packet: packet.__setitem__(0, Opcode.RC_FETCH_ADD)),
        ("length", lambda packet: packet.__setitem__(0, Opcode.RC_ACK)),
        ("rkey", lambda packet: packet.__setitem__(20, packet[20] ^ 1)),
        ("payload", lambda packet: packet.__setitem__(60, packet[60] ^ 1)),
        ("refused", lambda packet: packet.__setitem__(9, 0x40)),
    ],
)
def test_a_packet_with_a_right_icrc_is_dropped_for_what_is_wrong(reason: str, change: Change) -> None:
    end = idle(verify_every=1)
    packet = bytearray(end.framing.write(PSN - 1, MESSAGE))
    change(packet)
    reseal(packet)
    end.receive(packet, len(packet))
    assert end.pair.drops == {reason: 1}
    assert not end.responder.delivered


@pytest.mark.parametrize("at", [10, 30, 133, 135])
def test_a_packet_with_a_wrong_icrc_is_dropped(at: int) -> None:
    end = idle(verify_every=1)
    packet = bytearray(end.framing.write(PSN - 1, MESSAGE))
    packet[at] ^= 0x10
    end.receive(packet, len(packet))
    assert end.pair.drops == {"icrc": 1}


def test_a_send_is_not_part_of_the_profile() -> None:
    end = idle()
    packet = end.framing.packet(Bth(Opcode.RC_SEND_ONLY, add(PSN, -1), QPN).pack(), 100)
    end.receive(packet, len(packet))
    assert end.pair.drops == {"opcode": 1}


def test_marks_are_not_covered_by_the_icrc() -> None:
    end = idle()
    packet = bytearray(end.framing.write(PSN - 1, MESSAGE))
    packet[4] |= 0x80
    end.receive(packet, len(packet))
    assert len(end.responder.delivered) == 1


def test_an_ack_completes_messages_and_one_for_nothing_is_refused() -> None:
    end = idle()
    message = Message(Verb.WRITE_IMM, 100, 5, 1)
    assert end.pair.requester.start(message, 0) == 0
    assert end.pair.completed is None
    for psn, done in ((0, [message]), (3, [])):
        packet = bytes(end.framing.ack(Reply(Psn(psn), 0x1F, 1)))
        end.receive(packet, len(packet))
        assert list(end.pair.completed or ()) == done
        end.pair.completed = None
    assert end.pair.drops == {"refused": 1}


def test_a_cnp_is_counted_and_what_is_not_quite_one_dropped() -> None:
    end = idle()
    cnp = bytearray(end.framing.notification())
    end.receive(cnp, len(cnp))
    assert end.pair.cnps_received == 1
    for at, reason in ((4, "header"), (11, "header"), (20, "header"), (31, "icrc")):
        wrong = bytearray(cnp)
        wrong[at] ^= 0x40
        end.receive(wrong if reason == "icrc" else reseal(wrong), len(wrong))
    end.receive(reseal(bytearray(cnp + bytes(4))), len(cnp) + 4)
    assert (end.pair.cnps_received, dict(end.pair.drops)) == (1, {"header": 3, "icrc": 1, "length": 1})


# WRITEs of one packet that one call carried.


def batch(end: End, count: int, size: int = 100) -> tuple[bytearray, int]:
    made, _ = end.framing.writes(add(PSN, -1), Message(Verb.WRITE_IMM, size, 5, 1, RKEY), count)
    return bytearray(made.calls[count]), made.packet_bytes


@pytest.mark.parametrize("seed", [None, 3], ids=["constant", "random"])
@pytest.mark.parametrize("size", [0, 3, 100])
def test_writes_that_came_together_are_all_delivered(size: int, seed: int | None) -> None:
    end = idle(seed=seed, verify_every=2)
    end.receive(*batch(end, 9, size))
    assert sum(one.messages for one in end.responder.delivered) == 9
    assert (len(end.responder.delivered) == 1) is (seed is None)
    assert end.responder.is_urgent


@pytest.mark.parametrize("at", [2, 9, 20, 27, 31, 60, 135])
def test_of_writes_that_came_together_only_the_damaged_one_is_dropped(at: int) -> None:
    end = idle(verify_every=1)
    packets, stride = batch(end, 9)
    packets[4 * stride + at] ^= 1
    end.receive(packets, stride)
    assert sum(one.messages for one in end.responder.delivered) == 4
    assert end.pair.drops.total() + end.responder.refused_packets >= 1
    assert end.responder.early_packets >= 4


def test_writes_of_another_key_are_dropped_each() -> None:
    end = idle()
    made, _ = end.framing.writes(add(PSN, -1), replace(MESSAGE, rkey=RKEY + 1), 4)
    end.receive(bytes(made.calls[4]), made.packet_bytes)
    assert end.pair.drops == {"rkey": 4}


def test_writes_between_the_packets_of_a_message_break_the_connection() -> None:
    end = End()
    made, _ = end.framing.writes(PSN, MESSAGE, 4)
    end.receive(bytes(made.calls[4]), made.packet_bytes)
    assert end.responder.is_broken


def test_a_peer_may_use_many_source_ports() -> None:
    end = idle()
    for index in range(200):
        framing = Framing(dataclasses.replace(PATH, source_port=50_000 + index), QPN, end.payload)
        packet = bytes(framing.write(add(PSN, index - 1), MESSAGE))
        end.receiver.receive(memoryview(packet), len(packet), 50_000 + index, 0)
    assert len(end.responder.delivered) == 200
    assert len(end.receiver._framings) <= KNOWN_PORTS
