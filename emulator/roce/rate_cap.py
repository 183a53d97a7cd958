"""The rate cap of a port: the most that all ranks at it may send together."""

from __future__ import annotations

NO_CAP = -1


def port_cap_bps(asked_bps: int, port_rate_bps: int | None) -> int:
    """Most that all ranks at a port may send together, bit/s; 0: no cap.

    Args:
        asked_bps: by the user; 0: nothing was said, so it is the port's rate; NO_CAP: whatever they like.
        port_rate_bps: None where nobody says.
    """
    if asked_bps == NO_CAP:
        return 0
    return min((rate for rate in (asked_bps, port_rate_bps) if rate), default=0)
