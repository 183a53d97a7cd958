"""Opcodes against the table of the specification (IBTA volume 1, table of BTH opcodes)."""

from __future__ import annotations

import pytest

from emulator.roce.wire.headers import Aeth, AtomicAckEth, AtomicEth, Deth, ExtensionType, Ieth, ImmDt, Reth
from emulator.roce.wire.opcodes import MEANINGS, Opcode, Operation, Place, Service

RC = {
    0x00: (Operation.SEND, Place.FIRST, ()),
    0x01: (Operation.SEND, Place.MIDDLE, ()),
    0x02: (Operation.SEND, Place.LAST, ()),
    0x03: (Operation.SEND, Place.LAST, (ImmDt,)),
    0x04: (Operation.SEND, Place.ONLY, ()),
    0x05: (Operation.SEND, Place.ONLY, (ImmDt,)),
    0x06: (Operation.WRITE, Place.FIRST, (Reth,)),
    0x07: (Operation.WRITE, Place.MIDDLE, ()),
    0x08: (Operation.WRITE, Place.LAST, ()),
    0x09: (Operation.WRITE, Place.LAST, (ImmDt,)),
    0x0A: (Operation.WRITE, Place.ONLY, (Reth,)),
    0x0B: (Operation.WRITE, Place.ONLY, (Reth, ImmDt)),
    0x0C: (Operation.READ_REQUEST, Place.ONLY, (Reth,)),
    0x0D: (Operation.READ_RESPONSE, Place.FIRST, (Aeth,)),
    0x0E: (Operation.READ_RESPONSE, Place.MIDDLE, ()),
    0x0F: (Operation.READ_RESPONSE, Place.LAST, (Aeth,)),
    0x10: (Operation.READ_RESPONSE, Place.ONLY, (Aeth,)),
    0x11: (Operation.ACK, Place.ONLY, (Aeth,)),
    0x12: (Operation.ATOMIC_ACK, Place.ONLY, (Aeth, AtomicAckEth)),
    0x13: (Operation.ATOMIC, Place.ONLY, (AtomicEth,)),
    0x14: (Operation.ATOMIC, Place.ONLY, (AtomicEth,)),
    0x16: (Operation.SEND, Place.LAST, (Ieth,)),
    0x17: (Operation.SEND, Place.ONLY, (Ieth,)),
}
"""Reliable connection: opcode → operation, place in the message, extension headers."""
BYTES = {Reth: 16, ImmDt: 4, Ieth: 4, Aeth: 4, Deth: 8, AtomicEth: 28, AtomicAckEth: 8}


@pytest.mark.parametrize("code", RC, ids=hex)
def test_an_opcode_of_a_reliable_connection_means_what_the_table_says(code: int) -> None:
    meaning = MEANINGS[code]
    assert (meaning.service, meaning.operation, meaning.place, meaning.extensions) == (Service.RC, *RC[code])


def test_no_opcode_is_missing_or_left_over() -> None:
    assert {code for code in MEANINGS if code < 0x20} == set(RC)
    assert {code - 0x20 for code in MEANINGS if 0x20 <= code < 0x40} == {code for code in RC if code <= 0x0B}
    assert [code for code in MEANINGS if code >= 0x40] == [0x64, 0x65, 0x81]


@pytest.mark.parametrize("code", [code for code in RC if code <= 0x0B], ids=hex)
def test_an_unreliable_connection_has_the_same_sends_and_writes(code: int) -> None:
    reliable, unreliable = MEANINGS[code], MEANINGS[code + 0x20]
    assert unreliable.service is Service.UC
    assert (unreliable.operation, unreliable.place, unreliable.extensions) == (
        reliable.operation,
        reliable.place,
        reliable.extensions,
    )


def test_datagrams_have_a_header_of_their_own() -> None:
    assert MEANINGS[0x64].extensions == (Deth,)
    assert MEANINGS[0x65].extensions == (Deth, ImmDt)
    assert {MEANINGS[code].service for code in (0x64, 0x65)} == {Service.UD}


@pytest.mark.parametrize("extension", BYTES)
def test_extension_headers_have_their_lengths(extension: ExtensionType) -> None:
    assert extension.layout.size == BYTES[extension]


def test_a_message_starts_with_first_or_only_and_ends_with_last_or_only() -> None:
    assert [place for place in Place if place.starts] == [Place.FIRST, Place.ONLY]
    assert [place for place in Place if place.ends] == [Place.LAST, Place.ONLY]


def test_acks_and_read_responses_come_from_the_responder_and_carry_what_they_should() -> None:
    responses = {code for code, meaning in MEANINGS.items() if meaning.operation.is_response}
    assert responses == {0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12}
    empty = {code for code, meaning in MEANINGS.items() if not meaning.carries_payload}
    assert empty == {0x0C, 0x11, 0x12, 0x13, 0x14}
    assert Opcode.CNP not in empty
