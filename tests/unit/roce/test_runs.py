"""Packets that the batch writes are those of the codec, with the ICRC of the plain algorithm."""

import pytest

from emulator.roce.headers import Aeth, ImmDt, Reth
from emulator.roce.icrc import UdpPath, icrc
from emulator.roce.opcodes import Opcode
from emulator.roce.packet import CNP_PAYLOAD, Packet, is_congestion_notification, parse_packet
from emulator.roce.psn import Psn
from emulator.roce.runs import Framing, Inspection, Payload, Prediction, Staging

V4 = UdpPath.between("127.0.0.1", "127.3.2.1", source_port=50_001)
V6 = UdpPath.between("::1", "fd00::2", source_port=60_001)
PATHS = pytest.mark.parametrize("path", [V4, V6], ids=["v4", "v6"])
SEEDS = pytest.mark.parametrize("seed", [None, 7], ids=["constant", "random"])


def framing(path: UdpPath, *, path_mtu: int, seed: int | None = None) -> Framing:
    return Framing(path, 0xABCDE, Staging(Payload(path_mtu=path_mtu, seed=seed)))


def run(
    made: Framing,
    psn: int,
    *,
    count: int,
    slot: int = 0,
    ack_request: bool = False,
    are_cut: bool = True,
    ends: bool = False,
) -> bytes:
    """MIDDLE packets on end."""
    made.middles(
        Opcode.RC_WRITE_MIDDLE, Psn(psn), slot=slot, count=count, ack_request=ack_request, are_cut=are_cut, ends=ends
    )
    return b"".join(made.staging.pieces(slot, count))


def parsed(data: bytes) -> Packet:
    packet = parse_packet(data)
    assert isinstance(packet, Packet)
    return packet


@PATHS
@SEEDS
@pytest.mark.parametrize("path_mtu", [256, 1024, 4096])
@pytest.mark.parametrize("psn", [0, 65_530, (1 << 24) - 3])
@pytest.mark.parametrize("are_cut", [True, False])
def test_a_run_has_the_headers_payload_and_icrcs_of_lone_packets(
    path: UdpPath, *, path_mtu: int, psn: int, are_cut: bool, seed: int | None
) -> None:
    made = framing(path, path_mtu=path_mtu, seed=seed)
    payload = Payload(path_mtu=path_mtu, seed=seed)
    count, stride = payload.per_call + 3, path_mtu + 16
    for slot in (0, 2):
        view = run(made, psn, slot=slot, count=count, ack_request=True, are_cut=are_cut)
        assert len(view) == count * stride
        for i in range(count):
            data = view[i * stride : (i + 1) * stride]
            packet = parsed(data)
            assert (packet.bth.psn, packet.bth.dest_qp) == ((psn + i) % (1 << 24), 0xABCDE)
            assert packet.bth.opcode == Opcode.RC_WRITE_MIDDLE
            assert packet.bth.ack_request == (i == count - 1)
            assert packet.payload == bytes(payload.take(slot + i, path_mtu))
            ip_id = i % payload.per_call if are_cut else 0
            assert packet.icrc == icrc(path, data[:-4], ip_id=ip_id)


@pytest.mark.parametrize(
    ("call_bytes", "packets"), [(0, 62), (1 << 16, 62), (26_000, 25), (25_999, 24), (1040, 1), (1, 1)]
)
def test_a_call_carries_at_most_what_was_asked_but_a_packet(call_bytes: int, packets: int) -> None:
    assert Payload(path_mtu=1024, call_bytes=call_bytes).per_call == packets


@pytest.mark.parametrize("path_mtu", [1024, 4096])
@pytest.mark.parametrize("are_cut", [True, False])
def test_a_run_may_end_its_message_and_leaves_nothing_of_that_behind(*, path_mtu: int, are_cut: bool) -> None:
    made, stride = framing(V4, path_mtu=path_mtu), path_mtu + 16
    for count, ends in ((5, True), (7, False), (3, True), (7, True), (7, False)):
        view = run(made, 9, slot=1, count=count, ack_request=ends, are_cut=are_cut, ends=ends)
        data = [bytes(view[i : i + stride]) for i in range(0, len(view), stride)]
        opcodes = [parsed(one).bth.opcode for one in data]
        assert opcodes[:-1] == [Opcode.RC_WRITE_MIDDLE] * (count - 1)
        assert opcodes[-1] == (Opcode.RC_WRITE_LAST if ends else Opcode.RC_WRITE_MIDDLE)
        assert [parsed(one).icrc for one in data] == [
            icrc(V4, one[:-4], ip_id=i if are_cut else 0) for i, one in enumerate(data)
        ]


@PATHS
@SEEDS
@pytest.mark.parametrize("asks", [True, False])
def test_a_first_packet_is_that_of_the_codec(path: UdpPath, *, seed: int | None, asks: bool) -> None:
    made = framing(path, path_mtu=1024, seed=seed)
    data = made.first(77, address=1 << 63 | 5, rkey=6, size=1 << 20, ack_request=asks)
    packet = parsed(data)
    assert (packet.bth.opcode, packet.bth.psn, packet.bth.dest_qp) == (Opcode.RC_WRITE_FIRST, 77, 0xABCDE)
    assert packet.bth.ack_request == asks
    assert packet.extensions == (Reth(1 << 63 | 5, 6, 1 << 20),)
    assert packet.payload == bytes(Payload(path_mtu=1024, seed=seed).take(0, 1024))
    assert packet.icrc == icrc(path, data[:-4])
    assert_any_bit_counts(made, data, header_bytes=28, slot=0, size=1024)


