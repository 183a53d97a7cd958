"""One end of a background flow, as an agent is given it."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.flows.background.schedule import Schedule
from emulator.roce.options import RoceOptions

TRANSPORTS = ("roce", "tcp", "udp")
"""What carries background traffic."""
UDP_HEADER_BYTES, TCP_HEADER_BYTES = 32, 16
"""Of our own: before the payload of every datagram, and of every message on a TCP connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTask:
    """One end of a flow.

    Attributes:
        is_sender: it sends; else it receives.
        transport: one of TRANSPORTS.
        address, peer_address: numeric IP addresses of this end and of the other one.
        port: where the receiver listens, for TCP and UDP.
        tag: random; both ends know it, packets of other runs do not carry it. RoCE makes its numbers and key from it.
        schedule: of the messages.
        options: of the software NIC; its DSCP holds for all transports.
        port_rate_bps: of the sender's port; None: not specified.
    """

    is_sender: bool
    transport: str
    address: str
    peer_address: str
    port: int
    tag: int
    schedule: Schedule
    options: RoceOptions
    port_rate_bps: int | None = None
