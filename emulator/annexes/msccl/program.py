"""A collective algorithm in the terms of MSCCL: what every thread block of every GPU does, one instruction at a time.

GPUs are numbered like the members of the group. A thread block runs its instructions in order; it sends to at most one
peer and receives from at most one, over a connection of its channel. An instruction can wait for one of another thread
block of its GPU. Buffers are arrays of chunks: input, output and scratch.

MSCCL's XML is read by a parser that refuses entities, and checked instruction by instruction.

Source: Azure/msccl-executor-nccl at c6f6b36, src/misc/msccl/msccl_parser.cc; microsoft/msccl-tools at 030a750,
msccl/language (ir.py, collectives.py: buffers in place).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NoReturn, TypeAlias
from xml.parsers import expat

from emulator.errors import PlanError
from emulator.planner.algorithms import MAX_ALGORITHM_BYTES
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


MAX_GPUS = 1024
MAX_CHUNKS = 1 << 20
MAX_INSTRUCTIONS = 2_000_000
_PARENTS = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}
_OPCODES = {one.value: one for one in MscclOpcode}


@dataclass(slots=True)
class _Element:
    tag: str
    line: int
    attributes: Mapping[str, str]
    children: list[_Element] = field(default_factory=list)


def parse_program(text: str, path: str) -> Program:
    """The program in an XML file.

    Raises:
        PlanError: it is not one; the message has the line.
    """
    return _ElementReader(path).program(_tree(text, path))


def _tree(text: str, path: str) -> _Element:
    if len(text) > MAX_ALGORITHM_BYTES:
        raise PlanError(f"{path}: has more than {MAX_ALGORITHM_BYTES >> 20} MiB")
    parser = expat.ParserCreate()
    stack: list[_Element] = []
    roots: list[_Element] = []
    count = 0

    def refuse(*_: object) -> NoReturn:
        raise PlanError(f"{path}:{parser.CurrentLineNumber}: declares a document type or an entity: remove it")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        line, above = parser.CurrentLineNumber, stack[-1].tag if stack else None
        count += 1
        if tag not in _PARENTS or _PARENTS[tag] != above:
            place = f"in <{above}>" if above else "at the top"
            raise PlanError(f"{path}:{line}: <{tag[:40]}> {place}; an algorithm is <algo><gpu><tb><step>")
        if count > MAX_INSTRUCTIONS:
            raise PlanError(f"{path}:{line}: has more than {MAX_INSTRUCTIONS:,} elements")
        element = _Element(tag, line, attributes)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise PlanError(f"{path}:{error.lineno}: is not XML ({expat.errors.messages[error.code]})") from error
    except ValueError as error:
        raise PlanError(f"{path}: is not XML ({error}): write it in UTF-8") from error
    return roots[0]


class _ElementReader:
    """Reads elements; knows the file for messages."""

    def __init__(self, path: str) -> None:
        self._path = path

    def program(self, algo: _Element) -> Program:
        name = algo.attributes.get("coll", "")
        if name not in COLLECTIVES:
            known = ", ".join(dict.fromkeys(COLLECTIVES))
            self._fail(algo, f"coll {name[:40]!r} cannot be played; there are {known}")
        kind = COLLECTIVES[name]
        gpus = self._number(algo, "ngpus", 2, MAX_GPUS)
        chunks = self._number(algo, "nchunksperloop", 1, MAX_CHUNKS)
        by_id: dict[int, _Element] = {}
        for gpu in algo.children:
            number = self._number(gpu, "id", 0, gpus - 1)
            if by_id.setdefault(number, gpu) is not gpu:
                self._fail(gpu, f"gpu {number} is given twice")
        missing = next((number for number in range(gpus) if number not in by_id), None)
        if missing is not None:
            self._fail(algo, f"has no gpu {missing}, and ngpus is {gpus}")
        scratch = tuple(self._number(by_id[gpu], "s_chunks", 0, MAX_CHUNKS, default=0) for gpu in range(gpus))
        program = Program(
            name=algo.attributes.get("name", "algorithm"),
            kind=kind,
            gpus=gpus,
            chunks=chunks,
            scratch=scratch,
            is_in_place=bool(self._number(algo, "inplace", 0, 1, default=0)),
            least_bytes=self._number(algo, "minBytes", 0, 1 << 62, default=0),
            most_bytes=self._number(algo, "maxBytes", 0, (1 << 63) - 1, default=0),
            blocks=tuple(self._blocks(by_id[gpu], gpu, gpus) for gpu in range(gpus)),
        )
        if program.parts * (1 if program.parts == chunks else gpus) != chunks:
            self._fail(algo, f"nchunksperloop {chunks} is no multiple of ngpus {gpus}")
        self._check_bounds(program)
        return program

    def _blocks(self, gpu: _Element, number: int, gpus: int) -> tuple[ThreadBlock, ...]:
        by_id: dict[int, _Element] = {}
        for block in gpu.children:
            at = self._number(block, "id", 0, MAX_INSTRUCTIONS)
            if by_id.setdefault(at, block) is not block:
                self._fail(block, f"gpu {number} has thread block {at} twice")
        if sorted(by_id) != list(range(len(by_id))):
            self._fail(gpu, f"the thread blocks of gpu {number} are not numbered from 0 on")
        signals = [self._signals(by_id[at]) for at in range(len(by_id))]
        return tuple(self._block(by_id[at], number, gpus, signals) for at in range(len(by_id)))

    def _signals(self, block: _Element) -> list[bool]:
        return [bool(self._number(step, "hasdep", 0, 1, default=0)) for step in block.children]

    def _block(self, block: _Element, gpu: int, gpus: int, signals: list[list[bool]]) -> ThreadBlock:
        peers = {side: self._number(block, side, -1, gpus - 1) for side in ("send", "recv")}
        if gpu in peers.values():
            self._fail(block, f"gpu {gpu} has itself as a peer")
        instructions = []
        for at, step in enumerate(block.children):
            if self._number(step, "s", 0, MAX_INSTRUCTIONS) != at:
                self._fail(step, f"step {step.attributes['s'][:20]} stands where step {at} must be")
            instruction = self._instruction(step, signals)
            for side, needs in (("send", instruction.opcode.sends), ("recv", instruction.opcode.receives)):
                if needs and peers[side] < 0:
                    self._fail(step, f"{instruction.opcode.value!r} in a thread block without a {side} peer")
            instructions.append(instruction)
        channel = self._number(block, "chan", 0, MAX_INSTRUCTIONS)
        return ThreadBlock(gpu, peers["send"], peers["recv"], channel, tuple(instructions))

    def _instruction(self, step: _Element, signals: list[list[bool]]) -> Instruction:
        word = step.attributes.get("type", "")
        if word not in _OPCODES:
            self._fail(step, f"type {word[:20]!r} is no instruction; there are {', '.join(_OPCODES)}")
        opcode = _OPCODES[word]
        count = self._number(step, "cnt", 0 if opcode is MscclOpcode.NOP else 1, MAX_CHUNKS, default=1)
        source = self._cell(step, "src") if opcode.reads else ("i", 0)
        target = self._cell(step, "dst") if opcode.writes else ("i", 0)
        block = self._number(step, "depid", -1, len(signals) - 1, default=-1)
        after = None
        if block >= 0:
            first = self._number(step, "deps", 0, max(0, len(signals[block]) - 1))
            signalled = next((at for at in range(first, len(signals[block])) if signals[block][at]), None)
            if signalled is None:
                self._fail(step, f"waits for step {first} of thread block {block}, which has no hasdep=1 from there on")
            after = (block, signalled)
        return Instruction(opcode, source, target, count, after, step.line)

    def _cell(self, step: _Element, side: str) -> Cell:
        buffer = step.attributes.get(f"{side}buf", "")
        if buffer not in ("i", "o", "s"):
            self._fail(step, f"{side}buf {buffer[:20]!r} is neither i, o nor s")
        return buffer, self._number(step, f"{side}off", 0, MAX_CHUNKS)

    def _check_bounds(self, program: Program) -> None:
        for gpu, blocks in enumerate(program.blocks):
            for instruction in (one for block in blocks for one in block.instructions):
                opcode = instruction.opcode
                for is_used, (buffer, at) in ((opcode.reads, instruction.source), (opcode.writes, instruction.target)):
                    length = program.buffer_chunks(buffer, gpu)
                    if is_used and at + instruction.chunks > length:
                        problem = f"gpu {gpu} uses chunk {at + instruction.chunks - 1} of buffer {buffer!r}"
                        raise PlanError(f"{self._path}:{instruction.line}: {problem}, which has {length}")

    def _number(self, element: _Element, name: str, least: int, most: int, *, default: int | None = None) -> int:
        text = element.attributes.get(name)
        if text is None and default is not None:
            return default
        if text is None:
            self._fail(element, f"<{element.tag}> has no {name}")
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or not least <= int(text) <= most:
            self._fail(element, f"{name} {text[:20]!r} is not a whole number from {least} to {most}")
        return int(text)

    def _fail(self, element: _Element, problem: str) -> NoReturn:
        raise PlanError(f"{self._path}:{element.line}: {problem}")
