"""Packets made by look-ups are those of the codec with the ICRC of the plain algorithm, and any damage shows."""

import pytest

from emulator.roce.connection.messages import Message, PacketRun, Reply, ResponseRun, Verb
from emulator.roce.wire.framing import BTH_RETH_IMM, ICRC, Framing, message_segments, read_request, response_segments
from emulator.roce.wire.headers import NO_CREDIT_LIMIT, Aeth, ImmDt, Reth
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import MEANINGS, Opcode, PacketOperation, PacketPlace
from emulator.roce.wire.packet import Packet, is_congestion_notification, parse_packet
from emulator.roce.wire.payload import Payload, Staging
from emulator.roce.wire.psn import Psn
from emulator.roce.wire.runs import follows_first

SEGMENTED = (Verb.SEND, Verb.SEND_IMM, Verb.WRITE, Verb.WRITE_IMM)


@pytest.mark.parametrize("verb", SEGMENTED)
def test_opcodes_mean_what_the_verb_does_and_have_the_headers_that_they_announce(verb: Verb) -> None:
    operation, has_imm = verb.value
    segments = message_segments(Message(verb, 9000, 1 << 40, 5, 6))
    headers = {
        PacketPlace.FIRST: segments.first,
        PacketPlace.MIDDLE: b"",
        PacketPlace.LAST: segments.last,
        PacketPlace.ONLY: segments.only,
    }
    for place, opcode in zip(PacketPlace, segments.opcodes, strict=True):
        meaning = MEANINGS[opcode]
        assert (meaning.operation, meaning.place) == (operation, place)
        assert meaning.extension_bytes == len(headers[place])
    assert segments.last == (ImmDt(5).pack() if has_imm else b"")
    assert segments.first == (Reth(1 << 40, 6, 9000).pack() if operation is PacketOperation.WRITE else b"")
    assert segments.only == segments.first + segments.last


def test_all_packets_of_a_response_but_middle_ones_have_an_aeth() -> None:
    segments = response_segments(ResponseRun(Psn(5), 0, 3, 3, 100, 77))
    assert all(MEANINGS[opcode].operation is PacketOperation.READ_RESPONSE for opcode in segments.opcodes)
    assert segments.first == segments.last == segments.only == Aeth(NO_CREDIT_LIMIT, 77).pack()


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, Reth(1000, 6, 9000)), (3, Reth(1000 + 3 * 1024, 6, 9000 - 3 * 1024))]
)
def test_a_read_that_is_repeated_requests_what_is_missing(offset: int, expected: Reth) -> None:
    run = PacketRun(Message(Verb.READ, 9000, 1000, rkey=6, packets=9), Psn(offset), offset, 1, True, offset > 0)
    assert read_request(run, 1024) == expected.pack()


V4 = UdpPath.between("127.0.0.1", "127.3.2.1", source_port=50_001)
V6 = UdpPath.between("::1", "fd00::2", source_port=60_001)
PATHS = pytest.mark.parametrize("path", [V4, V6], ids=["v4", "v6"])
SEEDS = pytest.mark.parametrize("seed", [None, 7], ids=["constant", "random"])
SIZES = pytest.mark.parametrize("size", [1, 2, 3, 4, 1023, 1024])
MTU, RKEY, QP = 1024, 0xFEDCBA98, 0xABCDE
ADDRESS = 1 << 63 | 5


def framing(path: UdpPath = V4, seed: int | None = None, *, path_mtu: int = MTU) -> Framing:
    return Framing(path, QP, Payload(path_mtu=path_mtu, seed=seed))


def content(seed: int | None, size: int, slot: int = 0) -> bytes:
    return bytes(Payload(path_mtu=MTU, seed=seed).take(slot, size))


def parsed(data: bytes) -> Packet:
    packet = parse_packet(data)
    assert isinstance(packet, Packet)
    return packet


def checked(made: Framing, data: bytes, *, header_bytes: int, size: int, slot: int = 0) -> Packet:
    """The packet, which is right, and of whose headers and ICRC every bit counts, but FECN and BECN."""
    data = bytes(data)
    packet = parsed(data)
    assert packet.bth.dest_qp == QP
    assert packet.icrc == icrc(made.path, data[:-4]) == made.icrc(data[:header_bytes], size, slot)
    for at in range(header_bytes):
        damaged = bytearray(data[:header_bytes])
        damaged[at] ^= 8
        assert at == 4 or made.icrc(damaged, size, slot) != packet.icrc, at
    return packet


