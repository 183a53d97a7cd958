"""What the multipath profile puts on the wire: WRITEs that can be placed by themselves, and selective acknowledgements.

This is a dialect of Charkha. It does what multipath RDMA transports do, and is not interoperable with any of them.

- Data: RC WRITE ONLY, with immediate data in the last packet of a message that has some. The RETH's address is that of
  the message plus the bytes before the packet, its length that of the packet. AckReq marks a message's last packet.
- Selective acknowledgement: an opcode of the range that the specification leaves to manufacturers. BTH (its PSN is the
  last one before which nothing is missing) | AETH | count of reports 16, count of bitmap words 16 | reports | bitmap |
  ICRC. A report is a word: reason 8, PSN 24. Bit k of the bitmap, from the lowest bit of its first byte on, is
  the packet k + 1 after the PSN of the BTH.

Source: InfiniBand Architecture Specification, volume 1, table of BTH opcodes (11xxxxxx: manufacturer specific).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.roce.connection.messages import Message, Reply
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.wire.framing import ACK_REQUEST, BTH
from emulator.roce.wire.headers import P_KEYS, Buffer
from emulator.roce.wire.icrc import U32Array, word_table
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import PSN_MASK, Psn

SELECTIVE_ACK = 0xC0 | Opcode.RC_ACK
MOST_AHEAD = 1024
"""Packets that a bitmap covers, and so the largest window."""
MOST_REPORTS = 16

_WRITE_ONLY, _WRITE_ONLY_IMM = int(Opcode.RC_WRITE_ONLY), int(Opcode.RC_WRITE_ONLY_IMM)
WRITE_BYTES = BTH_BYTES + 16
"""BTH and RETH."""
_WRITE = struct.Struct(">BBHIIQII")
_IMM = struct.Struct(">I")
_SACK = struct.Struct(">BBHIIIHH")
_ADDRESS_MASK = (1 << 64) - 1
_WORDS = WRITE_BYTES // 4
_VARIABLE_WORDS = (2, 4, 3)
"""Words of a WRITE's headers in which the packets of a run differ: PSN, address (low and high)."""


class Reason(IntEnum):
    """Why a packet is named in a selective acknowledgement."""

    TRIMMED = 1
    """A switch cut its payload: it is to be sent again."""
    MARKED = 2
    """It came with the congestion mark."""
    DUPLICATE = 3
    """It was here already: so a probe has arrived."""


class Report(NamedTuple):
    """One packet of which the sender shall know something."""

    reason: int
    psn: Psn


class SelectiveAck(Reply, frozen=True, gc=False):
    """A selective acknowledgement: `psn` and everything before it is here, and what the bitmap says."""

    bitmap: bytes = b""
    reports: Sequence[Report] = ()

    def pack(self, dest_qp: int) -> bytes:
        """BTH … bitmap, without the ICRC."""
        bitmap = self.bitmap + bytes(-len(self.bitmap) % 4)
        head = _SACK.pack(
            SELECTIVE_ACK, 0, P_KEYS[0], dest_qp, self.psn, self.syndrome << 24 | self.msn,
            len(self.reports), len(bitmap) // 4,
        )  # fmt: skip
        return head + b"".join(_IMM.pack(reason << 24 | psn) for reason, psn in self.reports) + bitmap

    @classmethod
    def whole_bytes(cls, packet: Buffer) -> int:
        """How long a packet is that no switch has trimmed, BTH … ICRC, as far as its headers say."""
        if len(packet) < _SACK.size:
            return _SACK.size + ICRC_BYTES
        *_, reports, words = _SACK.unpack_from(packet)
        return _SACK.size + 4 * int(reports + words) + ICRC_BYTES

    @classmethod
    def parse(cls, packet: Buffer) -> SelectiveAck | None:
        """Read BTH … ICRC; None: its length is not what its counts say."""
        if len(packet) != cls.whole_bytes(packet):
            return None
        *_, psn, aeth, reports, _ = _SACK.unpack_from(packet)
        start = _SACK.size + 4 * reports
        told = [Report(word >> 24, Psn(word & PSN_MASK)) for (word,) in _IMM.iter_unpack(packet[_SACK.size : start])]
        return cls(Psn(psn & PSN_MASK), aeth >> 24, aeth & PSN_MASK, bytes(packet[start:-ICRC_BYTES]), told)


