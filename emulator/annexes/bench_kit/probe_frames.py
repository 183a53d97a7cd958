"""Crafts the frames of a probe: tags, marks, flow control, checksums and sizes that devices treat differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from emulator.roce.constants import ICRC_BYTES, UDP_PORT
from emulator.roce.wire.headers import Bth
from emulator.roce.wire.icrc import icrc_of_datagram
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import CNP_PAYLOAD, congestion_notification, pack_icrc, pack_packet
from emulator.roce.wire.psn import Psn

MAGIC = b"charkha\x00"
SOURCE_PORT, DISCARD_PORT = 0xC0DE, 9
PROBE_QP = 0xC0FF00
PAUSE_MAC = "01:80:c2:00:00:01"  # IEEE 802.3 annex 31B, 802.1Q clause 36
_MAC_CONTROL = 0x8808
_PAUSE, _PRIORITY_PAUSE = 0x0001, 0x0101
_LEAST_FRAME = 60
_V4, _V6, _UDP = 20, 40, 8
_CNP = "CNP"
VLAN = 100
SIZES = (46, 47, 63, 64, 65, 127, 128, 255, 511, 1023)
"""Lengths of IP packets in bytes, in addition to those near the MTU; 46 fill the shortest frame."""
_Made: TypeAlias = Iterator[tuple[str, str, bytes]]


@dataclass(frozen=True, slots=True)
class Wire:
    """The path of the frames.

    Attributes:
        source_mac, source: addresses of the sender.
        next_mac: MAC address of the first hop.
        destination: IP address of the receiver.
        mtu: largest IP packet on the first link, bytes.
    """

    source_mac: str
    next_mac: str
    source: str
    destination: str
    mtu: int

    @property
    def is_v6(self) -> bool:
        """Whether the addresses are IPv6."""
        return ":" in self.source


@dataclass(frozen=True, slots=True)
class Probe:
    """A crafted frame.

    Attributes:
        group, name: for reports.
        fingerprint: bytes that identify the frame at the receiver, even if its headers have changed.
    """

    group: str
    name: str
    frame: bytes
    fingerprint: bytes


def probes(wire: Wire) -> Iterator[Probe]:
    """All frames of a probe, group by group."""
    return _Maker(wire).all()


class _Maker:
    """Crafts one frame after the other; `_mark` identifies the next one."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._number = wire, 0

    @property
    def _mark(self) -> bytes:
        return MAGIC + self._number.to_bytes(4)

    def all(self) -> Iterator[Probe]:
        for make in (
            self._vlans,
            self._code_points,
            self._marks,
            self._flow_control,
            self._notifications,
            self._checksums,
            self._sizes,
        ):
            for group, name, frame in make():
                yield Probe(group, name, frame, self._fingerprint(group))
                self._number += 1

    def _fingerprint(self, group: str) -> bytes:
        return self._notification()[5:12] + CNP_PAYLOAD if group == _CNP else self._mark

    def _vlans(self) -> _Made:
        yield "VLAN", "untagged", self._ether(self._roce())
        yield "VLAN", "priority tag, VLAN 0", self._ether(self._roce(), vlan=0, priority=3)
        for vlan in (1, VLAN, 4094):
            yield "VLAN", f"VLAN {vlan}", self._ether(self._roce(), vlan=vlan)
        for priority in range(1, 8):
            yield "VLAN", f"VLAN {VLAN}, priority {priority}", self._ether(self._roce(), vlan=VLAN, priority=priority)

    def _code_points(self) -> _Made:
        for dscp in range(64):
            yield "DSCP", f"DSCP {dscp}", self._ether(self._roce(traffic_class=dscp << 2))

    def _marks(self) -> _Made:
        for value, name in enumerate(("not ECT", "ECT(1)", "ECT(0)", "CE")):
            yield "ECN", name, self._ether(self._roce(traffic_class=26 << 2 | value))

    def _flow_control(self) -> _Made:
        """Frames that a switch consumes and does not forward."""
        for name, opcode, times in (
            ("PAUSE", _PAUSE, [1]),
            ("PAUSE, 0 quanta", _PAUSE, [0]),
            ("PFC, priority 3", _PRIORITY_PAUSE, [1 << 3, *(int(one == 3) for one in range(8))]),
            ("PFC, all priorities", _PRIORITY_PAUSE, [0xFF, *[1] * 8]),
            ("PFC, 0 quanta", _PRIORITY_PAUSE, [0xFF, *[0] * 8]),
        ):
            body = opcode.to_bytes(2) + b"".join(one.to_bytes(2) for one in times) + self._mark
            header = bytes(Ether(dst=PAUSE_MAC, src=self._wire.source_mac, type=_MAC_CONTROL))
            yield "flow control", name, (header + body).ljust(_LEAST_FRAME, b"\0")

    def _notifications(self) -> _Made:
        for dscp in (0, 48):
            sealed = self._with_icrc(self._notification(), traffic_class=dscp << 2)
            yield _CNP, f"CNP, DSCP {dscp}", self._ether(sealed)

    def _notification(self) -> bytes:
        return congestion_notification(PROBE_QP + self._number)

    def _checksums(self) -> _Made:
        good = bytes(self._roce().payload.payload)
        bad = good[:-ICRC_BYTES] + bytes(byte ^ 0xFF for byte in good[-ICRC_BYTES:])
        yield "checksums", "bad ICRC", self._ether(self._ip() / self._udp(port=UDP_PORT) / Raw(bad))
        yield "checksums", "bad UDP checksum", self._ether(self._ip() / self._udp(chksum=0xBAD) / Raw(self._body()))
        if not self._wire.is_v6:  # only there, a UDP checksum of 0 means none, and IP has a checksum
            yield "checksums", "no UDP checksum", self._ether(self._ip() / self._udp(chksum=0) / Raw(self._body()))
            yield (
                "checksums",
                "bad IP checksum",
                self._ether(self._ip(chksum=0xBAD) / self._udp() / Raw(self._body())),
            )
        yield "checksums", "TTL 1", self._ether(self._ip(ttl=1) / self._udp() / Raw(self._body()))

    def _sizes(self) -> _Made:
        mtu, headers = self._wire.mtu, self._header_bytes + _UDP
        for size in (*SIZES, mtu - 1, mtu, mtu + 1):
            if headers + len(self._mark) <= size <= mtu + 1:
                about = {mtu: " (MTU)", mtu + 1: " (one over the MTU)"}.get(size, "")
                packet = self._ip() / self._udp() / Raw(self._body(size - headers))
                yield "size", f"{size:,} bytes{about}", self._ether(packet)

    # Parts of frames.

    @property
    def _header_bytes(self) -> int:
        return _V6 if self._wire.is_v6 else _V4

    def _body(self, size: int = 32) -> bytes:
        """A payload that begins with the mark."""
        return (self._mark + bytes(range(256)) * (size // 256 + 1))[:size]

    def _ether(self, packet: Any, *, vlan: int | None = None, priority: int = 0) -> bytes:
        header = Ether(dst=self._wire.next_mac, src=self._wire.source_mac)
        if vlan is not None:
            header /= Dot1Q(vlan=vlan, prio=priority)
        return bytes(header / packet)

    def _ip(self, *, traffic_class: int = 0, ttl: int = 64, chksum: int | None = None) -> Any:
        wire = self._wire
        if wire.is_v6:
            return IPv6(src=wire.source, dst=wire.destination, tc=traffic_class, hlim=ttl)
        return IP(src=wire.source, dst=wire.destination, tos=traffic_class, ttl=ttl, flags="DF", id=0, chksum=chksum)

    def _udp(self, *, port: int = DISCARD_PORT, chksum: int | None = None) -> Any:
        return UDP(sport=SOURCE_PORT, dport=port, chksum=chksum)

    def _roce(self, *, traffic_class: int = 0) -> Any:
        """A valid RoCEv2 SEND of one packet."""
        packet = pack_packet(Bth(Opcode.RC_SEND_ONLY, Psn(0), PROBE_QP), payload=self._body())
        return self._with_icrc(packet, traffic_class=traffic_class)

    def _with_icrc(self, packet: bytes, *, traffic_class: int) -> Any:
        headers = self._ip(traffic_class=traffic_class) / self._udp(port=UDP_PORT)
        whole = bytes(headers / Raw(packet + bytes(ICRC_BYTES)))
        return headers / Raw(packet + pack_icrc(icrc_of_datagram(whole, self._header_bytes)))
