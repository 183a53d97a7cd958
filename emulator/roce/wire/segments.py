"""How a message is cut into packets: opcode by place, and the headers that follow the BTH.

Source: InfiniBand Architecture Specification, volume 1, sections 9.3 and 9.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from emulator.roce.connection.messages import AtomicResponse, Message, PacketRun, ResponseRun, Verb
from emulator.roce.wire.headers import NO_CREDIT_LIMIT, Aeth, AtomicAckEth, ImmDt, Reth
from emulator.roce.wire.opcodes import Opcode


class Opcodes(NamedTuple):
    """The opcodes of a message's packets by their place."""

    first: int
    middle: int
    last: int
    only: int


class Segments(NamedTuple):
    """The packets of one message.

    Attributes:
        opcodes: by place.
        first, last, only: the headers after the BTH of a FIRST, LAST and ONLY packet; a MIDDLE packet has none.
    """

    opcodes: Opcodes
    first: bytes
    last: bytes
    only: bytes

    def at(self, number: int, total: int) -> tuple[int, bytes]:
        """Opcode and headers of packet `number` of `total`."""
        if total == 1:
            return self.opcodes.only, self.only
        if number == total - 1:
            return self.opcodes.last, self.last
        return (self.opcodes.middle, b"") if number else (self.opcodes.first, self.first)


_OPCODES: Mapping[Verb, Opcodes] = {
    verb: Opcodes(*(int(code) for code in codes))
    for verb, codes in {
        Verb.SEND: (Opcode.RC_SEND_FIRST, Opcode.RC_SEND_MIDDLE, Opcode.RC_SEND_LAST, Opcode.RC_SEND_ONLY),
        Verb.SEND_IMM: (
            Opcode.RC_SEND_FIRST, Opcode.RC_SEND_MIDDLE, Opcode.RC_SEND_LAST_IMM, Opcode.RC_SEND_ONLY_IMM,
        ),
        Verb.WRITE: (Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_MIDDLE, Opcode.RC_WRITE_LAST, Opcode.RC_WRITE_ONLY),
        Verb.WRITE_IMM: (
            Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_MIDDLE, Opcode.RC_WRITE_LAST_IMM, Opcode.RC_WRITE_ONLY_IMM,
        ),
    }.items()
}  # fmt: skip
WRITE_OPCODES = _OPCODES[Verb.WRITE]
"""Those of an RDMA WRITE without immediate data."""
_RESPONSE_OPCODES = Opcodes(
    int(Opcode.RC_READ_RESPONSE_FIRST),
    int(Opcode.RC_READ_RESPONSE_MIDDLE),
    int(Opcode.RC_READ_RESPONSE_LAST),
    int(Opcode.RC_READ_RESPONSE_ONLY),
)


def message_segments(message: Message) -> Segments:
    """The packets of a SEND or WRITE."""
    operation_headers = b""
    if message.verb in (Verb.WRITE, Verb.WRITE_IMM):
        operation_headers = Reth(message.address, message.rkey, message.size).pack()
    imm = ImmDt(message.imm).pack() if message.verb in (Verb.SEND_IMM, Verb.WRITE_IMM) else b""
    return Segments(_OPCODES[message.verb], operation_headers, imm, operation_headers + imm)


def response_segments(run: ResponseRun) -> Segments:
    """The packets of a READ response."""
    aeth = Aeth(NO_CREDIT_LIMIT, run.msn).pack()
    return Segments(_RESPONSE_OPCODES, aeth, aeth, aeth)


def atomic_response(response: AtomicResponse) -> bytes:
    """The headers of the response to an atomic."""
    return Aeth(NO_CREDIT_LIMIT, response.msn).pack() + AtomicAckEth(response.original).pack()


def read_request(run: PacketRun, path_mtu: int) -> bytes:
    """The RETH of a READ request: for what is missing of the message from the run's offset on."""
    message, taken = run.message, run.offset * path_mtu
    return Reth(message.address + taken, message.rkey, message.size - taken).pack()
