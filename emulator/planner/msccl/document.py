"""MSCCL's XML as a program: read by a parser that refuses entities, checked instruction by instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from emulator.errors import PlanError
from emulator.planner.msccl.program import COLLECTIVES, Cell, Instruction, MscclOpcode, Program, ThreadBlock

MAX_XML_BYTES = 64 << 20
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
    if len(text) > MAX_XML_BYTES:
        raise PlanError(f"{path}: has more than {MAX_XML_BYTES >> 20} MiB")
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
