"""CRC-32 as multiplication by powers of x, against zlib."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.roce.wire.gf2 import WordTable, multiply, power_of_x, shift_table, word_table

ONE, X = 1 << 31, 1 << 30
words = st.integers(0, (1 << 32) - 1)


@given(words, words, words)
def test_multiplication_is_commutative_associative_and_distributes_over_xor(a: int, b: int, c: int) -> None:
    assert multiply(a, b) == multiply(b, a)
    assert multiply(multiply(a, b), c) == multiply(a, multiply(b, c))
    assert multiply(a, b ^ c) == multiply(a, b) ^ multiply(a, c)


@given(words)
def test_one_changes_nothing_and_zero_takes_everything(a: int) -> None:
    assert (multiply(a, ONE), multiply(a, 0)) == (a, 0)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_exponents_add_up(a: int, b: int) -> None:
    assert multiply(power_of_x(a), power_of_x(b)) == power_of_x(a + b)


def test_small_powers_are_single_bits_and_the_32nd_is_the_polynomial() -> None:
    assert [power_of_x(n) for n in range(32)] == [1 << 31 - n for n in range(32)]
    assert power_of_x(32) == 0xEDB88320
    assert power_of_x(1) == X


@given(st.binary(min_size=1, max_size=64), st.binary(min_size=1, max_size=64), st.integers(0, 3))
def test_what_two_messages_of_one_length_differ_by_shifts_with_what_follows(
    one: bytes, other: bytes, tail_words: int
) -> None:
    size = min(len(one), len(other))
    tail = bytes(range(4 * tail_words))
    before = zlib.crc32(one[:size]) ^ zlib.crc32(other[:size])
    after = zlib.crc32(one[:size] + tail) ^ zlib.crc32(other[:size] + tail)
    assert shift_table(len(tail)).product(before) == after
    assert shift_table(-len(tail)).product(after) == before


@given(words, st.integers(0, 5000))
def test_a_table_gives_the_products_of_its_constant(word: int, zero_bytes: int) -> None:
    assert shift_table(zero_bytes).product(word) == multiply(word, power_of_x(8 * zero_bytes))


@pytest.mark.parametrize("constant", [ONE, X, 0xDEADBEEF])
def test_the_tables_of_a_constant_are_linear(constant: int) -> None:
    tables = WordTable(constant).tables
    assert (tables.shape, tables.dtype) == ((4, 256), np.uint32)
    assert not tables[:, 0].any()
    for row in tables:
        assert (row[0x0F] ^ row[0xF0]) == row[0xFF]


@given(st.binary(min_size=4, max_size=4), st.binary(max_size=40))
def test_a_word_adds_to_a_crc_what_its_table_says_for_the_bytes_after_it(word: bytes, after: bytes) -> None:
    with_word = zlib.crc32(bytes(3) + word + after)
    without = zlib.crc32(bytes(3) + bytes(4) + after)
    assert with_word ^ without == word_table(len(after)).product(int.from_bytes(word, "little"))
