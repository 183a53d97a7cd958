"""The rate cap of a port: the most that all ranks at it may send together."""

from __future__ import annotations

NO_CAP = -1


def port_cap_bps(requested_bps: int, port_rate_bps: int | None) -> int:
    """Most that all ranks at a port may send together, bit/s; 0: no cap.

    Args:
        requested_bps: requested by the user; 0: the port's rate; NO_CAP: no cap.
        port_rate_bps: None if not known.
    """
    if requested_bps == NO_CAP:
        return 0
    return min((rate for rate in (requested_bps, port_rate_bps) if rate), default=0)
