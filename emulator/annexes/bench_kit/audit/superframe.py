"""Super-frames: several packets in one captured datagram, before segmentation (GSO) or after merging (GRO).

A host that sends with UDP_SEGMENT hands up to 64 KiB to the kernel in one call. On the loopback device, and on the
sender before segmentation, that is captured as one datagram. All its packets have the same length; the last one can be
shorter.
"""

from __future__ import annotations

from emulator.annexes.bench_kit.audit.datagram import Datagram
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES, PATH_MTUS
from emulator.roce.wire.icrc import UdpPath, icrc, recover_ip_id
from emulator.roce.wire.opcodes import MEANINGS, PacketPlace

LARGEST_PACKET = 4096 + 3 + BTH_BYTES + 28 + ICRC_BYTES
"""Largest UDP payload of one RoCEv2 packet: path MTU, padding, and all headers."""

_SHORTEST = BTH_BYTES + ICRC_BYTES
_SAME_IN_ALL = slice(2, 8)  # P_Key, flags and destination queue pair


def split(payload: bytes) -> list[bytes]:
    """The packets in the UDP payload of a super-frame; a single packet comes back as the only element."""
    pattern = payload[_SAME_IN_ALL]
    found = payload.find(pattern, _SHORTEST + 2)
    while found >= 0:
        length = found - 2
        if length % 4 == 0 and _splits_at(payload, length, pattern):
            return [payload[at : at + length] for at in range(0, len(payload), length)]
        found = payload.find(pattern, found + 1)
    return [payload]


def _splits_at(payload: bytes, length: int, pattern: bytes) -> bool:
    if 0 < len(payload) % length < _SHORTEST:
        return False
    return all(payload[at + 2 : at + 8] == pattern for at in range(length, len(payload), length))


def exceeds_one_packet(captured: bytes, udp_payload_bytes: int) -> bool:
    """Whether a truncated UDP payload is a super-frame.

    It is if it is longer than any packet, or begins with a FIRST or MIDDLE whose payload would not be a path MTU.

    Args:
        captured: its captured part, at least one byte.
        udp_payload_bytes: its whole length.
    """
    meaning = MEANINGS.get(captured[0])
    if udp_payload_bytes > LARGEST_PACKET:
        return True
    if meaning is None or meaning.place not in (PacketPlace.FIRST, PacketPlace.MIDDLE):
        return False
    return udp_payload_bytes - BTH_BYTES - meaning.extension_bytes - ICRC_BYTES not in PATH_MTUS


def is_segment_intact(datagram: Datagram, segment: bytes, *, index: int) -> bool:
    """Whether the ICRC of a packet in a super-frame is right on the wire, with any IP ID that the kernel gives it.

    Args:
        datagram: the super-frame.
        segment: the packet, from BTH to ICRC.
        index: of the packet in the super-frame.
    """
    path = UdpPath(
        datagram.source, datagram.destination, datagram.source_port, datagram.destination_port, datagram.flags
    )
    packet, stored = segment[:-ICRC_BYTES], int.from_bytes(segment[-ICRC_BYTES:], "little")
    if icrc(path, packet, ip_id=datagram.ip_id + index & 0xFFFF) == stored:
        return True
    return recover_ip_id(path, packet, stored) is not None
