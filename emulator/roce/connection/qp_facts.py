"""The facts of a queue pair: what its ends must know of each other before the first packet, their GIDs included.

However they are learned (computed from ranks, exchanged over TCP, by rdma_cm), a NIC is given them and derives none. A
GID of RoCEv2 is an IPv6 address as it is, or an IPv4 address mapped.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from emulator.roce.wire.psn import Psn


def gid_of(host: str) -> bytes:
    """The GID of a numeric address, 16 bytes."""
    address = ipaddress.ip_address(host)
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


def address_of_gid(gid: bytes) -> str:
    """The address of a GID."""
    address = ipaddress.IPv6Address(gid)
    return str(address.ipv4_mapped or address)


@dataclass(frozen=True, slots=True, kw_only=True)
class QpFacts:
    """Both ends of a queue pair.

    Attributes:
        host, peer_host: numeric IP addresses of this end and of the peer.
        qpn, peer_qpn: queue pair numbers.
        psn, peer_psn: PSN of the first packet from this end, and of the first one from the peer.
        rkey: memory key that this end honours.
        source_ports: UDP source ports of this end; messages use them in turn.
    """

    host: str
    peer_host: str
    qpn: int
    peer_qpn: int
    psn: Psn
    peer_psn: Psn
    rkey: int
    source_ports: Sequence[int]


@lru_cache(maxsize=1 << 16)
def packed(host: str) -> bytes:
    """An address as bytes, as in an IP header."""
    return ipaddress.ip_address(host).packed
