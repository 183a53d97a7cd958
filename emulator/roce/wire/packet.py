"""One RoCEv2 packet: the payload of a UDP datagram as headers, payload and ICRC, and back.

BTH 12 | extension headers by opcode | payload | pad to 4 | ICRC 4
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum

from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.wire.headers import P_KEYS, Bth, Buffer, Extension
from emulator.roce.wire.opcodes import MEANINGS, Opcode, OpcodeMeaning, PacketOperation
from emulator.roce.wire.psn import Psn

CNP_PAYLOAD = bytes(16)
"""What follows the BTH of a congestion notification packet."""

_ICRC = struct.Struct("<I")


class Problem(StrEnum):
    """Why a UDP payload is no RoCEv2 packet that an endpoint would look at."""

    SHORT = "too short for its headers"
    TRANSPORT_VERSION = "transport version is not 0"
    P_KEY = "P_Key is not the default partition's"
    OPCODE = "unknown opcode"
    PAD = "pad count does not fit the length"
    PAYLOAD = "payload where the opcode has none"


@dataclass(slots=True)
class Packet:
    """A decoded packet. `payload` has no pad; `icrc` is as received, not checked here (icrc.py does)."""

    bth: Bth
    extensions: tuple[Extension, ...]
    payload: bytes
    icrc: int

    @property
    def meaning(self) -> OpcodeMeaning:
        """The meaning of its opcode."""
        return MEANINGS[self.bth.opcode]

    def pack(self) -> bytes:
        """The UDP payload, ICRC included; `bth.pad` is set from the payload's length."""
        self.bth.pad = pad_bytes(len(self.payload))
        return pack_packet(self.bth, *self.extensions, payload=self.payload) + _ICRC.pack(self.icrc)


def pad_bytes(payload_bytes: int) -> int:
    """Bytes that fill a payload up to a multiple of 4."""
    return -payload_bytes % 4


def pack_packet(bth: Bth, *extensions: Extension, payload: Buffer = b"") -> bytes:
    """Headers, payload and pad, without the ICRC; the pad has `bth.pad` bytes, which are zero."""
    return b"".join((bth.pack(), *(extension.pack() for extension in extensions), payload, bytes(bth.pad)))


def pack_icrc(icrc: int) -> bytes:
    """The four bytes that end a packet."""
    return _ICRC.pack(icrc)


def parse_packet(udp_payload: Buffer) -> Packet | Problem:
    """Decode a UDP payload as an endpoint does that drops what it does not want.

    Returns:
        the packet, or the problem with it. Never raises.
    """
    if len(udp_payload) < BTH_BYTES + ICRC_BYTES:
        return Problem.SHORT
    bth = Bth.unpack(udp_payload)
    if bth.version != 0:
        return Problem.TRANSPORT_VERSION
    if bth.p_key not in P_KEYS:
        return Problem.P_KEY
    return decode_body(bth, udp_payload)


def decode_body(bth: Bth, udp_payload: Buffer) -> Packet | Problem:
    """Decode what follows a BTH of any version and P_Key; `udp_payload` begins with the BTH.

    Returns:
        the packet, or SHORT, OPCODE, PAD or PAYLOAD.
    """
    meaning = MEANINGS.get(bth.opcode)
    if meaning is None:
        return Problem.OPCODE
    start = BTH_BYTES + meaning.extension_bytes
    end = len(udp_payload) - ICRC_BYTES
    if end < start:
        return Problem.SHORT
    if end - start < bth.pad or (end - start) % 4:
        return Problem.PAD
    if end > start and not meaning.carries_payload:
        return Problem.PAYLOAD
    (icrc,) = _ICRC.unpack_from(udp_payload, end)
    return Packet(bth, _unpack_extensions(meaning, udp_payload), bytes(udp_payload[start : end - bth.pad]), icrc)


def _unpack_extensions(meaning: OpcodeMeaning, udp_payload: Buffer) -> tuple[Extension, ...]:
    extensions: list[Extension] = []
    offset = BTH_BYTES
    for extension in meaning.extensions:
        extensions.append(extension.unpack(udp_payload, offset))
        offset += extension.layout.size
    return tuple(extensions)


def congestion_notification(dest_qp: int, *, p_key: int = P_KEYS[0]) -> bytes:
    """A CNP without its ICRC: BECN set, PSN 0, sixteen zero bytes."""
    return pack_packet(Bth(Opcode.CNP, Psn(0), dest_qp, p_key=p_key, becn=True), payload=CNP_PAYLOAD)


def is_congestion_notification(packet: Packet) -> bool:
    """Whether it is a CNP in the shape annex A17 gives it."""
    return (
        packet.meaning.operation is PacketOperation.CNP
        and packet.bth.becn
        and packet.bth.psn == 0
        and packet.payload == CNP_PAYLOAD
    )
