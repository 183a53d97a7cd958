"""What is known of an interface: a value, which what has no IO may hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NicFacts:
    """An interface that carries addresses of ranks; what is not known is None.

    Attributes:
        driver, firmware: as `ethtool -i` prints them.
        speed_bps: of the link, bit/s.
        mtu: of an IP packet, bytes.
    """

    interface: str
    driver: str | None = None
    firmware: str | None = None
    speed_bps: int | None = None
    mtu: int | None = None
