"""A collective algorithm in the terms of MSCCL: what every thread block of every GPU does, one instruction at a time.

GPUs are numbered like the members of the group. A thread block runs its instructions in order; it sends to at most one
peer and receives from at most one, over a connection of its channel. An instruction can wait for one of another thread
block of its GPU. Buffers are arrays of chunks: input, output and scratch.

Source: Azure/msccl-executor-nccl at c6f6b36, src/misc/msccl/msccl_parser.cc; microsoft/msccl-tools at 030a750,
msccl/language (ir.py, collectives.py: buffers in place).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from emulator.trace.meaning.model import CommKind

Cell: TypeAlias = tuple[str, int]
"""Buffer (`i`, `o` or `s`) and chunk in it."""
COLLECTIVES = {
    "allreduce": CommKind.ALL_REDUCE,
    "allgather": CommKind.ALL_GATHER,
    "reducescatter": CommKind.REDUCE_SCATTER,
    "reduce_scatter": CommKind.REDUCE_SCATTER,
    "alltoall": CommKind.ALL_TO_ALL,
}


class MscclOpcode(Enum):
    """Instructions; those with a receive and a send pass on what they received, reduced or not."""

    SEND = "s"
    RECV = "r"
    RECV_COPY_SEND = "rcs"
    RECV_REDUCE_SEND = "rrs"
    RECV_REDUCE_COPY = "rrc"
    RECV_REDUCE_COPY_SEND = "rrcs"
    COPY = "cpy"
    REDUCE = "re"
    NOP = "nop"

    @property
    def receives(self) -> bool:
        """It takes a message from the connection."""
        return self.value.startswith("r") and self is not MscclOpcode.REDUCE

    @property
    def sends(self) -> bool:
        """It puts a message on the connection."""
        return self is MscclOpcode.SEND or (self.receives and self.value.endswith("s"))

    @property
    def reads(self) -> bool:
        """It reads its source."""
        return self in (MscclOpcode.SEND, MscclOpcode.COPY, MscclOpcode.REDUCE) or self.value.startswith("rr")

    @property
    def writes(self) -> bool:
        """It writes its destination."""
        return self not in (MscclOpcode.SEND, MscclOpcode.RECV_REDUCE_SEND, MscclOpcode.NOP)


class Instruction(NamedTuple):
    """An instruction.

    Attributes:
        source, target: first chunk of those that are read and written.
        chunks: how many.
        after: (thread block, instruction) of the same GPU that must be done before; None: none.
        line: in the file.
    """

    opcode: MscclOpcode
    source: Cell
    target: Cell
    chunks: int
    after: tuple[int, int] | None
    line: int


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """A thread block of a GPU; peers are -1 where it has none."""

    gpu: int
    send_peer: int
    recv_peer: int
    channel: int
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """An algorithm.

    Attributes:
        name: as the file has it.
        kind: the collective.
        chunks: what the array is cut into: of an all-gather and a reduce-scatter the whole one, of an all-to-all that
            of one member.
        scratch: chunks of scratch of each GPU.
        is_in_place: input and output are one buffer.
        least_bytes, most_bytes: of the array that it is for; most 0: no limit.
        blocks: thread blocks of each GPU, by their number.
    """

    name: str
    kind: CommKind
    gpus: int
    chunks: int
    scratch: tuple[int, ...]
    is_in_place: bool
    least_bytes: int
    most_bytes: int
    blocks: tuple[tuple[ThreadBlock, ...], ...]

    @property
    def parts(self) -> int:
        """Chunks of the part of one member."""
        return self.chunks if self.kind is CommKind.ALL_REDUCE else self.chunks // self.gpus

    def buffer_chunks(self, buffer: str, gpu: int) -> int:
        """Length of a buffer."""
        if buffer == "s":
            return self.scratch[gpu]
        is_part = (self.kind, buffer) in ((CommKind.ALL_GATHER, "i"), (CommKind.REDUCE_SCATTER, "o"))
        return self.parts if is_part else self.chunks

    def place(self, cell: Cell, gpu: int) -> Cell:
        """Where a cell is: in place, input and output are the same memory."""
        buffer, at = cell
        if buffer == "s" or not self.is_in_place:
            return cell
        if self.kind is CommKind.ALL_GATHER:
            return ("o", at + gpu * self.parts) if buffer == "i" else cell
        if self.kind is CommKind.REDUCE_SCATTER:
            return ("i", at + gpu * self.parts) if buffer == "o" else cell
        return ("i", at)
