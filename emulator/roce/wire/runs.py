"""Headers of many packets at once: `classify` reads them into columns, `build` writes them from a template.

Both are functions of their arguments alone and touch a buffer that the caller owns. Native code could replace them
without a change to anything around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.tuning import MOST_SEGMENTS, PREDICTED_HEADERS
from emulator.roce.wire.headers import P_KEYS, Bth, Buffer
from emulator.roce.wire.icrc import U32Array, ip_id_changes, psn_changes
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import PSN_MASK, Psn

BoolArray: TypeAlias = npt.NDArray[np.bool_]

_BTH_ROW = np.dtype([("opcode", "u1"), ("flags", "u1"), ("p_key", ">u2"), ("dest_qp", ">u4"), ("psn", ">u4")])
_BTH_BYTES = np.dtype(f"V{BTH_BYTES}")
_BYTE_3, _LOW_24 = np.uint32(24), np.uint32(PSN_MASK)
_WITHOUT_REQUEST = bytes(byte & 0x7F for byte in range(256))
_MIDDLE = int(Opcode.RC_WRITE_MIDDLE)
_WORDS: U32Array = np.arange(1 << 16, dtype=">u4").view("<u4")  # numbers as a header has them, read little-endian
_TABLE: U32Array = np.empty((PREDICTED_HEADERS, BTH_BYTES // 4), "<u4")  # where predictions are made


class Headers(NamedTuple):
    """Columns of the BTHs of equal packets; every array has the shape (packets,).

    Attributes:
        opcode: uint8.
        flags: uint8, the second byte: solicited, migration, pad count, transport version.
        p_key: uint16.
        marks: uint32, the byte with FECN and BECN.
        dest_qp, psn: uint32, 24 bits.
        ack_request: bool.
    """

    opcode: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    p_key: npt.NDArray[np.uint16]
    marks: U32Array
    dest_qp: U32Array
    psn: U32Array
    ack_request: BoolArray


def classify(packets: Buffer, count: int, stride: int) -> Headers:
    """The headers of `count` packets of `stride` bytes back to back, BTH first."""
    rows = np.ndarray((count,), _BTH_ROW, packets, 0, (stride,))
    number, word = rows["dest_qp"].astype(np.uint32), rows["psn"].astype(np.uint32)
    return Headers(
        rows["opcode"], rows["flags"], rows["p_key"].astype(np.uint16), number >> _BYTE_3, number & _LOW_24,
        word & _LOW_24, (word >> np.uint32(31)).astype(bool),
    )  # fmt: skip


def slices(headers: Headers) -> Iterator[tuple[int, int]]:
    """Ranges of packets that can be handled together: MIDDLE ones with consecutive PSNs; all others are alone."""
    opcode, flags, p_key, marks, dest_qp, psn, _ = headers
    follows = (opcode[1:] == _MIDDLE) & (flags[1:] == 0) & (marks[1:] == 0) & (p_key[1:] == P_KEYS[0])
    for column in (opcode, flags, p_key, marks, dest_qp):
        follows &= column[1:] == column[:-1]
    follows &= psn[1:] == (psn[:-1] + 1 & PSN_MASK)
    yield from pairwise([0, *(np.flatnonzero(~follows) + 1).tolist(), len(opcode)])


class Template(NamedTuple):
    """What the packets of a run have in common.

    Attributes:
        header: BTH and extension headers with PSN 0, FECN and BECN 0; its AckReq bit is that of all packets.
        icrc: of a packet with this header, with IP ID 0.
        packet_bytes: of each, BTH … ICRC.
    """

    header: bytes
    icrc: int
    packet_bytes: int


class PacketColumns:
    """Headers and ICRCs of packets back to back in a buffer, as arrays: writing to them writes the packets.

    Attributes:
        starts: uint64, the first eight bytes of the BTH.
        psns: uint32, its last word.
        extensions: uint32, shape (packets, words of extension headers).
        icrcs: uint32.
    """

    __slots__ = ("extensions", "icrcs", "psns", "starts")

    def __init__(self, buffer: Buffer, count: int, *, stride: int, header_bytes: int) -> None:
        words = (header_bytes - BTH_BYTES) // 4
        self.starts: npt.NDArray[np.uint64] = np.ndarray((count,), "<u8", buffer, 0, (stride,))
        self.psns: U32Array = np.ndarray((count,), "<u4", buffer, 8, (stride,))
        self.extensions: U32Array = np.ndarray((count, words), "<u4", buffer, BTH_BYTES, (stride, 4))
        self.icrcs: U32Array = np.ndarray((count,), "<u4", buffer, stride - ICRC_BYTES, (stride,))


def build(
    template: Template, psn: Psn, out: PacketColumns, first: int, end: int, ip_id_changes: U32Array | None = None
) -> None:
    """Write headers and ICRCs of packets `first` to `end` of a buffer, their PSNs counting up.

    Args:
        template: see Template.
        psn: of the first packet.
        out: where the packets stand; payload and pad are there.
        first, end: packets of `out`.
        ip_id_changes: what the IP IDs of the packets change in their ICRCs; None: all are 0.
    """
    header, icrc, packet_bytes = template
    words, high = psn_words(psn, end - first)
    changes, constant = psn_changes(packet_bytes, psn, end - first)
    out.starts[first:end] = int.from_bytes(header[:8], "little")
    np.bitwise_or(words, high | header[8], out=out.psns[first:end])
    if len(header) > BTH_BYTES:
        out.extensions[first:end] = np.frombuffer(header, "<u4", offset=BTH_BYTES)
    icrcs = out.icrcs[first:end]
    np.bitwise_xor(changes, np.uint32(icrc ^ constant), out=icrcs)
    if ip_id_changes is not None:
        np.bitwise_xor(icrcs, ip_id_changes, out=icrcs)


def follows_first(packets: Buffer, count: int, stride: int, *, header_bytes: int, is_numbered: bool) -> bool:
    """Whether packets back to back are those that `build` makes from the first one.

    Args:
        packets: of `stride` bytes each; `header_bytes` of them are BTH and extension headers.
        is_numbered: the kernel cut them from one call, which numbers IP IDs from 0; else all are 0.
    """
    if count > MOST_SEGMENTS:
        return False
    words: U32Array = np.ndarray((count, header_bytes // 4), "<u4", packets, 0, (stride, 4))
    icrcs: U32Array = np.ndarray((count,), "<u4", packets, stride - ICRC_BYTES, (stride,))
    psn = Psn(int.from_bytes(packets[9:BTH_BYTES]))
    differences, (psns, _) = words ^ words[0], psn_words(psn, count)
    differences[:, 2] ^= psns ^ psns[0]
    if differences.any():
        return False
    changes, _ = psn_changes(stride, psn, count)
    expected = changes ^ (icrcs[0] ^ changes[0])
    if is_numbered:
        expected ^= ip_id_changes(stride)[:count]
    return bool((expected == icrcs).all())


def psn_words(psn: Psn, count: int) -> tuple[U32Array, int]:
    """PSNs from `psn` on as headers have them, read as little-endian words.

    Returns:
        uint32, shape (count,), and what to OR into each: together they are the words.
    """
    low = psn & 0xFFFF
    if low + count <= len(_WORDS):
        return _WORDS[low : low + count], psn >> 16 << 8
    return (np.arange(psn, psn + count) & PSN_MASK).astype(">u4").view("<u4"), 0


def numbered_calls(packet_bytes: int, per_call: int, packets: int) -> U32Array:
    """What IP IDs change in the ICRCs of `packets` packets if the kernel numbers each call from 0."""
    return ip_id_changes(packet_bytes)[np.arange(packets) % per_call]


def header_bytes(packets: Buffer, count: int, stride: int) -> bytes:
    """The BTHs of `count` packets of `stride` bytes, back to back."""
    return np.ndarray((count,), _BTH_BYTES, packets, 0, (stride,)).tobytes()


def without_ack_requests(headers: bytes) -> bytes:
    """BTHs back to back, none of which requests an acknowledgement."""
    masked = bytearray(headers)
    masked[8::BTH_BYTES] = masked[8::BTH_BYTES].translate(_WITHOUT_REQUEST)
    return bytes(masked)


class Prediction:
    """The headers of the MIDDLE packets that a queue pair expects next, made many at a time."""

    __slots__ = ("_bytes", "_first", "_header")

    def __init__(self, dest_qp: int) -> None:
        self._header = np.frombuffer(Bth(_MIDDLE, Psn(0), dest_qp).pack(), "<u4")
        self._first, self._bytes = 0, b""  # most queue pairs of many never receive such a packet

    def headers(self, psn: Psn, count: int) -> bytes:
        """BTHs of `count` packets from `psn` on, none of which requests an acknowledgement."""
        start = (psn - self._first) * BTH_BYTES
        end = start + count * BTH_BYTES
        if start < 0 or end > len(self._bytes):
            words, high = psn_words(psn, PREDICTED_HEADERS)
            _TABLE[:] = self._header
            _TABLE[:, 2] = words | np.uint32(high)
            self._first, self._bytes = psn, _TABLE.tobytes()
            start, end = 0, count * BTH_BYTES
        return self._bytes[start:end]
