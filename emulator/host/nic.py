"""What a host says of the interfaces that carry its ranks' addresses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NicFacts:
    """An interface that carries addresses of ranks; what its host does not say is None.

    Attributes:
        driver, firmware: as `ethtool -i` gives them.
        speed_bps: of the link, bit/s.
        mtu: of an IP packet, bytes.
    """

    interface: str
    driver: str | None = None
    firmware: str | None = None
    speed_bps: int | None = None
    mtu: int | None = None
