"""Model of a transformer in training: message sizes that follow from its dimensions.

Sizes are those of Megatron-LM (Shoeybi et al., arXiv 1909.08053; Narayanan et al., SC'21, arXiv 2104.04473): tensor
parallelism splits the matrices of attention and MLP and the vocabulary. Biases of the second matrices and layer norms
are replicated. With experts, every layer has them in place of its MLP, and a replicated router. Position embeddings are
on the first stage, and the output layer shares the word embedding. The final layer norm (2h parameters) is left out, as
in the parameter count of SC'21.

A pipeline schedule is the order in which a stage processes its micro-batches. As text a transformer is
`layers=96,hidden=12288,tensor=8`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from emulator.annexes.workloads.layout import Layout
from emulator.annexes.workloads.options import check_ranges, memory_option, option, tflops_option
from emulator.errors import PlanError
from emulator.option import options_of
from emulator.suggestions import did_you_mean
from emulator.trace.synthetic.synthetic import MAX_COMM_SIZE

LOSS_BYTES = 4
"""Losses, gradient norms and the softmax of the loss are float32 for any data type of the model."""
_DEFAULTS = {"hidden": 8192, "sequence": 2048}


class PipelineSchedule(Enum):
    """Pipeline schedules by their usual names."""

    ONE_F_ONE_B = "1f1b"
    GPIPE = "gpipe"


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One pass of a micro-batch through a chunk of layers; `is_last` marks the last backward pass of the chunk."""

    micro_batch: int
    is_forward: bool
    is_last: bool = False
    chunk: int = 0


def pipeline_steps(
    schedule: PipelineSchedule, *, stage: int, stages: int, micro_batches: int, virtual_stages: int = 1
) -> Iterator[PipelineStep]:
    """Passes of one stage in order: every micro-batch once forward and once backward through each of its chunks.

    Args:
        schedule: without virtual stages; with them it is 1F1B, interleaved.
        stage, stages: number of the stage, and how many there are.
        micro_batches: with virtual stages a multiple of `stages`.
        virtual_stages: chunks of layers that a stage holds.

    Source: GPipe: Huang et al., NeurIPS 2019 (all forward, then all backward in reverse). 1F1B, with and without
    interleaving: Narayanan et al., SC'21, section 2.2 (stages - 1 - stage forward passes to warm up, then one of each).
    """
    if virtual_stages > 1:
        return _interleaved(stage, stages, micro_batches, virtual_stages)
    if schedule is PipelineSchedule.GPIPE:
        return _gpipe(micro_batches)
    return _one_forward_one_backward(min(stages - 1 - stage, micro_batches), micro_batches)


def _gpipe(micro_batches: int) -> Iterator[PipelineStep]:
    for k in range(micro_batches):
        yield PipelineStep(k, is_forward=True)
    for k in reversed(range(micro_batches)):
        yield PipelineStep(k, is_forward=False, is_last=k == 0)


def _one_forward_one_backward(warmup: int, micro_batches: int) -> Iterator[PipelineStep]:
    for k in range(warmup):
        yield PipelineStep(k, is_forward=True)
    for k in range(micro_batches):
        if k + warmup < micro_batches:
            yield PipelineStep(k + warmup, is_forward=True)
        yield PipelineStep(k, is_forward=False, is_last=k == micro_batches - 1)


def _interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> Iterator[PipelineStep]:
    """As many micro-batches as stages pass a chunk before the next chunk has its turn."""

    def step(number: int, *, is_forward: bool) -> PipelineStep:
        turn, rest = divmod(number, stages * chunks)
        chunk, k = rest // stages, turn * stages + rest % stages
        is_last = not is_forward and k == micro_batches - 1
        return PipelineStep(k, is_forward, is_last, chunk if is_forward else chunks - 1 - chunk)

    passes = micro_batches * chunks
    warmup = min(2 * (stages - 1 - stage) + (chunks - 1) * stages, passes)
    for number in range(warmup):
        yield step(number, is_forward=True)
    for number in range(passes):
        if number + warmup < passes:
            yield step(number + warmup, is_forward=True)
        yield step(number, is_forward=False)


