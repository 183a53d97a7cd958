"""What headers cost: how many bytes pass on the wire for the payload of a full message."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from emulator.errors import PlanError
from emulator.roce.constants import BTH_BYTES, DEFAULT_MESSAGE_BYTES, ICRC_BYTES, PATH_MTUS, RETH_BYTES

ETHERNET_BYTES = 14 + 4 + 8 + 12
"""Header, frame check sequence, preamble and start, and the gap to the next frame (IEEE 802.3)."""
DEFAULT_MTU = 1500
_IPV4, _IPV6, _TCP, _TCP_TIMESTAMPS, _UDP = 20, 40, 20, 12, 8


@dataclass(frozen=True, slots=True)
class WireOverhead:
    """How much a full packet (or message) carries, and the time it takes on the wire in bytes."""

    payload_bytes: int
    wire_bytes: int

    @property
    def factor(self) -> Fraction:
        """Wire bytes per payload byte."""
        return Fraction(self.wire_bytes, self.payload_bytes)


def tcp_overhead(mtu: int = DEFAULT_MTU, *, ipv6: bool = False) -> WireOverhead:
    """TCP with timestamps over IP over Ethernet in full segments.

    Acknowledgements and the few bytes of framing per message are left out.

    Raises:
        PlanError: the MTU has no room for payload.
    """
    payload = mtu - (_IPV6 if ipv6 else _IPV4) - _TCP - _TCP_TIMESTAMPS
    if payload <= 0:
        raise PlanError(f"an MTU of {mtu} bytes has no room for a TCP segment")
    return WireOverhead(payload, mtu + ETHERNET_BYTES)


TCP_1500 = tcp_overhead(DEFAULT_MTU)
"""TCP over IPv4 over Ethernet at MTU 1,500: 20 bytes IP, 20 TCP, 12 timestamps; 14 Ethernet, 4 FCS, 8 preamble, 12 gap.
"""


def roce_path_mtu(mtu: int = DEFAULT_MTU, *, ipv6: bool = False) -> int:
    """The largest RoCE path MTU whose packets, the first one with its RETH, fit into an IP packet of `mtu` bytes.

    Raises:
        PlanError: none does.
    """
    room = mtu - (_IPV6 if ipv6 else _IPV4) - _UDP - BTH_BYTES - RETH_BYTES - ICRC_BYTES
    fitting = [size for size in PATH_MTUS if size <= room]
    if not fitting:
        raise PlanError(f"an MTU of {mtu} bytes has no room for a RoCEv2 packet")
    return fitting[-1]


def roce_overhead(
    mtu: int = DEFAULT_MTU,
    *,
    message_bytes: int = DEFAULT_MESSAGE_BYTES,
    path_mtu: int | None = None,
    ipv6: bool = False,
) -> WireOverhead:
    """RDMA WRITEs of full messages over RoCEv2: every packet has Ethernet, IP, UDP, BTH and ICRC, the first a RETH.

    Acknowledgements, which go the other way, are left out.

    Args:
        mtu: of an IP packet, bytes.
        message_bytes: payload of a message.
        path_mtu: payload of a packet; None = the largest that fits.
        ipv6: IP headers of 40 bytes instead of 20.

    Raises:
        PlanError: no packet fits into the MTU.
    """
    packet_bytes = path_mtu or roce_path_mtu(mtu, ipv6=ipv6)
    packets = -(-message_bytes // packet_bytes)
    headers = roce_packet_bytes(0, ipv6=ipv6)
    return WireOverhead(message_bytes, message_bytes + packets * headers + RETH_BYTES)


def roce_packet_bytes(payload_bytes: int, *, ipv6: bool = False) -> int:
    """The time that a RoCEv2 packet without extension headers takes on the wire, in bytes."""
    return ETHERNET_BYTES + (_IPV6 if ipv6 else _IPV4) + _UDP + BTH_BYTES + payload_bytes + ICRC_BYTES


def transport_overhead(
    name: str, *, mtu: int, message_bytes: int, path_mtu: int | None = None, ipv6: bool = False
) -> WireOverhead:
    """Overhead of a transport by its name on the command line; arguments as `roce_overhead`.

    Raises:
        PlanError: no such transport, or nothing fits into the MTU.
    """
    if name == "roce":
        return roce_overhead(mtu, message_bytes=message_bytes, path_mtu=path_mtu, ipv6=ipv6)
    if name == "zmq":
        return tcp_overhead(mtu, ipv6=ipv6)
    raise PlanError(f"the header overhead of a transport {name!r} is unknown; there are zmq and roce")
