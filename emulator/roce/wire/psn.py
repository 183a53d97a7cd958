"""Packet sequence numbers: 24 bits that wrap. The only place where they are added or compared."""

from __future__ import annotations

from typing import Final, NewType

Psn = NewType("Psn", int)
"""A packet sequence number, 0 … 2^24-1. Message sequence numbers (MSN) wrap alike and use the same functions."""

PSN_SPACE: Final = 1 << 24
"""How many there are."""

PSN_MASK: Final = PSN_SPACE - 1
ZERO_PSN: Final = Psn(0)
_HALF: Final = PSN_SPACE >> 1


def wrap(value: int) -> Psn:
    """The PSN a count of any size and sign comes to."""
    return value & PSN_MASK  # type: ignore[return-value]  # Psn(…) would cost a call per packet


def add(psn: Psn, count: int) -> Psn:
    """The PSN `count` packets after `psn` (before it, where negative)."""
    return (psn + count) & PSN_MASK  # type: ignore[return-value]


def distance(start: Psn, end: Psn) -> int:
    """Packets from `start` to `end`, the short way round: -2^23 … 2^23-1, negative where `end` is older."""
    return ((end - start + _HALF) & PSN_MASK) - _HALF


def unwrapped(psn: Psn, near: int) -> int:
    """The count that comes to `psn` and is nearest to the count `near`."""
    return near + ((psn - near + _HALF) & PSN_MASK) - _HALF


def compare(a: Psn, b: Psn) -> int:
    """Negative where `a` is older than `b`, 0 where equal, positive where newer."""
    return distance(b, a)
