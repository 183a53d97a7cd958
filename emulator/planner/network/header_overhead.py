"""Header overhead: bytes on the wire per byte of payload."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from emulator.errors import PlanError
from emulator.roce.constants import BTH_BYTES, DEFAULT_MESSAGE_BYTES, ICRC_BYTES, PATH_MTUS, RETH_BYTES
from emulator.transports.registry import transport_named

ETHERNET_BYTES = 14 + 4 + 8 + 12
"""Header, frame check sequence, preamble with start delimiter, and inter-frame gap. Source: IEEE 802.3."""
DEFAULT_MTU = 1500
_IPV4, _IPV6, _TCP, _TCP_TIMESTAMPS, _UDP = 20, 40, 20, 12, 8


@dataclass(frozen=True, slots=True)
class WireOverhead:
    """Payload of a full packet or message, and the bytes that it takes on the wire."""

    payload_bytes: int
    wire_bytes: int

    @property
    def factor(self) -> Fraction:
        """Wire bytes per payload byte."""
        return Fraction(self.wire_bytes, self.payload_bytes)


NO_HEADERS = WireOverhead(1, 1)
"""Of transfers inside a scale-up domain."""


def tcp_overhead(mtu: int = DEFAULT_MTU, *, ipv6: bool = False) -> WireOverhead:
    """Full segments of TCP with timestamps, over IP over Ethernet. Acknowledgements and framing are left out.

    Raises:
        PlanError: the MTU leaves no room for payload.
    """
    return _full_packets(mtu, _TCP + _TCP_TIMESTAMPS, "TCP segment", ipv6=ipv6)


def udp_overhead(mtu: int = DEFAULT_MTU, *, header_bytes: int = 0, ipv6: bool = False) -> WireOverhead:
    """Full datagrams whose payload begins with a header of the application's, over IP over Ethernet.

    Raises:
        PlanError: the MTU leaves no room for payload.
    """
    return _full_packets(mtu, _UDP + header_bytes, "UDP datagram", ipv6=ipv6)


def _full_packets(mtu: int, header_bytes: int, what: str, *, ipv6: bool) -> WireOverhead:
    payload = mtu - (_IPV6 if ipv6 else _IPV4) - header_bytes
    if payload <= 0:
        raise PlanError(f"an MTU of {mtu} bytes has no room for a {what}")
    return WireOverhead(payload, mtu + ETHERNET_BYTES)


TCP_1500 = tcp_overhead(DEFAULT_MTU)
"""TCP over IPv4 at an MTU of 1,500 bytes."""


def roce_path_mtu(mtu: int = DEFAULT_MTU, *, ipv6: bool = False) -> int:
    """The largest RoCE path MTU whose first packet, which has a RETH, fits into an IP packet of `mtu` bytes.

    Raises:
        PlanError: not even the smallest path MTU fits.
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
    is_sprayed: bool = False,
) -> WireOverhead:
    """RDMA WRITEs of full messages over RoCEv2: every packet has Ethernet, IP, UDP, BTH and ICRC, the first a RETH.

    Acknowledgements, which take the opposite direction, are left out.

    Args:
        mtu: of an IP packet, bytes.
        message_bytes: payload of a message.
        path_mtu: payload of a packet; None: the largest that fits.
        ipv6: IP headers of 40 bytes instead of 20.
        is_sprayed: every packet has a RETH, as with the multipath profile.

    Raises:
        PlanError: the MTU leaves no room for a packet.
    """
    packet_bytes = path_mtu or roce_path_mtu(mtu, ipv6=ipv6)
    packets = -(-message_bytes // packet_bytes)
    headers = roce_packet_bytes(0, ipv6=ipv6)
    reths = packets if is_sprayed else 1
    return WireOverhead(message_bytes, message_bytes + packets * headers + reths * RETH_BYTES)


def roce_packet_bytes(payload_bytes: int, *, ipv6: bool = False) -> int:
    """Bytes on the wire of a RoCEv2 packet without extension headers."""
    return ETHERNET_BYTES + (_IPV6 if ipv6 else _IPV4) + _UDP + BTH_BYTES + payload_bytes + ICRC_BYTES


def transport_overhead(
    name: str,
    *,
    mtu: int,
    message_bytes: int,
    path_mtu: int | None = None,
    ipv6: bool = False,
    is_sprayed: bool = False,
) -> WireOverhead:
    """Header overhead of a transport by its name; arguments as for `roce_overhead`.

    Raises:
        PlanError: there is no such transport, or the MTU leaves no room for payload.
    """
    if transport_named(name).is_rocev2:
        return roce_overhead(mtu, message_bytes=message_bytes, path_mtu=path_mtu, ipv6=ipv6, is_sprayed=is_sprayed)
    return tcp_overhead(mtu, ipv6=ipv6)
