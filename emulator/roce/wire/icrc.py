"""The invariant CRC of RoCEv2: of one datagram, or of a whole run of packets by look-ups alone.

CRC-32 over eight 0xff | IP header | UDP header | BTH … pad, with the fields a router may change as ones: TOS, TTL and
checksum (IPv6: traffic class, flow label, hop limit), the UDP checksum, and byte 4 of the BTH (FECN, BECN). It is
stored little-endian. Everything else counts: addresses, ports, lengths, IPv4 ID and flags.

Packets of one flow and one length differ in few words, so their ICRCs differ by look-ups (`psn_changes`,
`ip_id_changes`). A UDP socket does not show the ID of a received IPv4 datagram: it follows from the ICRC
(`recover_ip_id`), of whose 32 bits 16 are left to check the packet.

CRC-32 is a polynomial over GF(2) modulo P. A polynomial of degree < 32 is the integer zlib uses: bit 31 is x^0, bit 0
is x^31. Four message bytes read as a little-endian word are their own polynomial in this form, so appending n zero
bytes to a message, or finding what a word with n bytes after it adds to the CRC, is one multiplication by a power of x.
CRC-32 is affine: the CRCs of two messages of one length differ by the sum (XOR) of what their differing words add.

Source: InfiniBand Architecture Specification, annex A17; IBTA volume 1, section 7.8; the polynomial of IEEE 802.3;
Peterson and Brown, Proc. IRE 49 (1961).
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from emulator.roce.constants import BTH_BYTES, ICRC_BYTES, UDP_PORT
from emulator.roce.wire.headers import Buffer
from emulator.roce.wire.psn import PSN_MASK, Psn

U32Array: TypeAlias = npt.NDArray[np.uint32]

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31  # x^0
_ORDER = (1 << 32) - 1  # P is primitive: x^_ORDER = 1, so that negative powers exist
_WORD_BYTES = 4


def _times_x(value: int) -> int:
    return value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)


def multiply(a: int, b: int) -> int:
    """The product of two polynomials modulo P."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = _times_x(b)
    return product


@lru_cache(maxsize=4096)
def power_of_x(exponent: int) -> int:
    """x^exponent modulo P; the exponent may be negative."""
    result, square, rest = _ONE, _ONE >> 1, exponent % _ORDER
    while rest:
        if rest & 1:
            result = multiply(square, result)
        square = multiply(square, square)
        rest >>= 1
    return result


class WordTable:
    """Multiplication of words by a constant: `tables[k]` holds the products of byte k of a little-endian word.

    `tables` is uint32 of shape (4, 256); the product of a word is the XOR of its bytes' entries.
    """

    __slots__ = ("tables",)

    def __init__(self, constant: int) -> None:
        self.tables = np.zeros((_WORD_BYTES, 256), np.uint32)
        for bit in range(31, -1, -1):
            self.tables[bit // 8, 1 << bit % 8] = constant
            constant = _times_x(constant)
        self._fill()

    def _fill(self) -> None:
        """Products are linear: those of numbers below 2^(k+1) follow from those below 2^k and that of 2^k."""
        for row in self.tables:
            for bit in range(8):
                half = 1 << bit
                row[half : 2 * half] = row[:half] ^ row[half]

    def product(self, word: int) -> int:
        """The product of one word."""
        tables = self.tables
        return int(
            tables[0, word & 0xFF] ^ tables[1, word >> 8 & 0xFF] ^ tables[2, word >> 16 & 0xFF] ^ tables[3, word >> 24]
        )


@lru_cache(maxsize=4096)
def shift_table(zero_bytes: int) -> WordTable:
    """Multiplication by x^(8·zero_bytes): what appending that many zero bytes does; negative takes them away again."""
    return WordTable(power_of_x(8 * zero_bytes))


def word_table(bytes_after: int) -> WordTable:
    """What a four-byte word (read little-endian) adds to the CRC when that many bytes follow it in the message."""
    return shift_table(bytes_after + _WORD_BYTES)


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


def recover_ip_id(path: UdpPath, packet: Buffer, received: int) -> int | None:
    """The IPv4 ID with which one received packet's ICRC is right; None if no ID fits.

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


def psn_changes(udp_payload_bytes: int, psn: Psn, count: int) -> tuple[U32Array, int]:
    """What to XOR into the ICRC of a packet with PSN 0 for those of other packets.

    Args:
        udp_payload_bytes: of each packet, BTH … ICRC.
        psn: of the first packet.
        count: of packets, whose PSNs count up.

    Returns:
        uint32, shape (count,), read-only: it may be part of a table; and a value to XOR into all.
    """
    bytes_after, low = udp_payload_bytes - ICRC_BYTES - BTH_BYTES, psn & 0xFFFF
    lower, high = _psn_tables(bytes_after)
    if low + count <= len(lower):
        return lower[low : low + count], high[psn >> 16]
    psns = np.arange(psn, psn + count) & PSN_MASK
    return np.asarray(lower[psns & 0xFFFF] ^ np.array(high, np.uint32)[psns >> 16]), 0


@lru_cache(maxsize=128)
def _psn_tables(bytes_after: int) -> tuple[U32Array, list[int]]:
    """What the lower 16 bits of a PSN with that many bytes after it add to the CRC, and what the upper byte adds."""
    _, upper, high, low = word_table(bytes_after).tables
    return np.asarray(high[:, None] ^ low[None, :]).reshape(-1), upper.tolist()
