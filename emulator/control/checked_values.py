"""Values of messages that are checked as a message is decoded: addresses and prefixes, of which nothing but numbers
may reach a host's commands and sockets, and numbers of which only some make sense.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

from emulator.topology.safety import numeric_address, numeric_prefix

NumericAddress: TypeAlias = Annotated[str, numeric_address]
NumericPrefix: TypeAlias = Annotated[str, numeric_prefix]


N = TypeVar("N", int, float)


def share(value: float) -> float:
    """A part of a whole; ValueError if it is not from 0 to 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{value:g} is not a share from 0 to 1")
    return value


def not_negative(value: N) -> N:
    """ValueError if it is negative."""
    if value < 0:
        raise ValueError(f"{value:g} is negative")
    return value


Share: TypeAlias = Annotated[float, share]
Amount: TypeAlias = Annotated[float, not_negative]
Count: TypeAlias = Annotated[int, not_negative]
