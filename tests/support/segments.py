"""Segmentation as the specification says it: a run of packets of any verb as pieces of one opcode and one length."""

from typing import NamedTuple

from emulator.roce.connection.messages import PacketRun, ResponseRun, Verb
from emulator.roce.wire.opcodes import MEANINGS, Opcode, PacketOperation, PacketPlace
from emulator.roce.wire.psn import Psn, add


class OpcodesByPlace(NamedTuple):
    """Of the packets of a message: the first, those between, the last, and one that is all of it."""

    first: Opcode
    middle: Opcode
    last: Opcode
    only: Opcode


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


def segments(run: PacketRun, path_mtu: int) -> list[Segment]:
    """The pieces of a run of a SEND or WRITE, or the one packet of a READ request."""
    message = run.message
    if message.verb is Verb.READ:
        return [Segment(Opcode.RC_READ_REQUEST, run.psn, 1, run.offset, 0, True, True, False)]
    opcodes, is_write, has_imm = _OF_VERB[message.verb.name]
    last_bytes = message.size - (message.packets - 1) * path_mtu
    if message.packets == 1:
        return [Segment(opcodes.only, run.psn, 1, 0, last_bytes, run.ack_request, is_write, has_imm)]
    return _pieces(
        run,
        opcodes,
        total=message.packets,
        path_mtu=path_mtu,
        last_bytes=last_bytes,
        is_write=is_write,
        has_imm=has_imm,
    )


def response_segments(run: ResponseRun, path_mtu: int) -> list[Segment]:
    """The pieces of a run of READ responses."""
    if run.total == 1:
        return [Segment(_RESPONSES.only, run.psn, 1, 0, run.last_bytes, False, False, False)]
    return _pieces(run, _RESPONSES, total=run.total, path_mtu=path_mtu, last_bytes=run.last_bytes)


_OPCODES: dict[tuple[PacketOperation, PacketPlace, bool], Opcode] = {
    (meaning.operation, meaning.place, Opcode(code).name.endswith("_IMM")): Opcode(code)
    for code, meaning in MEANINGS.items()
    if code < 0x20 and not Opcode(code).name.endswith("_INVALIDATE")
}


def opcode_of(operation: PacketOperation, place: PacketPlace, *, has_imm: bool = False) -> Opcode:
    """The reliable connection's opcode for a packet of a message; immediate data only where a message ends."""
    return _OPCODES[operation, place, has_imm]


def opcodes_by_place(operation: PacketOperation, *, has_imm: bool = False) -> OpcodesByPlace:
    """The reliable connection's opcodes for a message."""
    return OpcodesByPlace(
        opcode_of(operation, PacketPlace.FIRST),
        opcode_of(operation, PacketPlace.MIDDLE),
        opcode_of(operation, PacketPlace.LAST, has_imm=has_imm),
        opcode_of(operation, PacketPlace.ONLY, has_imm=has_imm),
    )


_OF_VERB = {
    verb.name: (
        opcodes_by_place(verb.value[0], has_imm=verb.value[1]),
        verb.value[0] is PacketOperation.WRITE,
        verb.value[1],
    )
    for verb in Verb
    if verb is not Verb.READ
}
_RESPONSES = opcodes_by_place(PacketOperation.READ_RESPONSE)


def _pieces(
    run: PacketRun | ResponseRun,
    opcodes: OpcodesByPlace,
    *,
    total: int,
    path_mtu: int,
    last_bytes: int,
    is_write: bool = False,
    has_imm: bool = False,
) -> list[Segment]:
    pieces: list[Segment] = []
    offset, psn, left = run.offset, run.psn, run.packets
    asks = isinstance(run, PacketRun) and run.ack_request
    if not offset:
        pieces.append(Segment(opcodes.first, psn, 1, 0, path_mtu, asks and left == 1, is_write, False))
        offset, psn, left = offset + 1, add(psn, 1), left - 1
    middles = min(left, total - 1 - offset)
    if middles > 0:
        pieces.append(Segment(opcodes.middle, psn, middles, offset, path_mtu, asks and left == middles, False, False))
        offset, psn, left = offset + middles, add(psn, middles), left - middles
    if left:
        pieces.append(Segment(opcodes.last, psn, 1, offset, last_bytes, asks, False, has_imm))
    return pieces
