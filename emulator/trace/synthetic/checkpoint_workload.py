"""Checkpoint and restart as a workload: the nodes of every rank.

Every rank writes its files one after the other, each followed by an fsync, and all ranks meet in a barrier when a
checkpoint is complete (or, on a restart, read), as torch.distributed.checkpoint does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emulator.trace.meaning.model import CommKind, NodeType
from emulator.trace.synthetic.checkpoint import Checkpointing, CheckpointPart
from emulator.trace.synthetic.node_chain import Emission, NodeChain
from emulator.trace.synthetic.options import described
from emulator.trace.synthetic.synthetic import (
    FileCall,
    FileOperation,
    GroupRole,
    SyntheticWorkload,
    WorkNode,
)


def checkpoint_workload(job: Checkpointing) -> SyntheticWorkload:
    """`job` on tensor x pipeline x data ranks."""
    return SyntheticWorkload(
        name="checkpoint",
        ranks=job.layout.ranks,
        groups={},
        nodes=lambda rank: _Rank(job, rank).nodes(),
        parameters=described(job),
        role=lambda rank, node: GroupRole.WORLD,
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A file, and how many bytes of it a rank transfers."""

    part: CheckpointPart
    path: str
    size_bytes: int


class _Rank:
    """Generates the nodes of one rank."""

    def __init__(self, job: Checkpointing, rank: int) -> None:
        self._job, self._rank, self._chain = job, rank, NodeChain()

    def nodes(self) -> Iterator[WorkNode]:
        job = self._job
        training, saved = 0, 0  # nodes after which the next step, and the next checkpoint, may begin
        if job.restart:
            training = yield from self._transfer(0, FileCall.PREAD, training)
        for step in range(1, job.steps + 1):
            if job.step_micros:
                training = yield from self._chain.compute(f"step.{step}", job.step_micros, training)
            if step % job.every == 0:
                saved = yield from self._transfer(step, FileCall.PWRITE, training, saved)
                training = training if job.asynchronous else saved

    def _transfer(self, step: int, call: FileCall, *after: int) -> Emission:
        """Read or write the rank's files of a step, and wait for the other ranks."""
        name = f"{'restart' if call is FileCall.PREAD else 'checkpoint'}.{step}"
        last = yield from self._chain.append(name, *after, node_type=NodeType.CHECKPOINT, on_cpu=True)
        for file in self._files(step, call):
            last = yield from self._operate(f"{name}.{file.part.value}", file, call, last)
        if self._job.layout.ranks > 1:
            last = yield from self._chain.append(f"{name}.barrier", last, kind=CommKind.BARRIER, size_bytes=0)
        return last

    def _files(self, step: int, call: FileCall) -> Iterator[_File]:
        """The files that a rank reads, which several may share, or writes."""
        job, rank = self._job, self._rank
        for part in CheckpointPart:
            size = job.held_bytes(part, rank) if call is FileCall.PREAD else job.saved_bytes(part, rank)
            owner = rank if job.is_split(part) else job.layout.rank(job.layout.coordinates(rank)._replace(data=0))
            if size:
                yield _File(part, f"/checkpoints/step-{step}/{part.value}-{owner}", size)

    def _operate(self, name: str, file: _File, call: FileCall, after: int) -> Emission:
        for number, offset in enumerate(range(0, file.size_bytes, self._job.call_bytes)):
            size = min(self._job.call_bytes, file.size_bytes - offset)
            operation = FileOperation(call, file.path, offset, size)
            after = yield from self._call(f"{name}.{call.name.lower()}.{number}", operation, after)
        if call is FileCall.PWRITE:
            after = yield from self._call(f"{name}.fsync", FileOperation(FileCall.FSYNC, file.path), after)
        return after

    def _call(self, name: str, operation: FileOperation, after: int) -> Emission:
        return (yield from self._chain.append(name, after, node_type=NodeType.STORAGE, on_cpu=True, file=operation))
