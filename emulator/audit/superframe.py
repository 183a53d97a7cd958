"""Many packets in one captured datagram: how they look before the kernel cuts them apart, or after it merged them.

A host that sends with UDP_SEGMENT hands the kernel up to 64 KiB at once; captured on the loopback device, or on the
sender before the cut, that is one datagram. The packets in it have one length, but for the last, which may be shorter.
"""

from __future__ import annotations

from emulator.audit.datagram import Datagram
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES, PATH_MTUS
from emulator.roce.icrc import UdpPath, icrc, recover_ip_id
from emulator.roce.opcodes import MEANINGS, Place

LARGEST_PACKET = 4096 + 3 + BTH_BYTES + 28 + ICRC_BYTES
"""No RoCEv2 packet is longer than the largest path MTU with all its headers."""

_SHORTEST = BTH_BYTES + ICRC_BYTES
_SAME_IN_ALL = slice(2, 8)  # P_Key, marks and destination queue pair


def cut(payload: bytes) -> list[bytes]:
    """The packets in a super-frame's UDP payload; one element where it is a single packet."""
    pattern = payload[_SAME_IN_ALL]
    found = payload.find(pattern, _SHORTEST + 2)
    while found >= 0:
        length = found - 2
        if length % 4 == 0 and _is_cut_at(payload, length, pattern):
            return [payload[at : at + length] for at in range(0, len(payload), length)]
        found = payload.find(pattern, found + 1)
    return [payload]


def _is_cut_at(payload: bytes, length: int, pattern: bytes) -> bool:
    if 0 < len(payload) % length < _SHORTEST:
        return False
    return all(payload[at + 2 : at + 8] == pattern for at in range(length, len(payload), length))


def is_beyond_a_packet(start: bytes, udp_payload_bytes: int) -> bool:
    """Whether a UDP payload of that length, of which only the start is there, holds more than one packet: it is longer
    than any, or begins with a FIRST or MIDDLE that would carry no path MTU.
    """
    meaning = MEANINGS.get(start[0])
    if udp_payload_bytes > LARGEST_PACKET:
        return True
    if meaning is None or meaning.place not in (Place.FIRST, Place.MIDDLE):
        return False
    return udp_payload_bytes - BTH_BYTES - meaning.extension_bytes - ICRC_BYTES not in PATH_MTUS


def is_segment_intact(datagram: Datagram, segment: bytes, *, index: int) -> bool:
    """Whether the ICRC of a packet in a super-frame will be right once it is cut out, whatever IP ID it then gets.

    Args:
        datagram: the super-frame.
        segment: BTH … ICRC.
        index: which of its packets.
    """
    path = UdpPath(
        datagram.source, datagram.destination, datagram.source_port, datagram.destination_port, datagram.flags
    )
    packet, stored = segment[:-ICRC_BYTES], int.from_bytes(segment[-ICRC_BYTES:], "little")
    if icrc(path, packet, ip_id=datagram.ip_id + index & 0xFFFF) == stored:
        return True
    return recover_ip_id(path, packet, stored) is not None
