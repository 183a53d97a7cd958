"""The 64-bit tags of transfers: kind (2 bits), lane (6 bits), number of the communication in the run (56 bits)."""

from __future__ import annotations

from typing import Final

DATA: Final = 0
CREDIT: Final = 1 << 62
PAIR: Final = 2 << 62

LANE_SHIFT: Final = 56
MAX_LANES: Final = 64
LANE_MASK: Final = MAX_LANES - 1
SERIAL_MASK: Final = (1 << LANE_SHIFT) - 1
_KIND: Final = 3 << 62


def data_tag(serial: int, lane: int) -> int:
    """Payload of a collective: `serial` counts communications over all iterations."""
    return lane << LANE_SHIFT | serial


def credit_tag(serial: int) -> int:
    """Receiver-ready: the sender of this credit has posted the collective."""
    return CREDIT | serial


def pair_tag(serial: int) -> int:
    """Payload of a send-receive pair."""
    return PAIR | serial


def split(tag: int) -> tuple[int, int, int]:
    """(kind, lane, serial) of a tag; kind is DATA, CREDIT or PAIR."""
    return tag & _KIND, tag >> LANE_SHIFT & LANE_MASK, tag & SERIAL_MASK
