"""Headers, bit by bit and back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import strategies as st

from emulator.roce.wire.headers import Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Ieth, ImmDt, Reth, Syndrome
from emulator.roce.wire.psn import Psn

u8, u16, u24, u32, u64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 24, 32, 64))


@pytest.mark.parametrize(
    ("field", "byte", "bits"),
    [
        ("solicited", 1, 0x80),
        ("migration", 1, 0x40),
        ("fecn", 4, 0x80),
        ("becn", 4, 0x40),
        ("ack_request", 8, 0x80),
    ],
)
def test_a_flag_is_one_bit(field: str, byte: int, bits: int) -> None:
    plain, flagged = Bth(0, Psn(0), 0).pack(), Bth(0, Psn(0), 0, **{field: True}).pack()  # type: ignore[arg-type]
    assert [place for place in range(12) if plain[place] != flagged[place]] == [byte]
    assert plain[byte] ^ flagged[byte] == bits


def test_reserved_bits_of_a_bth_are_written_as_0_and_read_past() -> None:
    bth = Bth(0x07, Psn(0x123456), 0xABCDEF, pad=2)
    packed = bytearray(bth.pack())
    assert packed[4] == packed[8] == 0
    packed[4], packed[8] = 0x3F, 0x7F
    assert Bth.unpack(packed) == bth


def test_reserved_bits_of_a_deth_are_read_past() -> None:
    assert Deth.unpack(struct.pack(">II", 7, 0xFF00_0009)) == Deth(7, 9)


@pytest.mark.parametrize("header", [Bth, Reth, ImmDt, Ieth, Aeth, Deth, AtomicEth, AtomicAckEth])
def test_too_few_bytes_are_an_error(header: type[Bth]) -> None:
    with pytest.raises(struct.error):
        header.unpack(bytes(header.layout.size - 1))


def test_syndromes_that_refuse_are_apart_from_acks_and_rnr_naks() -> None:
    assert {syndrome >> 5 for syndrome in Syndrome} == {1, 3}
    assert [syndrome for syndrome in Syndrome if syndrome >> 5 == 1] == [Syndrome.RNR]
    assert Aeth.unpack(Aeth(Syndrome.REMOTE_ACCESS, 0xFFFFFF).pack()).syndrome == 0x62
