"""A proven program as lanes: rounds in which every GPU first sends what it can, then waits for what it needs.

Thread blocks that neither wait for each other nor share a connection play in lanes of their own. Within a lane, thread
blocks of a GPU keep step: a round ends when all that it receives has arrived.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeAlias

from emulator.annexes.msccl.program import Instruction, Program, parse_program
from emulator.annexes.msccl.proof import Transfers, prove
from emulator.errors import PlanError
from emulator.planner.algorithms import LoadedAlgorithm
from emulator.planner.schedule import Collective, Lane, Step, Transfer, block
from emulator.trace.meaning.model import CommKind

PREFIX = "msccl:"
_NAME_LENGTH = 40
MOST_LANES = 32

Block: TypeAlias = tuple[int, int]
"""GPU and thread block."""
Chunks: TypeAlias = tuple[int, ...]


class Round(NamedTuple):
    """What a GPU does in a round: (peer, chunks of the collective) in order."""

    sends: tuple[tuple[int, Chunks], ...]
    recvs: tuple[tuple[int, Chunks], ...]
    reduces: bool


@dataclass(frozen=True, slots=True)
class ProgramLanes:
    """The rounds of every GPU in every lane; an algorithm that `emulator.planner.algorithms` can play."""

    program: Program
    rounds: tuple[tuple[tuple[Round, ...], ...], ...]
    """By GPU, then by lane."""

    def __call__(self, collective: Collective, /) -> Sequence[Lane]:
        """Lanes of a member.

        Raises:
            PlanError: the collective is another one, of another size of group, or uneven.
        """
        program = self.program
        if collective.members != program.gpus or collective.send_splits is not None:
            what = "an uneven all_to_all" if collective.send_splits is not None else f"{collective.members} members"
            raise PlanError(f"algorithm {program.name!r} is for {program.gpus} members, not for {what}")
        return [self._lane(rounds, collective) for rounds in self.rounds[collective.member]]

    def _lane(self, rounds: Sequence[Round], collective: Collective) -> Iterator[Step]:
        for one in rounds:
            sends = [part for peer, chunks in one.sends for part in self._transfers(peer, chunks, collective)]
            recvs = [part for peer, chunks in one.recvs for part in self._transfers(peer, chunks, collective)]
            yield Step(sends, recvs, one.reduces)

    def _transfers(self, peer: int, chunks: Chunks, collective: Collective) -> Iterator[Transfer]:
        """Chunks that follow each other are one transfer."""
        begin = end = -1
        for offset, size in (self._span(chunk, collective) for chunk in chunks):
            if offset != end and end > begin:
                yield Transfer(peer, begin, end - begin)
            begin, end = (begin, offset + size) if offset == end else (offset, offset + size)
        if end > begin:
            yield Transfer(peer, begin, end - begin)

    def _span(self, chunk: int, collective: Collective) -> tuple[int, int]:
        """(offset, size) of a chunk of the collective in its logical buffer."""
        program, size_bytes = self.program, collective.size_bytes
        if program.kind is CommKind.ALL_REDUCE:
            return block(size_bytes, program.chunks, chunk)
        part, at = divmod(chunk, program.parts)
        if program.kind is CommKind.ALL_GATHER:
            begin, length = part * size_bytes, size_bytes
        elif program.kind is CommKind.REDUCE_SCATTER:
            begin, length = block(size_bytes, program.gpus, part)
        else:
            sender, receiver = divmod(part, program.gpus)
            offset, length = block(size_bytes, program.gpus, receiver)
            begin = sender * size_bytes + offset
        offset, size = block(length, program.parts, at)
        return begin + offset, size


def lanes_of(program: Program, sent: Transfers, path: str) -> ProgramLanes:
    """The lanes of a proven program.

    Args:
        sent: what its sending instructions send, from `prove`.

    Raises:
        PlanError: messages between two GPUs overtake each other on different channels of one lane.
    """
    lanes = [_Rounds(program, sent, members, path).rounds() for members in _independent(program)]
    return ProgramLanes(program, tuple(zip(*lanes, strict=True)))


def _independent(program: Program) -> list[list[Block]]:
    """Thread blocks in sets that do not wait for each other; at most MOST_LANES sets."""
    parent: dict[Block, Block] = {
        (gpu, at): (gpu, at) for gpu, blocks in enumerate(program.blocks) for at in range(len(blocks))
    }

    def root(one: Block) -> Block:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    ends: dict[tuple[int, int, int], Block] = {}
    for gpu, blocks in enumerate(program.blocks):
        for at, one in enumerate(blocks):
            for instruction in one.instructions:
                if instruction.after is not None:
                    parent[root((gpu, at))] = root((gpu, instruction.after[0]))
            for source, target in ((gpu, one.send_peer), (one.recv_peer, gpu)):
                if source >= 0 and target >= 0:
                    other = ends.setdefault((source, target, one.channel), (gpu, at))
                    parent[root((gpu, at))] = root(other)
    sets: defaultdict[Block, list[Block]] = defaultdict(list)
    for place in parent:
        sets[root(place)].append(place)
    busy = [blocks for _, blocks in sorted(sets.items())]
    return [list(chain(*busy[at::MOST_LANES])) for at in range(min(len(busy), MOST_LANES))] or [[]]


@dataclass(slots=True)
class _BlockProgress:
    """A thread block: its next instruction, when the one before was done, and a received message to pass on."""

    instructions: tuple[Instruction, ...]
    at: int = 0
    time: int = 0
    passing: bool = False
    done: dict[int, int] = field(default_factory=dict)


class _Rounds:
    """Finds the rounds of one lane. Time 2r is the sending half of round r, 2r + 1 its receiving half."""

    def __init__(self, program: Program, sent: Transfers, members: Sequence[Block], path: str) -> None:
        self._program, self._sent, self._path = program, sent, path
        self._progress = {one: _BlockProgress(program.blocks[one[0]][one[1]].instructions) for one in sorted(members)}
        self._queues: defaultdict[tuple[int, int], deque[tuple[int, Chunks]]] = defaultdict(deque)
        """(sender, receiver) → (channel, chunks) on their way, in order."""
        self._moved = False

    def rounds(self) -> tuple[tuple[Round, ...], ...]:
        """By GPU."""
        found: list[list[Round]] = [[] for _ in range(self._program.gpus)]
        number = 0
        while any(one.at < len(one.instructions) for one in self._progress.values()):
            self._moved = False
            sends, _ = self._half(2 * number)
            recvs, reduces = self._half(2 * number + 1)
            if not self._moved:
                raise PlanError(
                    f"{self._path}: messages on different channels overtake each other: it cannot be played"
                )
            for gpu, rounds in enumerate(found):
                if sends[gpu] or recvs[gpu]:
                    rounds.append(Round(tuple(sends[gpu]), tuple(recvs[gpu]), gpu in reduces))
            number += 1
        return tuple(map(tuple, found))

    def _half(self, time: int) -> tuple[list[list[tuple[int, Chunks]]], set[int]]:
        """Everything that can happen at a time: by GPU, (peer, chunks); and who reduces."""
        moves: list[list[tuple[int, Chunks]]] = [[] for _ in range(self._program.gpus)]
        reduces: set[int] = set()
        is_over = False
        while not is_over:
            is_over = True
            for one, progress in self._progress.items():
                while progress.at < len(progress.instructions) and self._step(one, progress, time, moves, reduces):
                    is_over, self._moved = False, True
        return moves, reduces

    def _step(
        self,
        one: Block,
        progress: _BlockProgress,
        time: int,
        moves: list[list[tuple[int, Chunks]]],
        reduces: set[int],
    ) -> bool:
        """Carry out an instruction, or the half of it that receives or sends, if that is possible at this time."""
        gpu, instruction = one[0], progress.instructions[progress.at]
        place = self._program.blocks[gpu][one[1]]
        ready = self._ready(gpu, progress, instruction)
        if ready is None or ready > time:
            return False
        if instruction.opcode.receives and not progress.passing:
            queue = self._queues[place.recv_peer, gpu]
            if time % 2 == 0 or not queue or queue[0][0] != place.channel:
                return False
            moves[gpu].append((place.recv_peer, queue.popleft()[1]))
            if instruction.opcode.value.startswith("rr"):
                reduces.add(gpu)
            progress.time = time
            progress.passing = instruction.opcode.sends
            if progress.passing:
                return True
        elif instruction.opcode.sends:
            if time % 2:
                return False
            chunks = self._sent[gpu, one[1], progress.at]
            moves[gpu].append((place.send_peer, chunks))
            self._queues[gpu, place.send_peer].append((place.channel, chunks))
            progress.time, progress.passing = time, False
        else:
            progress.time = max(ready, progress.time)
        progress.done[progress.at] = progress.time
        progress.at += 1
        return True

    def _ready(self, gpu: int, progress: _BlockProgress, instruction: Instruction) -> int | None:
        """When all that an instruction waits for is done; None: not yet."""
        ready = progress.time
        if instruction.after is not None:
            other = self._progress[gpu, instruction.after[0]].done.get(instruction.after[1])
            if other is None:
                return None
            ready = max(ready, other)
        return ready


def read_algorithm(text: str, path: str) -> LoadedAlgorithm:
    """An algorithm from XML, proved; its name lacks the digest.

    Raises:
        PlanError: it is not valid, or it does not compute its collective; the message names file and line.
    """
    program = parse_program(text, path)
    word = re.sub(r"[^A-Za-z0-9_.-]+", "-", program.name)[:_NAME_LENGTH] or "algorithm"
    bounds = program.least_bytes, program.most_bytes
    run = lanes_of(program, prove(program, path), path)
    return LoadedAlgorithm(f"{PREFIX}{word}", text, path, program.kind, program.gpus, *bounds, run)
