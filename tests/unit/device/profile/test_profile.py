"""Rules in words, as summaries and the manifest have them, and rates at a port."""

from fractions import Fraction
from pathlib import Path

import pytest

from emulator.device.profile.profile import OPCODE_CLASSES, Rate
from emulator.roce.wire.opcodes import Opcode
from tests.support.profiles import profile_of


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


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("drop: {share: 0.5%}", "drop 0.5 %"),
        ("drop: {every: 50}", "drop 1 of 50"),
        ("mark: {above: 95%}", "mark above 95 % of the port's rate"),
        ("mark: {every: 3}", "mark 1 of 3"),
        ("duplicate: {share: 100%}", "duplicate 100 %"),
        ("police: {rate: 50Mbit}", "police 50000000 bit/s"),
        ("shape: {rate: 90%}", "shape to 90 % of the port's rate"),
        ("delay: {time: 100us}", "delay 100000 ns"),
        ("delay: {time: 1ms, jitter: 10us, reorder: 2%}", "delay 1000000 ns ± 10000 ns, reorder 2 %"),
        ('{port: "sw0:p1", state: down}', "port down"),
    ],
)
def test_an_action_in_words(tmp_path: Path, rule: str, words: str) -> None:
    assert str(profile_of(tmp_path, f"  - {rule}\n").rules[0].action) == words


def test_a_rate_is_absolute_or_a_share_of_the_rate_of_the_port() -> None:
    assert Rate(bps=50).of(100) == Rate(bps=50).of(None) == 50
    assert Rate(share=Fraction(1, 3)).of(100) == 33
    assert Rate(share=Fraction(1, 3)).of(None) is None


def test_an_error_of_a_rule_names_its_line_and_key(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, "  - {drop: {every: 2}}\n  - {drop: {every: 3}, start: 5}\n")
    error = profile.error("is wrong", profile.rules[1], "drop", "every")
    assert str(error) == f"{tmp_path}/profile.yaml:3, rules[1].drop.every: is wrong"


def test_only_rules_with_a_start_begin_during_the_run(tmp_path: Path) -> None:
    first, second = profile_of(tmp_path, "  - {drop: {every: 2}, end: 4}\n  - {drop: {every: 3}, start: 0}\n").rules
    assert (first.is_timed, second.is_timed) == (False, True)
