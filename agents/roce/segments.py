"""Segmentation: a run of packets as pieces of one opcode and one length, which the kernel can cut from one buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agents.roce.messages import ResponseRun, Run, Verb, opcode_of
from agents.roce.opcodes import Opcode, Operation, Place
from agents.roce.psn import Psn, add


class Segment(NamedTuple):
    """Packets of one opcode and one length.

    Attributes:
        offset: packets of the message before these.
        size: payload of each, bytes.
        ack_request: on the last.
        has_reth: the first of the message: its extension header carries the address, key and length.
        has_imm: immediate data follows.
    """

    opcode: Opcode
    psn: Psn
    packets: int
    offset: int
    size: int
    ack_request: bool
    has_reth: bool
    has_imm: bool


def segments(run: Run, path_mtu: int) -> Iterator[Segment]:
    """The pieces of a run of a SEND or WRITE, or the one packet of a READ request."""
    message = run.message
    if message.verb is Verb.READ:
        yield Segment(Opcode.RC_READ_REQUEST, run.psn, 1, run.offset, 0, True, True, False)
        return
    operation, has_imm = message.verb.value
    last_bytes = message.size - (message.packets - 1) * path_mtu
    if message.packets == 1:
        opcode = opcode_of(operation, Place.ONLY, has_imm=has_imm)
        is_write = operation is Operation.WRITE
        yield Segment(opcode, run.psn, 1, 0, last_bytes, run.ack_request, is_write, has_imm)
        return
    yield from _pieces(run, (operation, has_imm), total=message.packets, path_mtu=path_mtu, last_bytes=last_bytes)


def response_segments(run: ResponseRun, path_mtu: int) -> Iterator[Segment]:
    """The pieces of a run of READ responses."""
    if run.total == 1:
        opcode = opcode_of(Operation.READ_RESPONSE, Place.ONLY)
        yield Segment(opcode, run.psn, 1, 0, run.last_bytes, False, False, False)
        return
    what = (Operation.READ_RESPONSE, False)
    yield from _pieces(run, what, total=run.total, path_mtu=path_mtu, last_bytes=run.last_bytes)


def _pieces(
    run: Run | ResponseRun, what: tuple[Operation, bool], *, total: int, path_mtu: int, last_bytes: int
) -> Iterator[Segment]:
    operation, has_imm = what
    offset, psn, left = run.offset, run.psn, run.packets
    asks = isinstance(run, Run) and run.ack_request
    if not offset:
        opcode = opcode_of(operation, Place.FIRST)
        yield Segment(opcode, psn, 1, 0, path_mtu, asks and left == 1, operation is Operation.WRITE, False)
        offset, psn, left = offset + 1, add(psn, 1), left - 1
    middles = min(left, total - 1 - offset)
    if middles > 0:
        opcode = opcode_of(operation, Place.MIDDLE)
        yield Segment(opcode, psn, middles, offset, path_mtu, asks and left == middles, False, False)
        offset, psn, left = offset + middles, add(psn, middles), left - middles
    if left:
        opcode = opcode_of(operation, Place.LAST, has_imm=has_imm)
        yield Segment(opcode, psn, 1, offset, last_bytes, asks, False, has_imm)
