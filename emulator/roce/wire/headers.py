"""The headers of RoCEv2 packets, one dataclass each: `pack()` gives its bytes, `unpack(data, offset)` reads them.

All numbers are big-endian. Layouts: InfiniBand Architecture Specification, volume 1, chapter 9 (transport headers);
end-to-end credits, which the AETH of an acknowledgement carries: section 9.7.7.2.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self, TypeAlias

from emulator.roce.wire.psn import Psn

P_KEYS = (0xFFFF, 0x7FFF)
"""The default partition, as a full and as a limited member: all that RoCEv2 uses."""

NO_CREDIT_LIMIT = 0x1F
"""The ACK syndrome that grants credits without limit: what RoCEv2 endpoints without receive credits send."""

Buffer: TypeAlias = bytes | bytearray | memoryview


class Syndrome(IntEnum):
    """AETH syndromes that say no. An ACK is 0x00 … 0x1f, an RNR NAK 0x20 | timer."""

    RNR = 0x20
    SEQUENCE_ERROR = 0x60
    INVALID_REQUEST = 0x61
    REMOTE_ACCESS = 0x62
    REMOTE_OPERATIONAL = 0x63
    INVALID_READ_REQUEST = 0x64


@dataclass(slots=True)
class Bth:
    """Base transport header, 12 bytes.

    `opcode` is an int: a packet may carry one that `Opcode` does not know. `pad` is the count of pad bytes, 0 … 3.
    """

    opcode: int
    psn: Psn
    dest_qp: int
    ack_request: bool = False
    solicited: bool = False
    migration: bool = False
    pad: int = 0
    version: int = 0
    p_key: int = 0xFFFF
    fecn: bool = False
    becn: bool = False

    layout: ClassVar = struct.Struct(">BBHII")

    def pack(self) -> bytes:
        """The 12 bytes; reserved bits are 0."""
        return self.layout.pack(
            self.opcode,
            self.solicited << 7 | self.migration << 6 | self.pad << 4 | self.version,
            self.p_key,
            self.fecn << 31 | self.becn << 30 | self.dest_qp,
            self.ack_request << 31 | self.psn,
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Self:
        """Read 12 bytes; reserved bits are ignored.

        Raises:
            struct.error: fewer bytes than that.
        """
        opcode, flags, p_key, marks_qp, ack_psn = cls.layout.unpack_from(data, offset)
        return cls(
            opcode,
            Psn(ack_psn & 0xFFFFFF),
            marks_qp & 0xFFFFFF,
            ack_request=bool(ack_psn >> 31),
            solicited=bool(flags & 0x80),
            migration=bool(flags & 0x40),
            pad=flags >> 4 & 3,
            version=flags & 0xF,
            p_key=p_key,
            fecn=bool(marks_qp >> 31),
            becn=bool(marks_qp >> 30 & 1),
        )


@dataclass(slots=True)
class _Extension:
    """An extension header whose fields stand in its layout in the order of their declaration."""

    layout: ClassVar[struct.Struct]

    def pack(self) -> bytes:
        """Its bytes."""
        names: Iterable[str] = self.__slots__  # per message: dataclasses.fields is slow
        return self.layout.pack(*[getattr(self, name) for name in names])

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Self:
        """Read it; struct.error if there are too few bytes."""
        return cls(*cls.layout.unpack_from(data, offset))


@dataclass(slots=True)
class Reth(_Extension):
    """RDMA extended header, 16 bytes: where to write to or read from, and how many bytes in the whole message."""

    address: int
    rkey: int
    length: int

    layout: ClassVar = struct.Struct(">QII")


@dataclass(slots=True)
class ImmDt(_Extension):
    """Immediate data, 4 bytes, handed to the receiver's completion."""

    value: int

    layout: ClassVar = struct.Struct(">I")


@dataclass(slots=True)
class Ieth(_Extension):
    """Invalidate extended header, 4 bytes: the rkey to take back."""

    rkey: int

    layout: ClassVar = struct.Struct(">I")


@dataclass(slots=True)
class Aeth(_Extension):
    """ACK extended header, 4 bytes: the responder's answer, and how many messages it has completed (24 bits)."""

    syndrome: int
    msn: int

    layout: ClassVar = struct.Struct(">I")

    def pack(self) -> bytes:
        """The syndrome is the first byte of its word."""
        return self.layout.pack(self.syndrome << 24 | self.msn)

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Self:
        """Read both out of one word."""
        (word,) = cls.layout.unpack_from(data, offset)
        return cls(word >> 24, word & 0xFFFFFF)


@dataclass(slots=True)
class Deth(_Extension):
    """Datagram extended header, 8 bytes, of unreliable datagrams; a reserved byte precedes `source_qp`."""

    q_key: int
    source_qp: int

    layout: ClassVar = struct.Struct(">II")

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Self:
        """Reserved bits are ignored."""
        q_key, word = cls.layout.unpack_from(data, offset)
        return cls(q_key, word & 0xFFFFFF)


@dataclass(slots=True)
class AtomicEth(_Extension):
    """Atomic extended header, 28 bytes; `swap_or_add` is the addend of a fetch-and-add."""

    address: int
    rkey: int
    swap_or_add: int
    compare: int

    layout: ClassVar = struct.Struct(">QIQQ")


@dataclass(slots=True)
class AtomicAckEth(_Extension):
    """Atomic ACK extended header, 8 bytes: what stood in memory before."""

    original: int

    layout: ClassVar = struct.Struct(">Q")


Extension: TypeAlias = Reth | ImmDt | Ieth | Aeth | Deth | AtomicEth | AtomicAckEth
ExtensionType: TypeAlias = (
    type[Reth] | type[ImmDt] | type[Ieth] | type[Aeth] | type[Deth] | type[AtomicEth] | type[AtomicAckEth]
)


CREDITS = (
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096,
    6_144, 8_192, 12_288, 16_384, 24_576, 32_768,
)  # fmt: skip
"""Receive requests by code; the code after the last one sets no limit."""


def credit_code(receives: int | None) -> int:
    """The code of the most credits that are not more than the receive requests; None: there is no limit."""
    return NO_CREDIT_LIMIT if receives is None else bisect_right(CREDITS, receives) - 1
