"""The opcode classes agree with the opcodes of the protocol core."""

import pytest

from emulator.device.profile.opcodes import OPCODE_CLASSES
from emulator.roce.wire.opcodes import Opcode


@pytest.mark.parametrize("place", ["FIRST", "MIDDLE", "LAST", "ONLY"])
def test_places_in_a_message(place: str) -> None:
    expected = {int(one) for one in Opcode if f"_{place}" in one.name}
    assert set(OPCODE_CLASSES[place.lower()].opcodes) == expected


@pytest.mark.parametrize(
    ("name", "opcodes"),
    [
        ("read", {Opcode.RC_READ_REQUEST}),
        ("read_response", {one for one in Opcode if "READ_RESPONSE" in one.name}),
        ("ack", {Opcode.RC_ACK}),
        ("nak", {Opcode.RC_ACK}),
        ("rnr_nak", {Opcode.RC_ACK}),
        ("atomic", {Opcode.RC_ATOMIC_ACK, Opcode.RC_COMPARE_SWAP, Opcode.RC_FETCH_ADD}),
        ("cnp", {Opcode.CNP}),
    ],
)
def test_other_classes(name: str, opcodes: set[Opcode]) -> None:
    assert set(OPCODE_CLASSES[name].opcodes) == opcodes


def test_acknowledgements_differ_in_the_upper_bits_of_their_syndrome() -> None:
    syndromes = {"ack": 0x1F, "rnr_nak": 0x2E, "nak": 0x60}
    assert all(OPCODE_CLASSES[name].syndrome == value >> 5 for name, value in syndromes.items())
