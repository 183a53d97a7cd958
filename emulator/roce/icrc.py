"""The invariant CRC of RoCEv2: of one datagram, or of a whole run of packets by look-ups alone.

CRC-32 over eight 0xff | IP header | UDP header | BTH … pad, with the fields a router may change as ones: TOS, TTL and
checksum (IPv6: traffic class, flow label, hop limit), the UDP checksum, and byte 4 of the BTH (FECN, BECN). It is
stored little-endian. Everything else counts: addresses, ports, lengths, IPv4 ID and flags.

Packets of one flow and one length differ in few words, so their ICRCs differ by look-ups (`RunIcrc`); and a received
IPv4 datagram's ID, which a UDP socket does not show, follows from its ICRC, leaving 16 bits that check.

Source: InfiniBand Architecture Specification, annex A17; IBTA volume 1, section 7.8.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from emulator.roce.constants import BTH_BYTES, ICRC_BYTES, UDP_PORT
from emulator.roce.gf2 import U32Array, combine, shift_table, word_table
from emulator.roce.headers import Buffer

DONT_FRAGMENT = 0x4000
"""The IPv4 flags and fragment offset that RoCEv2 endpoints send."""

_V4 = struct.Struct(">BBHHHBBH4s4s")
_V6 = struct.Struct(">IHBB16s16s")
_UDP = struct.Struct(">HHHH")
_MASKED_BTH_BYTE = 4
_UDP_PROTOCOL = 17
_ONES = b"\xff" * 8
_UDP_BYTES = 8
_V4_BYTES = 20
_V4_ID_OFFSET = 4
_PAIRS = 1 << 16


@dataclass(frozen=True, slots=True)
class UdpPath:
    """The ends of a flow: packed addresses (4 or 16 bytes), UDP ports; `flags`: IPv4's, with the fragment offset."""

    source: bytes
    destination: bytes
    source_port: int
    destination_port: int = UDP_PORT
    flags: int = DONT_FRAGMENT

    @classmethod
    def between(
        cls,
        source: str,
        destination: str,
        *,
        source_port: int,
        destination_port: int = UDP_PORT,
        flags: int = DONT_FRAGMENT,
    ) -> UdpPath:
        """The path between two addresses in text."""
        packed = [ipaddress.ip_address(address).packed for address in (source, destination)]
        return cls(packed[0], packed[1], source_port, destination_port, flags)

    @property
    def is_v4(self) -> bool:
        """Whether the addresses are IPv4's, so that packets have an ID."""
        return len(self.source) == 4

    def masked_headers(self, udp_payload_bytes: int, *, ip_id: int = 0) -> bytes:
        """The part of the ICRC's message before the BTH; `udp_payload_bytes` counts the ICRC."""
        udp_bytes = udp_payload_bytes + _UDP_BYTES
        udp = _UDP.pack(self.source_port, self.destination_port, udp_bytes, 0xFFFF)
        if self.is_v4:
            total = udp_bytes + _V4_BYTES
            ip = _V4.pack(
                0x45, 0xFF, total, ip_id, self.flags, 0xFF, _UDP_PROTOCOL, 0xFFFF, self.source, self.destination
            )
        else:
            ip = _V6.pack(0x6FFFFFFF, udp_bytes, _UDP_PROTOCOL, 0xFF, self.source, self.destination)
        return _ONES + ip + udp


def icrc(path: UdpPath, packet: Buffer, *, ip_id: int = 0) -> int:
    """The ICRC of one packet.

    Args:
        path: the flow it belongs to.
        packet: BTH … pad, without the ICRC.
        ip_id: the IPv4 ID; of no meaning for IPv6.
    """
    crc = zlib.crc32(path.masked_headers(len(packet) + ICRC_BYTES, ip_id=ip_id))
    return _crc_of_packet(packet, crc)


def icrc_of_datagram(datagram: Buffer, header_bytes: int) -> int:
    """The ICRC that a captured IP datagram ought to have.

    Args:
        datagram: IP header … ICRC, whole; the ICRC in it is not looked at.
        header_bytes: length of the IP header, options or extension headers included.
    """
    headers = bytearray(datagram[: header_bytes + _UDP_BYTES])
    if headers[0] >> 4 == 4:
        headers[1] = headers[8] = headers[10] = headers[11] = 0xFF
    else:
        headers[0] |= 0x0F
        headers[1] = headers[2] = headers[3] = headers[7] = 0xFF
    headers[header_bytes + 6 : header_bytes + 8] = b"\xff\xff"
    crc = zlib.crc32(headers, zlib.crc32(_ONES))
    return _crc_of_packet(datagram[header_bytes + _UDP_BYTES : -ICRC_BYTES], crc)


def _crc_of_packet(packet: Buffer, crc: int) -> int:
    crc = zlib.crc32(packet[:_MASKED_BTH_BYTE], crc)
    crc = zlib.crc32(b"\xff", crc)
    return zlib.crc32(memoryview(packet)[_MASKED_BTH_BYTE + 1 :], crc)


