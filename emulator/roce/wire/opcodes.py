"""Opcodes of RoCEv2 packets and what each one means: service, operation, place in its message, headers that follow.

Source: InfiniBand Architecture Specification, volume 1, table of BTH opcodes; annex A17 for the CNP.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from emulator.roce.wire.headers import Aeth, AtomicAckEth, AtomicEth, Deth, ExtensionType, Ieth, ImmDt, Reth


class Opcode(IntEnum):
    """BTH opcodes: three bits of service (RC 0x00, UC 0x20, UD 0x60), five of operation."""

    RC_SEND_FIRST = 0x00
    RC_SEND_MIDDLE = 0x01
    RC_SEND_LAST = 0x02
    RC_SEND_LAST_IMM = 0x03
    RC_SEND_ONLY = 0x04
    RC_SEND_ONLY_IMM = 0x05
    RC_WRITE_FIRST = 0x06
    RC_WRITE_MIDDLE = 0x07
    RC_WRITE_LAST = 0x08
    RC_WRITE_LAST_IMM = 0x09
    RC_WRITE_ONLY = 0x0A
    RC_WRITE_ONLY_IMM = 0x0B
    RC_READ_REQUEST = 0x0C
    RC_READ_RESPONSE_FIRST = 0x0D
    RC_READ_RESPONSE_MIDDLE = 0x0E
    RC_READ_RESPONSE_LAST = 0x0F
    RC_READ_RESPONSE_ONLY = 0x10
    RC_ACK = 0x11
    RC_ATOMIC_ACK = 0x12
    RC_COMPARE_SWAP = 0x13
    RC_FETCH_ADD = 0x14
    RC_SEND_LAST_INVALIDATE = 0x16
    RC_SEND_ONLY_INVALIDATE = 0x17
    UC_SEND_FIRST = 0x20
    UC_SEND_MIDDLE = 0x21
    UC_SEND_LAST = 0x22
    UC_SEND_LAST_IMM = 0x23
    UC_SEND_ONLY = 0x24
    UC_SEND_ONLY_IMM = 0x25
    UC_WRITE_FIRST = 0x26
    UC_WRITE_MIDDLE = 0x27
    UC_WRITE_LAST = 0x28
    UC_WRITE_LAST_IMM = 0x29
    UC_WRITE_ONLY = 0x2A
    UC_WRITE_ONLY_IMM = 0x2B
    UD_SEND_ONLY = 0x64
    UD_SEND_ONLY_IMM = 0x65
    CNP = 0x81


class TransportService(Enum):
    """Transport services; `CNP` stands alone."""

    RC = 0x00
    UC = 0x20
    UD = 0x60
    CNP = 0x80


class PacketPlace(Enum):
    """Where in its message a packet stands."""

    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"
    ONLY = "only"

    @property
    def starts(self) -> bool:
        """Whether a message begins with it."""
        return self in (PacketPlace.FIRST, PacketPlace.ONLY)

    @property
    def ends(self) -> bool:
        """Whether a message ends with it."""
        return self in (PacketPlace.LAST, PacketPlace.ONLY)


class PacketOperation(Enum):
    """What a packet is part of."""

    SEND = "send"
    WRITE = "write"
    READ_REQUEST = "read request"
    READ_RESPONSE = "read response"
    ACK = "ack"
    ATOMIC_ACK = "atomic ack"
    ATOMIC = "atomic"
    CNP = "cnp"

    @property
    def is_response(self) -> bool:
        """Whether the responder sends it, so that its PSN names a request."""
        return self in (PacketOperation.READ_RESPONSE, PacketOperation.ACK, PacketOperation.ATOMIC_ACK)


@dataclass(frozen=True, slots=True)
class OpcodeMeaning:
    """What an opcode means. `extensions`: the headers after the BTH, in order; `extension_bytes`: their length."""

    service: TransportService
    operation: PacketOperation
    place: PacketPlace
    extensions: tuple[ExtensionType, ...]

    @property
    def extension_bytes(self) -> int:
        """Bytes between the BTH and the payload."""
        return sum(extension.layout.size for extension in self.extensions)

    @property
    def carries_payload(self) -> bool:
        """Whether bytes of a message may follow the headers; a CNP's sixteen zeros count as such."""
        return self.operation in _WITH_PAYLOAD


_WITH_PAYLOAD = (PacketOperation.SEND, PacketOperation.WRITE, PacketOperation.READ_RESPONSE, PacketOperation.CNP)
_SERVICE_BITS = 0xE0
_LONE = {
    Opcode.RC_READ_REQUEST: (PacketOperation.READ_REQUEST, (Reth,)),
    Opcode.RC_ACK: (PacketOperation.ACK, (Aeth,)),
    Opcode.RC_ATOMIC_ACK: (PacketOperation.ATOMIC_ACK, (Aeth, AtomicAckEth)),
    Opcode.RC_COMPARE_SWAP: (PacketOperation.ATOMIC, (AtomicEth,)),
    Opcode.RC_FETCH_ADD: (PacketOperation.ATOMIC, (AtomicEth,)),
    Opcode.CNP: (PacketOperation.CNP, ()),
}


def _place(name: str) -> PacketPlace:
    return next(place for place in PacketPlace if f"_{place.name}" in name)


def _extensions(
    name: str, *, service: TransportService, operation: PacketOperation, place: PacketPlace
) -> tuple[ExtensionType, ...]:
    extensions: list[ExtensionType] = []
    if service is TransportService.UD:
        extensions.append(Deth)
    if operation is PacketOperation.WRITE and place.starts:
        extensions.append(Reth)
    if operation is PacketOperation.READ_RESPONSE and place is not PacketPlace.MIDDLE:
        extensions.append(Aeth)
    if name.endswith("_IMM"):
        extensions.append(ImmDt)
    if name.endswith("_INVALIDATE"):
        extensions.append(Ieth)
    return tuple(extensions)


def _meaning(opcode: Opcode) -> OpcodeMeaning:
    service = TransportService(opcode & _SERVICE_BITS)
    if opcode in _LONE:
        operation, extensions = _LONE[opcode]
        return OpcodeMeaning(service, operation, PacketPlace.ONLY, extensions)
    name = opcode.name
    operation = next(
        operation
        for operation in (PacketOperation.READ_RESPONSE, PacketOperation.SEND, PacketOperation.WRITE)
        if f"_{operation.name}_" in name
    )
    place = _place(name)
    return OpcodeMeaning(
        service, operation, place, _extensions(name, service=service, operation=operation, place=place)
    )


MEANINGS: dict[int, OpcodeMeaning] = {opcode: _meaning(opcode) for opcode in Opcode}
"""Meaning of every known opcode."""
