"""Checkpoints of a training job: which rank writes and reads how many bytes.

Weights are split over tensor and pipeline ranks, and are the same on all data-parallel ranks, unless ZeRO splits them
too. ZeRO 1 and 2 split the optimizer's states over the data-parallel ranks, ZeRO 3 also the weights (Rajbhandari et
al., SC'20, section 5). What several ranks hold is written once, by the first of them, and read by each.

Checkpoint and restart as a workload: the nodes of every rank.

Every rank writes its files one after the other, each followed by an fsync, and all ranks meet in a barrier when a
checkpoint is complete (or, on a restart, read), as torch.distributed.checkpoint does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import Enum

from emulator.annexes.workloads.layout import Layout
from emulator.annexes.workloads.options import described, option
from emulator.annexes.workloads.totals import GroupRole, SyntheticWorkload
from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind, NodeType
from emulator.trace.meaning.program import MAX_MICROS
from emulator.trace.synthetic.synthetic import MAX_COMM_SIZE, Emission, FileCall, FileOperation, NodeChain, WorkNode
from emulator.units import parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseModel:
    """A decoder with grouped-query attention, a gated MLP (three matrices) and RMSNorm, without biases.

    Attributes:
        key_value_width: width of keys, and of values, over all their heads.
        ffn: width of the MLP.
    """

    layers: int
    hidden: int
    ffn: int
    key_value_width: int
    vocabulary: int

    @property
    def parameters(self) -> int:
        """All parameters: input and output embedding are separate matrices."""
        attention = 2 * self.hidden * (self.hidden + self.key_value_width)
        layer = attention + 3 * self.hidden * self.ffn + 2 * self.hidden
        return 2 * self.vocabulary * self.hidden + self.layers * layer + self.hidden


MODELS: Mapping[str, DenseModel] = {
    "llama-3.1-8b": DenseModel(layers=32, hidden=4096, ffn=14_336, key_value_width=1024, vocabulary=128_256),
    "llama-3.1-70b": DenseModel(layers=80, hidden=8192, ffn=28_672, key_value_width=1024, vocabulary=128_256),
    "llama-3.1-405b": DenseModel(layers=126, hidden=16_384, ffn=53_248, key_value_width=1024, vocabulary=128_256),
}
"""Llama Team, The Llama 3 Herd of Models, arXiv 2407.21783, table 3: 8 key-value heads of 128, 128K tokens."""


WEIGHT_BYTES = 2
"""Of a parameter in BF16 or FP16."""
OPTIMIZER_BYTES = 12
"""Per parameter, mixed-precision Adam: float32 master copy, momentum and variance (Rajbhandari et al., SC'20, 3.1)."""
MAX_CALLS = 1 << 22
"""Most file operations of a rank."""


class CheckpointPart(Enum):
    """What a file of a checkpoint holds."""

    WEIGHTS = "weights"
    OPTIMIZER = "optimizer"


def parse_parameters(text: str) -> int:
    """Parameters of a published model, by name, or a number of them: `llama-3.1-8b`, `7000000000`, `7e9`.

    Raises:
        ValueError: neither.
    """
    if text in MODELS:
        return MODELS[text].parameters
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (1 <= number <= MAX_COMM_SIZE and number.is_integer()):
        raise ValueError(f"is neither a model ({', '.join(MODELS)}) nor a number of parameters")
    return int(text) if text.isdecimal() else int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointing:
    """A training job that writes checkpoints to storage, and may start from one.

    Attributes:
        tensor, pipeline, data: degrees of parallelism; their product is the number of ranks.
        zero_stage: 0 to 3, see above.
        step_micros: compute of a step on every rank, µs; 0: none.
        asynchronous: continue training while a checkpoint is written; the next one waits for it.
        weight_bytes, optimizer_bytes: per parameter.

    Raises:
        PlanError: a number is out of range.
    """

    parameters: int = option(
        f"{', '.join(MODELS)}, or a number of parameters",
        flags="--model",
        metavar="MODEL",
        group="model",
        read=parse_parameters,
    )
    weight_bytes: int = option(
        "bytes per parameter of the weights", default=WEIGHT_BYTES, group="model", is_advanced=True
    )
    optimizer_bytes: int = option(
        "bytes of optimizer state per parameter; 0: only weights",
        default=OPTIMIZER_BYTES,
        group="model",
        is_advanced=True,
    )
    tensor: int = option("tensor parallelism", default=1, group="parallelism")
    pipeline: int = option("pipeline parallelism", default=1, group="parallelism")
    data: int = option("data parallelism", default=1, group="parallelism")
    zero_stage: int = option("ZeRO stage: what data ranks split, 0 to 3", default=1, group="parallelism")
    steps: int = option("training steps", default=1, group="checkpoints")
    every: int = option("steps from one checkpoint to the next", default=1, group="checkpoints", metavar="K")
    step_micros: int = option("compute of a step, µs", default=0, group="checkpoints", metavar="US")
    restart: bool = option("read a checkpoint before the first step", default=False, group="checkpoints")
    asynchronous: bool = option("continue training while a checkpoint is written", default=False, group="checkpoints")
    call_bytes: int = option(
        "maximum size of one read or write",
        default=64 << 20,
        group="checkpoints",
        metavar="SIZE",
        read=parse_size,
        unset="64M",
        is_advanced=True,
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            least = 0 if one.name in ("optimizer_bytes", "step_micros", "zero_stage") else 1
            if one.name not in ("restart", "asynchronous") and getattr(self, one.name) < least:
                raise PlanError(f"{one.name} is {getattr(self, one.name)}: it must be at least {least}")
        if self.zero_stage > 3:
            raise PlanError(f"zero_stage is {self.zero_stage}: ZeRO has the stages 0 to 3")
        if self.step_micros > MAX_MICROS:
            raise PlanError(f"step_micros is {self.step_micros}: it must be at most {MAX_MICROS}")
        self._check_sizes()

    @property
    def layout(self) -> Layout:
        """Layout of the ranks."""
        return Layout(self.tensor, self.data, self.pipeline)

    @property
    def checkpoints(self) -> int:
        """Checkpoints that are written."""
        return self.steps // self.every

    @property
    def written_bytes(self) -> int:
        """Of one checkpoint: every byte once."""
        return self.parameters * (self.weight_bytes + self.optimizer_bytes)

    @property
    def read_bytes(self) -> int:
        """Of one restart: what several ranks hold is read by each of them."""
        weights = self.parameters * self.weight_bytes * (1 if self.zero_stage == 3 else self.data)
        states = self.parameters * self.optimizer_bytes * (1 if self.zero_stage else self.data)
        return weights + states

    def is_split(self, part: CheckpointPart) -> bool:
        """Whether the data-parallel ranks hold different shares of it."""
        return self.zero_stage == 3 or (part is CheckpointPart.OPTIMIZER and self.zero_stage > 0)

    def held_bytes(self, part: CheckpointPart, rank: int) -> int:
        """What a rank holds of a part, and reads when it starts again."""
        at = self.layout.coordinates(rank)
        shard, shards = at.pipeline * self.tensor + at.tensor, self.tensor * self.pipeline
        held = _share(self.parameters, shard, shards)
        if self.is_split(part):
            held = _share(held, at.data, self.data)
        return held * (self.weight_bytes if part is CheckpointPart.WEIGHTS else self.optimizer_bytes)

    def saved_bytes(self, part: CheckpointPart, rank: int) -> int:
        """What a rank writes of a part."""
        is_writer = self.is_split(part) or self.layout.coordinates(rank).data == 0
        return self.held_bytes(part, rank) if is_writer else 0

    def calls(self, size_bytes: int) -> int:
        """File operations that transfer so many bytes."""
        return -(-size_bytes // self.call_bytes)

    def _check_sizes(self) -> None:
        largest = sum(self.held_bytes(part, 0) for part in CheckpointPart)
        if self.written_bytes > MAX_COMM_SIZE:
            raise PlanError(f"a checkpoint has {self.written_bytes} bytes; the limit is {MAX_COMM_SIZE}")
        calls = sum(self.calls(self.held_bytes(part, 0)) for part in CheckpointPart) * (self.checkpoints + self.restart)
        if calls > MAX_CALLS:
            raise PlanError(
                f"rank 0 would make {calls} file operations for {largest} bytes a checkpoint; "
                f"the limit is {MAX_CALLS}: raise call_bytes"
            )


def _share(total: int, number: int, of: int) -> int:
    """Equal shares that differ by at most one, and add up."""
    return (number + 1) * total // of - number * total // of


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