@PATHS
@SEEDS
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1023, 1024])
def test_a_write_of_one_packet(path: UdpPath, size: int, seed: int | None) -> None:
    made = framing(path, seed)
    for psn, address, imm in ((0, 0, 0), (0xFFFFFF, 2**64 - 1, 2**32 - 1), (77, 1 << 62 | 5, 1)):
        data = made.write(psn, Message(Verb.WRITE_IMM, size, address, imm, RKEY))
        packet = checked(made, data, header_bytes=BTH_RETH_IMM.size, size=size)
        assert (packet.bth.opcode, packet.bth.psn) == (Opcode.RC_WRITE_ONLY_IMM, psn)
        assert packet.bth.ack_request
        assert packet.extensions == (Reth(address, RKEY, size), ImmDt(imm))
        assert packet.payload == content(seed, size)


@PATHS
@SEEDS
@SIZES
@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("headers", [b"", ImmDt(1 << 31 | 9).pack(), Reth(ADDRESS, 6, 1 << 20).pack()], ids=len)
def test_a_packet_of_any_opcode(path: UdpPath, size: int, headers: bytes, *, seed: int | None, asks: bool) -> None:
    made, slot = framing(path, seed), 0 if seed is None else 3
    opcode = {0: Opcode.RC_SEND_LAST, 4: Opcode.RC_SEND_ONLY_IMM, 16: Opcode.RC_WRITE_ONLY}[len(headers)]
    psn = Psn((1 << 24) - 1)
    data = made.single(opcode, psn, headers, size, slot, ack_request=asks)
    packet = checked(made, data, header_bytes=12 + len(headers), size=size, slot=slot)
    assert (packet.bth.opcode, packet.bth.psn, packet.bth.ack_request) == (opcode, psn, asks)
    assert b"".join(extension.pack() for extension in packet.extensions) == headers
    assert packet.payload == content(seed, size, slot)


@PATHS
@pytest.mark.parametrize("size", [1, 2, 64, 1023])
def test_a_packet_with_a_content_of_its_own(path: UdpPath, size: int) -> None:
    made, own = framing(path), bytes(range(256)) * 4
    data = made.with_content(Opcode.RC_SEND_ONLY, Psn(7), b"", own[:size])
    packet = parsed(data)
    assert (packet.bth.opcode, packet.bth.psn, packet.bth.ack_request) == (Opcode.RC_SEND_ONLY, 7, True)
    assert packet.payload == own[:size]
    assert packet.icrc == icrc(path, data[:-4])


@PATHS
def test_an_ack_and_a_notification(path: UdpPath) -> None:
    made = framing(path)
    packet = checked(made, made.ack(Reply(Psn(0xFFFFFE), 0x60, 5)), header_bytes=16, size=0)
    assert (packet.bth.opcode, packet.bth.psn, packet.extensions) == (Opcode.RC_ACK, 0xFFFFFE, (Aeth(0x60, 5),))
    data = bytes(made.notification())
    assert is_congestion_notification(parsed(data))
    assert parsed(data).icrc == icrc(path, data[:-4])


@PATHS
def test_a_packet_is_intact_with_any_ip_id_and_damaged_with_none(path: UdpPath) -> None:
    made = framing(path)
    data = bytearray(made.write(9, Message(Verb.WRITE_IMM, 100, 5, 1, RKEY)))
    assert made.is_intact_in_full(memoryview(data))
    data[-4:] = ICRC.pack(icrc(path, bytes(data[:-4])) ^ made.ip_id_change(len(data), 9))
    assert made.is_intact_in_full(memoryview(data))
    data[50] ^= 1
    assert not made.is_intact_in_full(memoryview(data))


@PATHS
@SEEDS
@pytest.mark.parametrize("size", [0, 1, 7, 1024])
def test_a_gso_batch_is_writes_that_the_kernel_numbers(path: UdpPath, size: int, seed: int | None) -> None:
    made = framing(path, seed)
    message = Message(Verb.WRITE_IMM, size, address=1 << 62 | 5, imm=9)
    for psn, count in ((0, 1), (0x12FFF0, 16), (0x12FFF0, 30), (0xFFFFFE, 4), (77, 40)):
        batch, packets = made.writes(Psn(psn), message, count)
        data, stride = bytes(batch.calls[count]), batch.packet_bytes
        assert (packets, len(data)) == (count, count * stride)
        for place in range(count):
            single = data[place * stride : (place + 1) * stride]
            packet = parsed(single)
            assert packet.icrc == icrc(path, single[:-4], ip_id=place)
            assert packet.icrc == made.icrc(single[: BTH_RETH_IMM.size], size) ^ made.ip_id_change(stride, place)
            assert single[:-4] == bytes(made.write((psn + place) % (1 << 24), message))[:-4]
        assert follows_first(data, count, stride, header_bytes=BTH_RETH_IMM.size, is_numbered=path.is_v4)