@dataclass(frozen=True, slots=True)
class IcrcTemplate:
    """What the packets of a run have in common.

    `headers`: BTH and extension headers of any one of them; `payload_bytes` and `payload_crc` (zlib's CRC-32) are those
    of payload and pad together.
    """

    path: UdpPath
    headers: bytes
    payload_bytes: int
    payload_crc: int

    @property
    def udp_payload_bytes(self) -> int:
        """Length of each packet, ICRC included."""
        return len(self.headers) + self.payload_bytes + ICRC_BYTES


class RunIcrc:
    """ICRCs of packets of one flow, one length and one payload, whose PSNs count up, whatever their IP IDs.

    Making one costs some 50 µs, and the first of a length 2 ms for tables that all flows share: keep one per flow and
    length for what repeats, as full packets do, and use `icrc` for lone packets of odd lengths. Extension headers and
    payload are fixed, BTH words are arguments.
    """

    __slots__ = ("_base", "_ids", "_psn_high", "_psn_low", "_words", "template")

    def __init__(self, template: IcrcTemplate) -> None:
        self.template = template
        after_bth = template.udp_payload_bytes - ICRC_BYTES - BTH_BYTES
        self._words = [word_table(after_bth + 4 * after) for after in (2, 1, 0)]
        self._psn_high, self._psn_low = self._words[2].tables[1], _pair_table(after_bth)
        after_id = after_bth + BTH_BYTES + _UDP_BYTES + _V4_BYTES - _V4_ID_OFFSET - 2
        self._ids = _pair_table(after_id)
        self._base = self._icrc_of_zeros()

    def _icrc_of_zeros(self) -> int:
        """The ICRC with the template's first two BTH words and AckReq byte, PSN 0 and IP ID 0."""
        template = self.template
        headers = template.path.masked_headers(template.udp_payload_bytes)
        crc = _crc_of_packet(template.headers[:9] + bytes(3) + template.headers[BTH_BYTES:], zlib.crc32(headers))
        return combine(crc, template.payload_crc, template.payload_bytes)

    def constants(self, high: int, ip_ids: U32Array) -> U32Array:
        """What `write` needs where the upper byte of the PSNs is `high`: uint32, the shape of the IP IDs."""
        constants = np.full(ip_ids.shape, self._base ^ int(self._psn_high[high]), np.uint32)
        if self.template.path.is_v4:
            constants ^= self._ids[ip_ids]
        return constants

    def write(self, first_low: int, constants: U32Array, out: U32Array) -> None:
        """Write the ICRCs of packets whose PSNs count up without a carry from their lower 16 bits: one operation.

        Args:
            first_low: the lower 16 bits of the first PSN.
            constants: see `constants`; the shape of `out`.
        """
        np.bitwise_xor(self._psn_low[first_low : first_low + len(out)], constants, out=out)

    def change(self, offset: int, difference: int) -> int:
        """What to XOR into an ICRC when byte `offset` of the BTH changes by XOR `difference`.

        As for AckReq on the last packet of a run: `crcs[-1] ^= run.change(8, 0x80)`. Byte 4 is masked: no change.
        """
        if offset == _MASKED_BTH_BYTE:
            return 0
        return int(self._words[offset // 4].tables[offset % 4, difference])


def recover_ip_id(path: UdpPath, packet: Buffer, received: int) -> int | None:
    """The IPv4 ID with which one received packet's ICRC is right; None: none is.

    Args:
        path: the flow; for IPv6 the answer is 0 or None.
        packet: BTH … pad, without the ICRC.
        received: the ICRC in it.
    """
    difference = icrc(path, packet) ^ received
    if not path.is_v4:
        return None if difference else 0
    bytes_after = len(packet) + _UDP_BYTES + _V4_BYTES - _V4_ID_OFFSET - 2
    word = shift_table(-(bytes_after + 4)).product(difference)
    return None if word & 0xFFFF else int(word >> 16 & 0xFF) << 8 | word >> 24


@lru_cache(maxsize=1024)
def ip_id_changes(udp_payload_bytes: int) -> U32Array:
    """What to XOR into the ICRC of an IPv4 packet with IP ID 0 for another below 256: uint32, shape (256,)."""
    after_id = udp_payload_bytes - ICRC_BYTES + _UDP_BYTES + _V4_BYTES - _V4_ID_OFFSET - 2
    return np.array(word_table(after_id).tables[3])


def psn_changes(udp_payload_bytes: int) -> U32Array:
    """What to XOR into the ICRC of a packet with PSN 0 for the lower 16 bits of another: uint32, shape (65536,)."""
    return _pair_table(udp_payload_bytes - ICRC_BYTES - BTH_BYTES)


@lru_cache(maxsize=128)
def _pair_table(bytes_after: int) -> U32Array:
    """What a big-endian 16-bit number with that many bytes after it adds to the CRC: uint32, shape (65536,)."""
    _, _, high, low = word_table(bytes_after).tables
    return np.asarray(high[:, None] ^ low[None, :]).reshape(-1)
