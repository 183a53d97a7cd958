"""Checkpoints of a training job: which rank writes and reads how many bytes.

Weights are split over tensor and pipeline ranks, and are the same on all data-parallel ranks, unless ZeRO splits them
too. ZeRO 1 and 2 split the optimizer's states over the data-parallel ranks, ZeRO 3 also the weights (Rajbhandari et
al., SC'20, section 5). What several ranks hold is written once, by the first of them, and read by each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum

from emulator.errors import PlanError
from emulator.trace.meaning.program import MAX_MICROS
from emulator.trace.synthetic.layout import Layout
from emulator.trace.synthetic.options import option
from emulator.trace.synthetic.synthetic import MAX_COMM_SIZE
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
        flags=("--model",),
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