class Placed(NamedTuple):
    """The headers of a WRITE that can be placed by itself; `imm` is None if it has none."""

    psn: Psn
    address: int
    rkey: int
    size: int
    imm: int | None
    ends_message: bool
    header_bytes: int


def write_header(message: Message, psn: Psn, offset: int, size: int, *, dest_qp: int, path_mtu: int) -> bytes:
    """BTH and extension headers of packet number `offset` of a message, which has `size` bytes."""
    is_last = offset == message.packets - 1
    has_imm = is_last and message.verb.value[1]
    header = _WRITE.pack(
        _WRITE_ONLY_IMM if has_imm else _WRITE_ONLY, (-size & 3) << 4, P_KEYS[0], dest_qp,
        psn | (ACK_REQUEST if is_last else 0), (message.address + offset * path_mtu) & _ADDRESS_MASK,
        message.rkey, size,
    )  # fmt: skip
    return header + _IMM.pack(message.imm) if has_imm else header


def probe_header(psn: Psn, *, dest_qp: int, rkey: int) -> bytes:
    """An empty WRITE with a PSN that the receiver has: it reports a duplicate if the path carries it."""
    return _WRITE.pack(_WRITE_ONLY, 0, P_KEYS[0], dest_qp, psn, 0, rkey, 0)


def parse_write(packet: Buffer) -> Placed | None:
    """The headers of a WRITE, which may lack its payload and ICRC; None: it is none, or even headers are missing."""
    if len(packet) < WRITE_BYTES or packet[0] not in (_WRITE_ONLY, _WRITE_ONLY_IMM):
        return None
    opcode, _, _, _, word, address, rkey, size = _WRITE.unpack_from(packet)
    imm, header_bytes = None, WRITE_BYTES
    if opcode == _WRITE_ONLY_IMM:
        header_bytes += _IMM.size
        (imm,) = _IMM.unpack_from(packet, WRITE_BYTES) if len(packet) >= header_bytes else (0,)
    return Placed(Psn(word & PSN_MASK), address, rkey, size, imm, word >= ACK_REQUEST, header_bytes)


def is_header_sound(packet: Buffer, qpn: int) -> bool:
    """Whether flags, P_Key and queue pair number of a packet are those of this profile."""
    _, flags, p_key, number, _ = BTH.unpack_from(packet)
    return not flags & 0xF and p_key in P_KEYS and number & PSN_MASK == qpn


def words_of(packets: Buffer, count: int, stride: int) -> U32Array:
    """The words of the headers of WRITEs back to back, as they stand in memory: shape (count, 7)."""
    return np.ndarray((count, _WORDS), "<u4", packets, 0, (stride, 4))


def icrc_changes(words: U32Array, packet_bytes: int) -> U32Array | None:
    """What to XOR into the ICRC of the first WRITE for the others, which differ in PSN and address alone.

    Args:
        words: see `words_of`.
        packet_bytes: of each, BTH … ICRC.

    Returns:
        uint32, shape (count,); None: they differ in something else.
    """
    differences = words ^ words[0]
    used = differences.any(axis=0)
    if used[[0, 1, 5, 6]].any():
        return None
    changes = np.zeros(len(words), np.uint32)
    for place in _VARIABLE_WORDS:
        if used[place]:
            tables = word_table(packet_bytes - ICRC_BYTES - 4 * (place + 1)).tables
            parts: npt.NDArray[np.uint8] = np.ascontiguousarray(differences[:, place]).view(np.uint8).reshape(-1, 4)
            for byte in range(4):
                changes ^= tables[byte, parts[:, byte]]
    return changes
