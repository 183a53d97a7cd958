"""Opcodes against the table of the specification (IBTA volume 1, table of BTH opcodes)."""

import pytest

from emulator.roce.wire.headers import Aeth, AtomicAckEth, AtomicEth, Deth, ExtensionType, Ieth, ImmDt, Reth
from emulator.roce.wire.opcodes import MEANINGS, Opcode, PacketOperation, PacketPlace, TransportService

RC = {
    0x00: (PacketOperation.SEND, PacketPlace.FIRST, ()),
    0x01: (PacketOperation.SEND, PacketPlace.MIDDLE, ()),
    0x02: (PacketOperation.SEND, PacketPlace.LAST, ()),
    0x03: (PacketOperation.SEND, PacketPlace.LAST, (ImmDt,)),
    0x04: (PacketOperation.SEND, PacketPlace.ONLY, ()),
    0x05: (PacketOperation.SEND, PacketPlace.ONLY, (ImmDt,)),
    0x06: (PacketOperation.WRITE, PacketPlace.FIRST, (Reth,)),
    0x07: (PacketOperation.WRITE, PacketPlace.MIDDLE, ()),
    0x08: (PacketOperation.WRITE, PacketPlace.LAST, ()),
    0x09: (PacketOperation.WRITE, PacketPlace.LAST, (ImmDt,)),
    0x0A: (PacketOperation.WRITE, PacketPlace.ONLY, (Reth,)),
    0x0B: (PacketOperation.WRITE, PacketPlace.ONLY, (Reth, ImmDt)),
    0x0C: (PacketOperation.READ_REQUEST, PacketPlace.ONLY, (Reth,)),
    0x0D: (PacketOperation.READ_RESPONSE, PacketPlace.FIRST, (Aeth,)),
    0x0E: (PacketOperation.READ_RESPONSE, PacketPlace.MIDDLE, ()),
    0x0F: (PacketOperation.READ_RESPONSE, PacketPlace.LAST, (Aeth,)),
    0x10: (PacketOperation.READ_RESPONSE, PacketPlace.ONLY, (Aeth,)),
    0x11: (PacketOperation.ACK, PacketPlace.ONLY, (Aeth,)),
    0x12: (PacketOperation.ATOMIC_ACK, PacketPlace.ONLY, (Aeth, AtomicAckEth)),
    0x13: (PacketOperation.ATOMIC, PacketPlace.ONLY, (AtomicEth,)),
    0x14: (PacketOperation.ATOMIC, PacketPlace.ONLY, (AtomicEth,)),
    0x16: (PacketOperation.SEND, PacketPlace.LAST, (Ieth,)),
    0x17: (PacketOperation.SEND, PacketPlace.ONLY, (Ieth,)),
}
"""Reliable connection: opcode → operation, place in the message, extension headers."""
BYTES = {Reth: 16, ImmDt: 4, Ieth: 4, Aeth: 4, Deth: 8, AtomicEth: 28, AtomicAckEth: 8}


@pytest.mark.parametrize("code", RC, ids=hex)
def test_an_opcode_of_a_reliable_connection_means_what_the_table_says(code: int) -> None:
    meaning = MEANINGS[code]
    assert (meaning.service, meaning.operation, meaning.place, meaning.extensions) == (TransportService.RC, *RC[code])


def test_no_opcode_is_missing_or_left_over() -> None:
    assert {code for code in MEANINGS if code < 0x20} == set(RC)
    assert {code - 0x20 for code in MEANINGS if 0x20 <= code < 0x40} == {code for code in RC if code <= 0x0B}
    assert [code for code in MEANINGS if code >= 0x40] == [0x64, 0x65, 0x81]


@pytest.mark.parametrize("code", [code for code in RC if code <= 0x0B], ids=hex)
def test_an_unreliable_connection_has_the_same_sends_and_writes(code: int) -> None:
    reliable, unreliable = MEANINGS[code], MEANINGS[code + 0x20]
    assert unreliable.service is TransportService.UC
    assert (unreliable.operation, unreliable.place, unreliable.extensions) == (
        reliable.operation,
        reliable.place,
        reliable.extensions,
    )


def test_datagrams_have_a_header_of_their_own() -> None:
    assert MEANINGS[0x64].extensions == (Deth,)
    assert MEANINGS[0x65].extensions == (Deth, ImmDt)
    assert {MEANINGS[code].service for code in (0x64, 0x65)} == {TransportService.UD}


@pytest.mark.parametrize("extension", BYTES)
def test_extension_headers_have_their_lengths(extension: ExtensionType) -> None:
    assert extension.layout.size == BYTES[extension]


def test_a_message_starts_with_first_or_only_and_ends_with_last_or_only() -> None:
    assert [place for place in PacketPlace if place.starts] == [PacketPlace.FIRST, PacketPlace.ONLY]
    assert [place for place in PacketPlace if place.ends] == [PacketPlace.LAST, PacketPlace.ONLY]


def test_acks_and_read_responses_come_from_the_responder_and_carry_what_they_should() -> None:
    responses = {code for code, meaning in MEANINGS.items() if meaning.operation.is_response}
    assert responses == {0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12}
    empty = {code for code, meaning in MEANINGS.items() if not meaning.carries_payload}
    assert empty == {0x0C, 0x11, 0x12, 0x13, 0x14}
    assert Opcode.CNP not in empty