class ContextExchange(Enum):
    """How the ranks of a context-parallel group exchange keys and values."""

    RING = "ring"
    ALL_GATHER = "all-gather"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Model, batch, parallelism and device of a training iteration.

    Attributes:
        layers, hidden, sequence, vocabulary: l, h, s and V in the papers.
        batch: B.
        experts, top_k: 1 expert: none; all get equally many tokens.
        tensor, context, pipeline, data: degrees of parallelism; their product is the number of ranks.
        expert: ranks along data and context that share the experts.
        sequence_parallel: tensor-parallel ranks split activations outside of matrices by tokens: reduce-scatter and
            all-gather in place of all-reduce.
        virtual_stages: chunks of layers that a stage holds; more than one: 1F1B, interleaved.
        recompute: repeat the forward pass of each layer before its backward pass (full activation recomputation).

    Raises:
        PlanError: a number is not positive, or does not divide as the parallelism requires.
    """

    layers: int = option("transformer layers", group="model")
    hidden: int = option("hidden size", group="model")
    sequence: int = option("tokens per sequence", group="model")
    batch: int = option("sequences per iteration, over all replicas", group="model")
    micro_batches: int = option("micro-batches per replica and iteration", default=1, group="model")
    vocabulary: int = option("tokens in the vocabulary", default=51_200, group="model", is_advanced=True)
    ffn_multiplier: int = option("width of the MLP as a multiple of hidden", default=4, group="model", is_advanced=True)
    dtype_bytes: int = option(
        "bytes per activation, parameter and gradient", default=2, group="model", is_advanced=True
    )
    experts: int = option("experts of a layer", default=1, group="model", is_advanced=True)
    top_k: int = option("with experts: number that a token uses", default=1, group="model", is_advanced=True)
    tensor: int = option("tensor parallelism", default=1, group="parallelism")
    context: int = option("context parallelism", default=1, group="parallelism")
    pipeline: int = option("pipeline parallelism", default=1, group="parallelism")
    data: int = option("data parallelism", default=1, group="parallelism")
    expert: int = option("expert parallelism", default=1, group="parallelism")
    sequence_parallel: bool = option(
        "split activations over tensor ranks", default=False, group="parallelism", is_advanced=True
    )
    context_exchange: ContextExchange = option(
        "of keys and values between context ranks", default=ContextExchange.RING, group="parallelism", is_advanced=True
    )
    schedule: PipelineSchedule = option(
        "order of micro-batches in a pipeline stage",
        default=PipelineSchedule.ONE_F_ONE_B,
        group="parallelism",
        is_advanced=True,
    )
    virtual_stages: int = option(
        "interleaved chunks of layers per stage", default=1, group="parallelism", is_advanced=True
    )
    recompute: bool = option(
        "recompute all activations in the backward pass", default=False, group="model", is_advanced=True
    )
    shard_optimizer: bool = option(
        "reduce-scatter gradients and all-gather parameters (default: all-reduce gradients)",
        default=False,
        group="parallelism",
        is_advanced=True,
    )
    device_tflops: float = tflops_option()
    device_gbytes_per_s: float = memory_option()

    def __post_init__(self) -> None:
        check_ranges(self)
        self._check_divides("layers", self.layers, "pipeline", self.pipeline)
        self._check_divides("hidden", self.hidden, "tensor", self.tensor)
        self._check_divides("vocabulary", self.vocabulary, "tensor", self.tensor)
        self._check_divides("sequence", self.sequence, "context", self.context)
        self._check_divides("batch", self.batch, "data x micro_batches", self.data * self.micro_batches)
        if self.sequence_parallel:
            self._check_divides("sequence", self.sequence, "context x tensor", self.context * self.tensor)
        if self.virtual_stages > 1:
            self._check_virtual_stages()
        self._check_experts()
        self._check_sizes()

    @property
    def layout(self) -> Layout:
        """Layout of the ranks."""
        return Layout(self.tensor, self.data, self.pipeline, self.context, self.expert)

    @property
    def is_split(self) -> bool:
        """Whether tensor ranks split activations: there are at least two, and sequence parallelism is on."""
        return self.sequence_parallel and self.tensor > 1

    @property
    def micro_batch_tokens(self) -> int:
        """Number of tokens of a micro-batch on a context-parallel rank."""
        return self.batch // (self.data * self.micro_batches) * self.sequence // self.context

    @property
    def activation_bytes(self) -> int:
        """Output of a layer for one micro-batch, which tensor ranks reduce."""
        return self.micro_batch_tokens * self.hidden * self.dtype_bytes

    @property
    def held_activation_bytes(self) -> int:
        """What one tensor rank holds of it between layers, which stages send."""
        return self.activation_bytes // (self.tensor if self.is_split else 1)

    @property
    def key_value_bytes(self) -> int:
        """Keys and values of one rank for one micro-batch and layer, which context ranks exchange."""
        return 2 * self.activation_bytes // self.tensor

    @property
    def dispatch_bytes(self) -> int:
        """What one rank sends to experts for one micro-batch and layer, and gets back."""
        return self.top_k * self.held_activation_bytes

    @property
    def softmax_bytes(self) -> int:
        """One float32 per token of a micro-batch; the vocabulary-parallel loss all-reduces it three times."""
        return self.micro_batch_tokens * LOSS_BYTES

    @property
    def replicated_parameters(self) -> int:
        """Parameters of a layer that every tensor rank holds: two layer norms, two biases, and the router: 6h, 5h + hE.

        The second bias of an MLP goes with its expert.
        """
        return 6 * self.hidden if self.experts == 1 else (5 + self.experts) * self.hidden

    @property
    def layer_parameters(self) -> int:
        """Parameters of a layer on one tensor rank without experts; 12h² + 13h with tensor 1 and an MLP of 4h."""
        h, f = self.hidden, self.ffn_multiplier
        mlp = 2 * f * h * h + f * h if self.experts == 1 else 0
        return (4 * h * h + 3 * h + mlp) // self.tensor + self.replicated_parameters

    @property
    def expert_parameters(self) -> int:
        """Parameters of the experts of a layer on one rank; 0 without experts."""
        h, f = self.hidden, self.ffn_multiplier
        held = self.experts // self.expert if self.experts > 1 else 0
        return held * ((2 * f * h * h + f * h) // self.tensor + h)

    @property
    def word_embedding_parameters(self) -> int:
        """Parameters of the word embedding on one tensor rank: Vh / t."""
        return self.vocabulary * self.hidden // self.tensor

    @property
    def embedding_parameters(self) -> int:
        """Parameters of word and position embeddings on one tensor rank of the first stage: Vh / t + sh."""
        return self.word_embedding_parameters + self.sequence * self.hidden

    def bucket_bytes(self, parameters: int, *, replicas: int | None = None) -> int:
        """Bytes of the gradients of `parameters` parameters; with a sharded optimizer padded to equal shards.

        Args:
            parameters: on one rank.
            replicas: ranks that hold the same; None: data · context.
        """
        shards = (self.layout.replicas if replicas is None else replicas) if self.shard_optimizer else 1
        return math.ceil(parameters / shards) * shards * self.dtype_bytes

    def stage_parameters(self, stage: int) -> int:
        """Parameters on one tensor rank of a stage without experts; the last one has a copy of the word embedding."""
        held = self.layers // self.pipeline * self.layer_parameters
        held += self.embedding_parameters if stage == 0 else 0
        return held + (self.word_embedding_parameters if 0 < stage == self.pipeline - 1 else 0)

    @property
    def stage_expert_parameters(self) -> int:
        """Parameters of experts on one rank."""
        return self.layers // self.pipeline * self.expert_parameters

    def _check_virtual_stages(self) -> None:
        if self.pipeline == 1:
            raise PlanError(f"virtual_stages {self.virtual_stages} needs pipeline of at least 2")
        if self.schedule is not PipelineSchedule.ONE_F_ONE_B:
            raise PlanError(f"virtual_stages {self.virtual_stages} needs schedule 1f1b, not {self.schedule.value}")
        stages = self.pipeline * self.virtual_stages
        self._check_divides("layers", self.layers, "pipeline x virtual_stages", stages)
        self._check_divides("micro_batches", self.micro_batches, "pipeline", self.pipeline)

    def _check_experts(self) -> None:
        self._check_divides("experts", self.experts, "expert", self.expert)
        self._check_divides("data x context", self.data * self.context, "expert", self.expert)
        if self.top_k > self.experts:
            raise PlanError(f"top_k {self.top_k} is more than experts {self.experts}")
        if self.experts > 1 and self.tensor > 1 and not self.sequence_parallel:
            raise PlanError("experts with tensor parallelism need sequence_parallel, as in Megatron-LM")

    def _check_sizes(self) -> None:
        parameters = max(self.layer_parameters, self.embedding_parameters, self.expert_parameters)
        sizes = (self.activation_bytes * self.top_k, self.key_value_bytes * self.context, self.bucket_bytes(parameters))
        if max(sizes) > MAX_COMM_SIZE:
            raise PlanError(f"a collective would have {max(sizes)} bytes; the limit of a trace is {MAX_COMM_SIZE}")

    @staticmethod
    def _check_divides(name: str, value: int, divisor_name: str, divisor: int) -> None:
        if value % divisor:
            raise PlanError(f"{name} {value} is not divisible by {divisor_name} {divisor}")


def parse_transformer(text: str) -> Transformer:
    """The model of `layers=96,tensor=8,…`.

    Raises:
        ValueError: an unknown name, a value that is not a number, or numbers that do not fit together.
    """
    known = {one.name: one for one in options_of(Transformer)}
    values: dict[str, Any] = dict(_DEFAULTS)
    for item in text.split(","):
        name, equals, value = item.strip().replace("-", "_").partition("=")
        if not equals or name not in known:
            advice = did_you_mean(name, known) if equals else ""
            raise ValueError(f"{item!r}: write NAME=VALUE with NAME one of {', '.join(known)}{advice}")
        try:
            values[name] = known[name].read(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    if "layers" not in values:
        raise ValueError("give layers=N")
    values.setdefault("batch", values.get("data", 1) * values.get("micro_batches", 1))
    try:
        return Transformer(**values)
    except PlanError as error:
        raise ValueError(str(error)) from error
