"""Headers and packets: the bytes of the specification, and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.roce.wire.headers import Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Extension, Ieth, ImmDt, Reth
from emulator.roce.wire.opcodes import MEANINGS, Opcode
from emulator.roce.wire.packet import (
    Packet,
    Problem,
    congestion_notification,
    is_congestion_notification,
    pack_icrc,
    pack_packet,
    pad_bytes,
    parse_packet,
)
from emulator.roce.wire.psn import Psn

U8, U24 = st.integers(0, 0xFF), st.integers(0, 0xFFFFFF)
U32, U64 = st.integers(0, 0xFFFFFFFF), st.integers(0, (1 << 64) - 1)
EXTENSIONS: dict[Any, st.SearchStrategy[Extension]] = {
    Reth: st.builds(Reth, U64, U32, U32),
    ImmDt: st.builds(ImmDt, U32),
    Ieth: st.builds(Ieth, U32),
    Aeth: st.builds(Aeth, U8, U24),
    Deth: st.builds(Deth, U32, U24),
    AtomicEth: st.builds(AtomicEth, U64, U32, U64, U64),
    AtomicAckEth: st.builds(AtomicAckEth, U64),
}


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    opcode = draw(st.sampled_from(Opcode))
    meaning = MEANINGS[opcode]
    payload = draw(st.binary(max_size=40)) if meaning.carries_payload else b""
    flags = st.booleans()
    bth = Bth(
        opcode,
        Psn(draw(U24)),
        draw(U24),
        ack_request=draw(flags),
        solicited=draw(flags),
        migration=draw(flags),
        pad=pad_bytes(len(payload)),
        p_key=draw(st.sampled_from([0xFFFF, 0x7FFF])),
        fecn=draw(flags),
        becn=draw(flags),
    )
    return Packet(bth, tuple(draw(EXTENSIONS[one]) for one in meaning.extensions), payload, draw(U32))


@given(packets())
def test_what_is_packed_is_read_again(packet: Packet) -> None:
    packed = packet.pack()
    assert len(packed) % 4 == 0
    assert parse_packet(packed) == packet


@given(st.binary(max_size=80))
def test_any_bytes_are_a_packet_or_a_problem(data: bytes) -> None:
    found = parse_packet(data)
    assert isinstance(found, Packet | Problem)
    if isinstance(found, Packet):
        assert len(found.pack()) == len(data)


def test_the_bytes_of_a_bth() -> None:
    bth = Bth(Opcode.RC_WRITE_LAST, Psn(0x00ABCD), 0x123456, ack_request=True, solicited=True, pad=3, becn=True)
    assert bth.pack().hex(" ", 4) == "08b0ffff 40123456 8000abcd"


@pytest.mark.parametrize(
    ("extension", "text"),
    [
        (Reth(0x0102030405060708, 0x11121314, 0x21222324), "0102030405060708 11121314 21222324"),
        (ImmDt(0x01020304), "01020304"),
        (Aeth(0x60, 0x010203), "60010203"),
        (Deth(0x11111111, 0x010203), "11111111 00010203"),
        (AtomicEth(1, 2, 3, 4), "0000000000000001 00000002 0000000000000003 0000000000000004"),
        (AtomicAckEth(5), "0000000000000005"),
    ],
)
def test_the_bytes_of_extension_headers(extension: Extension, text: str) -> None:
    assert extension.pack() == bytes.fromhex(text)


def only(**changes: Any) -> bytes:
    bth = Bth(Opcode.RC_SEND_ONLY, Psn(1), 2)
    for name, value in changes.items():
        setattr(bth, name, value)
    return pack_packet(bth, payload=b"abcd") + bytes(4)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (only()[:15], Problem.SHORT),
        (only(version=1), Problem.TRANSPORT_VERSION),
        (only(p_key=0x8000), Problem.P_KEY),
        (only(opcode=0x15), Problem.OPCODE),
        (only()[:-1], Problem.PAD),
        (Bth(Opcode.RC_SEND_ONLY, Psn(1), 2, pad=1).pack() + bytes(4), Problem.PAD),
        (Bth(Opcode.RC_WRITE_FIRST, Psn(1), 2).pack() + bytes(16), Problem.SHORT),
        (Bth(Opcode.RC_ACK, Psn(1), 2).pack() + bytes(12), Problem.PAYLOAD),
    ],
)
def test_what_is_no_packet(data: bytes, problem: Problem) -> None:
    assert parse_packet(data) is problem


def test_a_congestion_notification() -> None:
    packed = congestion_notification(0x42) + pack_icrc(1)
    packet = parse_packet(packed)
    assert isinstance(packet, Packet)
    assert packed.hex() == "8100ffff" + "40000042" + "00000000" + "00" * 16 + "01000000"
    assert is_congestion_notification(packet)
    packet.bth.becn = False
    assert not is_congestion_notification(packet)