def test_a_gso_batch_has_no_more_packets_than_a_call_carries() -> None:
    made, message = framing(), Message(Verb.WRITE_IMM, 1024, 5, 1)
    assert made.writes(Psn(0), message, 1000)[1] == 65_507 // (32 + 1024 + 4)
    assert made.writes(Psn(0), Message(Verb.WRITE_IMM, 0, 5, 1, RKEY), 1000)[1] == 64


def run(
    made: Framing, staging: Staging, psn: int, *, count: int, slot: int = 0, asks: bool = False, ends: bool = False,
    are_cut: bool = True,
) -> list[bytes]:  # fmt: skip
    """MIDDLE packets, one by one."""
    made.middles(staging, Psn(psn), slot, count, asks, ends, are_cut=are_cut)
    return [b"".join(staging.pieces(slot + one, 1)) for one in range(count)]


@PATHS
@SEEDS
@pytest.mark.parametrize("path_mtu", [256, 1024, 4096])
@pytest.mark.parametrize("psn", [0, 65_530, (1 << 24) - 3])
@pytest.mark.parametrize("are_cut", [True, False])
def test_a_run_has_the_headers_payload_and_icrcs_of_lone_packets(
    path: UdpPath, *, path_mtu: int, psn: int, are_cut: bool, seed: int | None
) -> None:
    payload = Payload(path_mtu=path_mtu, seed=seed)
    made, staging, count = Framing(path, QP, payload), Staging(payload), payload.per_call + 3
    for slot in (0, 2):
        for i, data in enumerate(run(made, staging, psn, slot=slot, count=count, asks=True, are_cut=are_cut)):
            packet = parsed(data)
            assert (packet.bth.psn, packet.bth.dest_qp) == ((psn + i) % (1 << 24), QP)
            assert packet.bth.opcode == Opcode.RC_WRITE_MIDDLE
            assert packet.bth.ack_request == (i == count - 1)
            assert packet.payload == bytes(payload.take(slot + i, path_mtu))
            assert packet.icrc == icrc(path, data[:-4], ip_id=i % payload.per_call if are_cut else 0)


@SEEDS
@pytest.mark.parametrize("path_mtu", [1024, 4096])
@pytest.mark.parametrize("are_cut", [True, False])
def test_a_run_may_end_its_message_and_leaves_nothing_of_that_behind(
    *, path_mtu: int, are_cut: bool, seed: int | None
) -> None:
    payload = Payload(path_mtu=path_mtu, seed=seed)
    made, staging = Framing(V4, QP, payload), Staging(payload)
    for count, ends in ((5, True), (7, False), (3, True), (7, True), (7, False)):
        data = run(made, staging, 9, slot=1, count=count, asks=ends, are_cut=are_cut, ends=ends)
        opcodes = [parsed(one).bth.opcode for one in data]
        assert opcodes[:-1] == [Opcode.RC_WRITE_MIDDLE] * (count - 1)
        assert opcodes[-1] == (Opcode.RC_WRITE_LAST if ends else Opcode.RC_WRITE_MIDDLE)
        ip_ids = range(count) if are_cut else [0] * count
        assert [parsed(one).icrc for one in data] == [
            icrc(V4, one[:-4], ip_id=i) for i, one in zip(ip_ids, data, strict=True)
        ]


@pytest.mark.parametrize("path_mtu", [1024, 4096])
def test_two_flows_that_share_the_staging_buffer_do_not_mix(path_mtu: int) -> None:
    payload = Payload(path_mtu=path_mtu)
    staging = Staging(payload)
    one, other = Framing(V4, 1, payload), Framing(V4, 2, payload)
    for made, dest_qp in ((one, 1), (other, 2), (one, 1)):
        version = staging.version
        assert [parsed(data).bth.dest_qp for data in run(made, staging, 5, count=2)] == [dest_qp] * 2
        assert staging.version != version
