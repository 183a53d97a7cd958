"""A simulation of chunks: it proves that a program computes its collective in any order of events.

Every cell holds a chunk and the members whose contribution is in it. Members of a connection run at their own speed, so
one order is simulated, and it is shown that no other can give another result: two accesses to a cell, at least one of
them a write, must be ordered by instructions, dependencies and messages (vector clocks, as in race detectors).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from emulator.annexes.msccl.program import Cell, Instruction, MscclOpcode, Program, ThreadBlock
from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind

Connection: TypeAlias = tuple[int, int, int]
"""Sender, receiver, channel."""
Clock: TypeAlias = npt.NDArray[np.int32]


class Value(NamedTuple):
    """What a cell holds: number of a chunk of the collective, and a bit for each member that contributed."""

    chunk: int
    members: int


class MessageProof(NamedTuple):
    """What is on its way, and what its sender knew to be done."""

    values: tuple[Value, ...]
    clock: Clock


@dataclass(slots=True)
class _Run:
    """A thread block in progress.

    Attributes:
        number: among all of them.
        index: among those of its GPU.
        clock: thread block → instructions of it that are known to be done.
        at: the next instruction.
        signalled: instruction that others wait for → clock when it was done.
    """

    block: ThreadBlock
    number: int
    index: int
    clock: Clock
    at: int = 0
    signalled: dict[int, Clock] = field(default_factory=dict)


@dataclass(slots=True)
class _Accesses:
    """Who wrote a cell last and who read it since: thread block → instruction."""

    writer: tuple[int, int] | None = None
    readers: dict[int, int] = field(default_factory=dict)


Transfers: TypeAlias = dict[tuple[int, int, int], tuple[int, ...]]
"""(GPU, thread block, instruction) that sends → chunks of the collective that it sends."""


def prove(program: Program, path: str) -> Transfers:
    """Prove that a program computes its collective.

    Returns:
        What every sending instruction sends.

    Raises:
        PlanError: it deadlocks, races, or ends with a wrong chunk; the message names the rank and the chunk.
    """
    return _Simulation(program, path).run()


class _Simulation:
    def __init__(self, program: Program, path: str) -> None:
        self._program, self._path = program, path
        total = sum(map(len, program.blocks))
        numbers = iter(range(total))
        self._runs = [
            [_Run(block, next(numbers), at, np.zeros(total, np.int32)) for at, block in enumerate(blocks)]
            for blocks in program.blocks
        ]
        self._awaited = {
            (block.gpu, *instruction.after)
            for blocks in program.blocks
            for block in blocks
            for instruction in block.instructions
            if instruction.after is not None
        }
        self._connections: dict[Connection, deque[MessageProof]] = {}
        self._cells: list[dict[Cell, Value]] = [self._initial(gpu) for gpu in range(program.gpus)]
        self._accesses: dict[tuple[int, Cell], _Accesses] = {}
        self._sent: Transfers = {}
        self._check_connections()

    def run(self) -> Transfers:
        waiting = deque(one for runs in self._runs for one in runs)
        idle = 0
        while waiting and idle <= len(waiting):
            one = waiting.popleft()
            before = one.at
            while one.at < len(one.block.instructions) and self._can_run(one):
                self._execute(one)
            idle = idle + 1 if one.at == before else 0
            if one.at < len(one.block.instructions):
                waiting.append(one)
        if waiting:
            self._report_deadlock(min(waiting, key=lambda one: one.number))
        self._check_rest()
        self._check_result()
        return self._sent

    def _initial(self, gpu: int) -> dict[Cell, Value]:
        program = self._program
        held = {}
        for at in range(program.buffer_chunks("i", gpu)):
            chunk = at
            if program.kind is CommKind.ALL_GATHER:
                chunk = gpu * program.parts + at
            elif program.kind is CommKind.ALL_TO_ALL:
                chunk = gpu * program.chunks + at
            held[program.place(("i", at), gpu)] = Value(chunk, 1 << gpu)
        return held

    def _expected(self, gpu: int, at: int) -> Value:
        program, everyone = self._program, (1 << self._program.gpus) - 1
        match program.kind:
            case CommKind.ALL_REDUCE:
                return Value(at, everyone)
            case CommKind.REDUCE_SCATTER:
                return Value(gpu * program.parts + at, everyone)
            case CommKind.ALL_GATHER:
                return Value(at, 1 << at // program.parts)
            case _:
                sender = at // program.parts
                return Value(sender * program.chunks + gpu * program.parts + at % program.parts, 1 << sender)

    def _check_connections(self) -> None:
        """Each end of a connection belongs to one thread block."""
        ends: dict[tuple[str, int, int, int], int] = {}
        for blocks in self._program.blocks:
            for number, block in enumerate(blocks):
                for side, peer in (("sends", block.send_peer), ("receives", block.recv_peer)):
                    used = any(getattr(one.opcode, side) for one in block.instructions)
                    if used and ends.setdefault((side, block.gpu, peer, block.channel), number) != number:
                        problem = f"two thread blocks of gpu {block.gpu} use channel {block.channel} with gpu {peer}"
                        raise PlanError(f"{self._path}:{block.instructions[0].line}: {problem}")

    def _can_run(self, one: _Run) -> bool:
        instruction = one.block.instructions[one.at]
        if instruction.after is not None:
            block, step = instruction.after
            if step not in self._runs[one.block.gpu][block].signalled:
                return False
        return not instruction.opcode.receives or bool(self._connections.get(_from(one.block)))

    def _execute(self, one: _Run) -> None:
        instruction, gpu, cells = one.block.instructions[one.at], one.block.gpu, self._cells[one.block.gpu]
        opcode = instruction.opcode
        if instruction.after is not None:
            block, step = instruction.after
            np.maximum(one.clock, self._runs[gpu][block].signalled[step], out=one.clock)
        received: tuple[Value, ...] = ()
        if opcode.receives:
            message = self._connections[_from(one.block)].popleft()
            np.maximum(one.clock, message.clock, out=one.clock)
            received = message.values
            if len(received) != instruction.chunks:
                self._fail(instruction, f"rank {gpu} expects {instruction.chunks} chunks, gets {len(received)}")
        values = received
        if opcode.reads:
            own = [self._read(one, instruction, at) for at in range(instruction.chunks)]
            values = (
                tuple(self._sum(instruction, gpu, pair) for pair in zip(own, received, strict=True))
                if (received)
                else tuple(own)
            )
        for at in range(instruction.chunks if opcode.writes else 0):
            cell = self._cell(instruction.target, at, gpu)
            if opcode is MscclOpcode.REDUCE:
                held = self._checked(one, instruction, cell)
                values = (*values[:at], self._sum(instruction, gpu, (held, values[at])), *values[at + 1 :])
            self._note(one, instruction, cell, is_write=True)
            cells[cell] = values[at]
        one.at += 1
        one.clock[one.number] = one.at
        if opcode.sends:
            self._sent[gpu, one.index, one.at - 1] = tuple(value.chunk for value in values)
            connection = (gpu, one.block.send_peer, one.block.channel)
            self._connections.setdefault(connection, deque()).append(MessageProof(values, one.clock.copy()))
        if (gpu, one.index, one.at - 1) in self._awaited:
            one.signalled[one.at - 1] = one.clock.copy()

    def _cell(self, first: Cell, at: int, gpu: int) -> Cell:
        return self._program.place((first[0], first[1] + at), gpu)

    def _read(self, one: _Run, instruction: Instruction, at: int) -> Value:
        return self._checked(one, instruction, self._cell(instruction.source, at, one.block.gpu))

    def _checked(self, one: _Run, instruction: Instruction, cell: Cell) -> Value:
        self._note(one, instruction, cell, is_write=False)
        value = self._cells[one.block.gpu].get(cell)
        if value is None:
            raise self._error(instruction, f"rank {one.block.gpu} reads chunk {_named(cell)}, where nothing is")
        return value

    def _sum(self, instruction: Instruction, gpu: int, values: tuple[Value, Value]) -> Value:
        mine, theirs = values
        if mine.chunk != theirs.chunk:
            problem = f"rank {gpu} adds chunk {theirs.chunk} of the array to chunk {mine.chunk}"
            self._fail(instruction, problem)
        twice = mine.members & theirs.members
        if twice:
            problem = f"rank {gpu} adds the contribution of rank {_lowest(twice)} to chunk {mine.chunk} twice"
            self._fail(instruction, problem)
        return Value(mine.chunk, mine.members | theirs.members)

    def _note(self, one: _Run, instruction: Instruction, cell: Cell, *, is_write: bool) -> None:
        """Check that accesses of other thread blocks to a cell are known to be over."""
        accesses = self._accesses.setdefault((one.block.gpu, cell), _Accesses())
        others = [accesses.writer] if accesses.writer is not None else []
        if is_write:
            others += list(accesses.readers.items())
        for block, step in others:
            if block != one.number and one.clock[block] <= step:
                problem = (
                    f"rank {one.block.gpu} uses chunk {_named(cell)} in two thread blocks, and nothing orders them"
                )
                self._fail(instruction, problem)
        if is_write:
            accesses.writer, accesses.readers = (one.number, one.at), {}
        else:
            accesses.readers[one.number] = one.at

    def _report_deadlock(self, one: _Run) -> None:
        instruction, gpu = one.block.instructions[one.at], one.block.gpu
        if instruction.opcode.receives and not self._connections.get(_from(one.block)):
            what = f"a message from rank {one.block.recv_peer} on channel {one.block.channel}"
        else:
            what = f"step {instruction.after[1]} of thread block {instruction.after[0]}" if instruction.after else ""
        self._fail(instruction, f"rank {gpu} waits for {what}, which never comes")

    def _check_rest(self) -> None:
        for (source, target, channel), messages in self._connections.items():
            if messages:
                problem = f"rank {target} never receives what rank {source} sends it last on channel {channel}"
                raise PlanError(f"{self._path}: {problem} (chunk {messages[-1].values[0].chunk})")

    def _check_result(self) -> None:
        program = self._program
        for gpu, cells in enumerate(self._cells):
            for at in range(program.buffer_chunks("o", gpu)):
                held, expected = cells.get(program.place(("o", at), gpu)), self._expected(gpu, at)
                if held == expected:
                    continue
                problem = f"rank {gpu} ends with {_said(held, program)} as chunk {at} of its output"
                raise PlanError(f"{self._path}: {problem}; it must be {_said(expected, program)}")

    def _error(self, instruction: Instruction, problem: str) -> PlanError:
        return PlanError(f"{self._path}:{instruction.line}: {problem}")

    def _fail(self, instruction: Instruction, problem: str) -> NoReturn:
        raise self._error(instruction, problem)


def _from(block: ThreadBlock) -> Connection:
    return block.recv_peer, block.gpu, block.channel


def _lowest(members: int) -> int:
    return (members & -members).bit_length() - 1


def _named(cell: Cell) -> str:
    return f"{cell[1]} of buffer {cell[0]!r}"


def _said(value: Value | None, program: Program) -> str:
    """What a cell holds, in words."""
    if value is None:
        return "nothing"
    if program.kind is CommKind.ALL_TO_ALL:
        sender, at = divmod(value.chunk, program.chunks)
        return f"chunk {at} of rank {sender}"
    if program.kind is CommKind.ALL_GATHER:
        return f"chunk {value.chunk % program.parts} of rank {value.chunk // program.parts}"
    missing = ~value.members & ((1 << program.gpus) - 1)
    lacks = f" without rank {_lowest(missing)}" if missing else " from all ranks"
    return f"chunk {value.chunk}{lacks}"