@PATHS
@SEEDS
@pytest.mark.parametrize("imm", [None, 1 << 31 | 9])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 1023, 1024])
def test_a_last_packet_is_that_of_the_codec(path: UdpPath, size: int, imm: int | None, seed: int | None) -> None:
    made = framing(path, path_mtu=1024, seed=seed)
    data = made.last((1 << 24) - 1, slot=3, size=size, imm=imm)
    packet = parsed(data)
    has_imm = imm is not None
    assert packet.bth.opcode == (Opcode.RC_WRITE_LAST_IMM if has_imm else Opcode.RC_WRITE_LAST)
    assert (packet.bth.psn, packet.bth.dest_qp, packet.bth.ack_request) == ((1 << 24) - 1, 0xABCDE, True)
    assert packet.extensions == (() if imm is None else (ImmDt(imm),))
    assert packet.payload == bytes(Payload(path_mtu=1024, seed=seed).take(3, size))
    assert packet.icrc == icrc(path, data[:-4])
    assert_any_bit_counts(made, data, header_bytes=16 if has_imm else 12, slot=3, size=size)


def assert_any_bit_counts(made: Framing, data: bytes, *, header_bytes: int, slot: int, size: int) -> None:
    """FECN and BECN, which the ICRC does not cover, are 0 where this is asked."""
    header, received = bytearray(data[:header_bytes]), int.from_bytes(data[-4:], "little")
    assert made.is_edge(header, slot=slot, size=size, icrc=received)
    assert not made.is_edge(header, slot=slot, size=size, icrc=received ^ 1 << 13)
    for at in (0, 1, 3, 5, *range(7, header_bytes)):
        header[at] ^= 8
        assert not made.is_edge(header, slot=slot, size=size, icrc=received), at
        header[at] ^= 8


@PATHS
@SEEDS
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1023, 1024])
def test_a_lone_packet_is_that_of_the_codec(path: UdpPath, size: int, seed: int | None) -> None:
    made, payload = framing(path, path_mtu=1024, seed=seed), Payload(path_mtu=1024, seed=seed)
    reth = Reth(1 << 63 | 5, 6, size)
    data = b"".join(made.lone(Opcode.RC_WRITE_ONLY, 9, reth.pack(), slot=3, size=size, ack_request=True))
    packet = parsed(data)
    assert packet.extensions == (reth,)
    assert packet.payload == bytes(payload.take(3, size))
    assert packet.icrc == icrc(path, data[:-4])
    assert packet.bth.ack_request
    view = memoryview(bytearray(data))
    assert made.is_as_sent(view, header_bytes=28, slot=3, size=size)
    for i in (0, 5, 11, 20, len(data) - 1):
        view[i] ^= 4
        assert not made.is_as_sent(view, header_bytes=28, slot=3, size=size)
        view[i] ^= 4
    view[4] ^= 0x40  # a congestion mark is not covered
    assert made.is_as_sent(view, header_bytes=28, slot=3, size=size)


def test_an_ack_and_a_notification() -> None:
    made = framing(V4, path_mtu=1024)
    ack = parsed(b"".join(made.lone(Opcode.RC_ACK, 77, Aeth(0x1F, 5).pack())))
    assert (ack.bth.psn, ack.extensions) == (77, (Aeth(0x1F, 5),))
    data = b"".join(made.notification(Opcode.CNP, CNP_PAYLOAD))
    assert is_congestion_notification(parsed(data))
    assert parsed(data).icrc == icrc(V4, data[:-4])


@pytest.mark.parametrize("path_mtu", [1024, 4096])
def test_two_flows_that_share_the_buffer_do_not_mix(path_mtu: int) -> None:
    staging = Staging(Payload(path_mtu=path_mtu))
    one, other = Framing(V4, 1, staging), Framing(V4, 2, staging)
    for made, dest_qp in ((one, 1), (other, 2), (one, 1)):
        view, stride = run(made, 5, count=2, are_cut=False), staging.stride
        assert [parsed(view[i : i + stride]).bth.dest_qp for i in (0, stride)] == [dest_qp] * 2


def test_predicted_headers_are_those_that_come() -> None:
    made = framing(V4, path_mtu=1024)
    prediction = Prediction(opcode=Opcode.RC_WRITE_MIDDLE, dest_qp=0xABCDE)
    buffer = bytearray(1 << 16)
    inspection = Inspection(buffer)
    for psn in (5, 9, 1025, 1020, 65_500, 65_530, 65_536, 131_067, (1 << 24) - 40):
        view = run(made, psn, count=9)
        buffer[: len(view)] = view
        assert inspection.headers(1040)[:9].tobytes() == prediction.headers(Psn(psn), 9)
        assert inspection.headers(1040)[:9].tobytes() != prediction.headers(Psn(psn + 1), 9)
        buffer[3 * 1040 + 11] ^= 1
        assert inspection.headers(1040)[:9].tobytes() != prediction.headers(Psn(psn), 9)
