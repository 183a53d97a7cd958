"""Single packets made by look-ups are those of the codec, and nothing damaged passes for one."""

import pytest

from emulator.roce.headers import Aeth, ImmDt, Reth
from emulator.roce.icrc import UdpPath, icrc
from emulator.roce.messages import Message, Verb
from emulator.roce.opcodes import Opcode
from emulator.roce.packet import Packet, parse_packet
from emulator.roce.psn import Psn
from emulator.roce.runs import Framing, Inspection, Payload, Staging
from emulator.roce.single import ACK, WRITE, SinglePackets

V4 = UdpPath.between("127.0.0.1", "127.3.2.1", source_port=50_001)
V6 = UdpPath.between("::1", "fd00::2", source_port=60_001)
PATHS = pytest.mark.parametrize("path", [V4, V6], ids=["v4", "v6"])
MTU = 1024


def singles(path: UdpPath, seed: int | None = None) -> SinglePackets:
    return SinglePackets(Framing(path, 0xABCDE, Staging(Payload(path_mtu=MTU, seed=seed))), path_mtu=MTU)


def parsed(data: bytes) -> Packet:
    packet = parse_packet(data)
    assert isinstance(packet, Packet)
    return packet


def is_write(made: SinglePackets, data: bytes, size: int) -> bool:
    return made.is_write(
        data[: WRITE.size],
        size=size,
        datagram_bytes=len(data),
        flags=data[1],
        icrc=int.from_bytes(data[-4:], "little"),
    )


@PATHS
@pytest.mark.parametrize("seed", [None, 7], ids=["constant", "random"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1023, 1024])
def test_a_write_is_that_of_the_codec(path: UdpPath, size: int, seed: int | None) -> None:
    made = singles(path, seed)
    for psn, address, imm in ((0, 0, 0), (0xFFFFFF, 2**64 - 1, 2**32 - 1), (77, 1 << 62 | 5, 1)):
        data = made.write(psn, address=address, rkey=0xFEDCBA98, size=size, imm=imm)
        packet = parsed(data)
        assert (packet.bth.opcode, packet.bth.psn, packet.bth.dest_qp) == (Opcode.RC_WRITE_ONLY_IMM, psn, 0xABCDE)
        assert packet.bth.ack_request
        assert packet.extensions == (Reth(address, 0xFEDCBA98, size), ImmDt(imm))
        assert packet.payload == bytes(Payload(path_mtu=MTU, seed=seed).take(0, size))
        assert packet.icrc == icrc(path, data[:-4])
        assert is_write(made, data, size)


@PATHS
@pytest.mark.parametrize("size", [0, 5, 1024])
def test_a_write_with_any_bit_of_headers_or_icrc_wrong_is_none(path: UdpPath, size: int) -> None:
    made = singles(path)
    data = made.write(9, address=5, rkey=6, size=size, imm=7)
    for at in (*range(WRITE.size), *range(len(data) - 4, len(data))):
        if at == 4:
            continue  # FECN and BECN, which the caller has looked at
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            assert not is_write(made, bytes(damaged), size)


def test_a_write_of_another_length_than_it_says_is_none() -> None:
    made = singles(V4)
    data = made.write(9, address=5, rkey=6, size=100, imm=7)
    assert not is_write(made, data, 96)
    assert not is_write(made, data, MTU + 1)
    assert not is_write(made, data[:-8] + data[-4:], 100)


def train(made: SinglePackets, psn: int, message: Message, count: int) -> tuple[bytes, int]:
    """The datagrams on end, and how long each is."""
    room = made.train(Psn(psn), message, count, rkey=0xFEDCBA98)
    return bytes(room.calls[count]), room.stride


def is_train(made: SinglePackets, data: bytes, stride: int) -> bool:
    words, icrcs = Inspection(bytearray(data)).train(stride, len(data) // stride)
    return made.is_train(words, icrcs, stride)


@PATHS
@pytest.mark.parametrize("seed", [None, 7], ids=["constant", "random"])
@pytest.mark.parametrize("size", [0, 1, 7, 1024])
def test_a_train_is_writes_that_the_kernel_numbers(path: UdpPath, size: int, seed: int | None) -> None:
    made = singles(path, seed)
    message = Message(Verb.WRITE_IMM, size, address=1 << 62 | 5, imm=9)
    for psn, count in ((0, 1), (0x12FFF0, 16), (0xFFFFFE, 2), (77, 40)):
        data, stride = train(made, psn, message, count)
        assert len(data) == count * stride
        for place in range(count):
            single = data[place * stride : (place + 1) * stride]
            packet = parsed(single)
            assert (packet.bth.opcode, packet.bth.psn) == (Opcode.RC_WRITE_ONLY_IMM, psn + place)
            assert packet.icrc == icrc(path, single[:-4], ip_id=place)
            alone = bytearray(made.write(Psn(psn + place), 1 << 62 | 5, rkey=0xFEDCBA98, size=size, imm=9))
            assert single[:-4] == alone[:-4]
            assert made.is_write(single[: WRITE.size], size, stride, single[1], packet.icrc, place)
        assert is_train(made, data, stride)


@PATHS
def test_a_train_with_any_bit_of_a_later_packet_wrong_is_none(path: UdpPath) -> None:
    made = singles(path)
    data, stride = train(made, 9, Message(Verb.WRITE_IMM, 5, address=5, imm=1), 3)
    for at in (*range(stride, stride + WRITE.size), *range(3 * stride - 4, 3 * stride)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            assert not is_train(made, bytes(damaged), stride)


def test_a_train_whose_packets_are_not_in_order_is_none() -> None:
    made = singles(V4)
    data, stride = train(made, 9, Message(Verb.WRITE_IMM, 5, address=5, imm=1), 3)
    first, second, third = (data[start : start + stride] for start in range(0, 3 * stride, stride))
    assert not is_train(made, first + third + second, stride)
    assert not is_train(made, first + third, stride)
    assert not is_train(made, first + first, stride)


@PATHS
def test_an_ack_is_that_of_the_codec(path: UdpPath) -> None:
    made = singles(path)
    data = made.ack(0xFFFFFE, 0x60 << 24 | 5)
    packet = parsed(data)
    assert (packet.bth.opcode, packet.bth.psn, packet.extensions) == (Opcode.RC_ACK, 0xFFFFFE, (Aeth(0x60, 5),))
    assert packet.icrc == icrc(path, data[:-4])
    assert made.is_ack(data[: ACK.size], icrc=packet.icrc)
    for at in (0, 3, 5, 9, 11, 12, 15):
        damaged = bytearray(data)
        damaged[at] ^= 16
        assert not made.is_ack(damaged[: ACK.size], icrc=packet.icrc)
