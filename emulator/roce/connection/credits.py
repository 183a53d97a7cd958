"""End-to-end credits: how many receive requests a responder has, as the AETH of an acknowledgement says it.

Source: InfiniBand Architecture Specification, volume 1, section 9.7.7.2.
"""

from __future__ import annotations

from bisect import bisect_right

from emulator.roce.wire.headers import NO_CREDIT_LIMIT

CREDITS = (
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096,
    6_144, 8_192, 12_288, 16_384, 24_576, 32_768,
)  # fmt: skip
"""Receive requests by code; the code after the last one sets no limit."""


def credit_code(receives: int | None) -> int:
    """The code of the most credits that are not more than the receive requests; None: there is no limit."""
    return NO_CREDIT_LIMIT if receives is None else bisect_right(CREDITS, receives) - 1
