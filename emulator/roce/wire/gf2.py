"""CRC-32 as what it is, a polynomial over GF(2) modulo P: multiplication by powers of x, and look-up tables for it.

A polynomial of degree < 32 is the integer zlib uses: bit 31 is x^0, bit 0 is x^31. Four message bytes read as a
little-endian word are their own polynomial in this form, so appending n zero bytes to a message, or finding what a word
with n bytes after it adds to the CRC, is one multiplication by a power of x. CRC-32 is affine: the CRCs of two
messages of one length differ by the sum (XOR) of what their differing words add.

Source: the polynomial of IEEE 802.3; Peterson and Brown, Proc. IRE 49 (1961).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

U32Array: TypeAlias = npt.NDArray[np.uint32]

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31  # x^0
_ORDER = (1 << 32) - 1  # P is primitive: x^_ORDER = 1, so that negative powers exist
_WORD_BYTES = 4


def _times_x(value: int) -> int:
    return value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)


def multiply(a: int, b: int) -> int:
    """The product of two polynomials modulo P."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = _times_x(b)
    return product


@lru_cache(maxsize=4096)
def power_of_x(exponent: int) -> int:
    """x^exponent modulo P; the exponent may be negative."""
    result, square, rest = _ONE, _ONE >> 1, exponent % _ORDER
    while rest:
        if rest & 1:
            result = multiply(square, result)
        square = multiply(square, square)
        rest >>= 1
    return result


class WordTable:
    """Multiplication of words by a constant: `tables[k]` holds the products of byte k of a little-endian word.

    `tables` is uint32 of shape (4, 256); the product of a word is the XOR of its bytes' entries.
    """

    __slots__ = ("tables",)

    def __init__(self, constant: int) -> None:
        self.tables = np.zeros((_WORD_BYTES, 256), np.uint32)
        for bit in range(31, -1, -1):
            self.tables[bit // 8, 1 << bit % 8] = constant
            constant = _times_x(constant)
        self._fill()

    def _fill(self) -> None:
        """Products are linear: those of numbers below 2^(k+1) follow from those below 2^k and that of 2^k."""
        for row in self.tables:
            for bit in range(8):
                half = 1 << bit
                row[half : 2 * half] = row[:half] ^ row[half]

    def product(self, word: int) -> int:
        """The product of one word."""
        tables = self.tables
        return int(
            tables[0, word & 0xFF] ^ tables[1, word >> 8 & 0xFF] ^ tables[2, word >> 16 & 0xFF] ^ tables[3, word >> 24]
        )


@lru_cache(maxsize=4096)
def shift_table(zero_bytes: int) -> WordTable:
    """Multiplication by x^(8·zero_bytes): what appending that many zero bytes does; negative takes them away again."""
    return WordTable(power_of_x(8 * zero_bytes))


def word_table(bytes_after: int) -> WordTable:
    """What a four-byte word (read little-endian) adds to the CRC when that many bytes follow it in the message."""
    return shift_table(bytes_after + _WORD_BYTES)
