"""Classes of RoCEv2 packets by their headers, for switches that match bytes at offsets.

Source: InfiniBand Architecture Specification, volume 1, tables of BTH opcodes and of AETH syndromes; annex A17 for the
CNP. The BTH begins after the UDP header (8 bytes); the AETH of an acknowledgement after the BTH (12 bytes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_UC = 0x20


@dataclass(frozen=True, slots=True)
class OpcodeClass:
    """A set of BTH opcodes.

    Attributes:
        syndrome: upper three bits of the syndrome in the AETH; None for any.
    """

    name: str
    opcodes: Sequence[int]
    syndrome: int | None = None


def _also_unreliable(*opcodes: int) -> tuple[int, ...]:
    """Opcodes of the reliable service, and the same operations of the unreliable connected service."""
    return (*opcodes, *(opcode | _UC for opcode in opcodes))


_FIRST = (*_also_unreliable(0x00, 0x06), 0x0D)
_MIDDLE = (*_also_unreliable(0x01, 0x07), 0x0E)
_LAST = (*_also_unreliable(0x02, 0x03, 0x08, 0x09), 0x0F, 0x16)
_ONLY = (*_also_unreliable(0x04, 0x05, 0x0A, 0x0B), 0x10, 0x17, 0x64, 0x65)
_ACK = (0x11,)

OPCODE_CLASSES: Mapping[str, OpcodeClass] = {
    one.name: one
    for one in (
        OpcodeClass("first", _FIRST),
        OpcodeClass("middle", _MIDDLE),
        OpcodeClass("last", _LAST),
        OpcodeClass("only", _ONLY),
        OpcodeClass("data", (*_FIRST, *_MIDDLE, *_LAST, *_ONLY)),
        OpcodeClass("read", (0x0C,)),
        OpcodeClass("read_response", (0x0D, 0x0E, 0x0F, 0x10)),
        OpcodeClass("atomic", (0x12, 0x13, 0x14)),
        OpcodeClass("ack", _ACK, syndrome=0b000),
        OpcodeClass("rnr_nak", _ACK, syndrome=0b001),
        OpcodeClass("nak", _ACK, syndrome=0b011),
        OpcodeClass("cnp", (0x81,)),
    )
}
