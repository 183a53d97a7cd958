"""Model of a dense transformer in training: message sizes and compute times that follow from its dimensions.

Sizes are those of Megatron-LM (Shoeybi et al., arXiv 1909.08053; Narayanan et al., SC'21, arXiv 2104.04473): tensor
parallelism splits the matrices of attention and MLP and the vocabulary. Biases of the second matrices and layer norms
are replicated. Position embeddings are on the first stage, and the output layer shares the word embedding. The final
layer norm (2h parameters) is left out, as in the parameter count of SC'21.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from emulator.errors import PlanError
from emulator.planner.workloads.device import (
    ADAM_STATE_BYTES,
    compute_micros,
    memory_micros,
    memory_option,
    tflops_option,
)
from emulator.planner.workloads.layout import Layout
from emulator.planner.workloads.options import described, option
from emulator.planner.workloads.pipeline_schedule import PipelineSchedule
from emulator.planner.workloads.synthetic import MAX_COMM_SIZE

LOSS_BYTES = 4
"""Losses, gradient norms and the softmax of the loss are float32 for any data type of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Model, batch, parallelism and device of a training iteration.

    Attributes:
        layers, hidden, sequence, vocabulary: l, h, s and V in the papers.
        batch: B, sequences per iteration over all data-parallel replicas.
        micro_batches: number of micro-batches per replica.
        ffn_multiplier: width of the MLP as a multiple of hidden.
        dtype_bytes: bytes of an activation, a parameter and a gradient.
        tensor, pipeline, data: degrees of parallelism; their product is the number of ranks.
        schedule: pipeline schedule.
        recompute: repeat the forward pass of each layer before its backward pass (full activation recomputation).
        shard_optimizer: reduce-scatter gradients and all-gather parameters, in place of all-reducing gradients.
        device_tflops: compute rate that a device achieves, 10¹² floating-point operations per second.
        device_gbytes_per_s: memory bandwidth that a device achieves, 10⁹ bytes per second.

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
    tensor: int = option("tensor parallelism", default=1, group="parallelism")
    pipeline: int = option("pipeline parallelism", default=1, group="parallelism")
    data: int = option("data parallelism", default=1, group="parallelism")
    schedule: PipelineSchedule = option(
        "order of micro-batches in a pipeline stage",
        default=PipelineSchedule.ONE_F_ONE_B,
        group="parallelism",
        is_advanced=True,
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
        self._check_positive()
        self._check_divides("layers", self.layers, "pipeline", self.pipeline)
        self._check_divides("hidden", self.hidden, "tensor", self.tensor)
        self._check_divides("vocabulary", self.vocabulary, "tensor", self.tensor)
        self._check_divides("batch", self.batch, "data x micro_batches", self.data * self.micro_batches)
        self._check_sizes()

    @property
    def layout(self) -> Layout:
        """Layout of the ranks."""
        return Layout(self.tensor, self.data, self.pipeline)

    @property
    def micro_batch_tokens(self) -> int:
        """Number of tokens of a micro-batch."""
        return self.batch // (self.data * self.micro_batches) * self.sequence

    @property
    def activation_bytes(self) -> int:
        """Output of a layer for one micro-batch, which tensor ranks all-reduce and stages send."""
        return self.micro_batch_tokens * self.hidden * self.dtype_bytes

    @property
    def softmax_bytes(self) -> int:
        """One float32 per token of a micro-batch; the vocabulary-parallel loss all-reduces it three times."""
        return self.micro_batch_tokens * LOSS_BYTES

    @property
    def layer_parameters(self) -> int:
        """Parameters of a layer on one tensor rank; 12h² + 13h with tensor 1 and an MLP of 4h."""
        h, f = self.hidden, self.ffn_multiplier
        return ((4 + 2 * f) * h * h + (3 + f) * h) // self.tensor + 6 * h

    @property
    def word_embedding_parameters(self) -> int:
        """Parameters of the word embedding on one tensor rank: Vh / t."""
        return self.vocabulary * self.hidden // self.tensor

    @property
    def embedding_parameters(self) -> int:
        """Parameters of word and position embeddings on one tensor rank of the first stage: Vh / t + sh."""
        return self.word_embedding_parameters + self.sequence * self.hidden

    def bucket_bytes(self, parameters: int) -> int:
        """Bytes of the gradients of `parameters` parameters; with a sharded optimizer padded to equal shards."""
        shards = self.data if self.shard_optimizer else 1
        return math.ceil(parameters / shards) * shards * self.dtype_bytes

    def stage_parameters(self, stage: int) -> int:
        """Parameters on one tensor rank of a stage, including the copy of the word embedding on the last stage."""
        held = self.layers // self.pipeline * self.layer_parameters
        held += self.embedding_parameters if stage == 0 else 0
        return held + (self.word_embedding_parameters if 0 < stage == self.pipeline - 1 else 0)

    def described(self) -> dict[str, int | str]:
        """All parameters as names and plain values."""
        return described(self)

    def _check_positive(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < math.inf:
                raise PlanError(f"{field.name} is {value}: it must be greater than 0")

    def _check_sizes(self) -> None:
        largest = max(self.activation_bytes, self.bucket_bytes(max(self.layer_parameters, self.embedding_parameters)))
        if largest > MAX_COMM_SIZE:
            raise PlanError(f"a collective would have {largest} bytes; the limit of a trace is {MAX_COMM_SIZE}")

    @staticmethod
    def _check_divides(name: str, value: int, divisor_name: str, divisor: int) -> None:
        if value % divisor:
            raise PlanError(f"{name} {value} is not divisible by {divisor_name} {divisor}")


@dataclass(frozen=True, slots=True)
class ComputeTimes:
    """Durations of a rank's compute nodes for one micro-batch, µs, each at least 1.

    Attributes:
        attention, mlp: forward pass of half a layer; the backward pass takes twice as long.
        head: forward pass of the output layer; the backward pass takes twice as long.
        embedding: looking up the embeddings; accumulating their gradients takes as long.
    """

    attention: int
    mlp: int
    head: int
    embedding: int


def compute_times(model: Transformer) -> ComputeTimes:
    """Durations of the compute nodes, from their operations and the rates that the device achieves.

    A matrix of p parameters takes 2p operations per token forward and 4p backward. Per token and layer, that is 8h² for
    the four matrices of attention, 4sh for the scores and their use, and 4fh² for an MLP of width fh; 2hV for the
    output layer. With f = 4, the sums are the 24Bsh² + 4Bs²h per layer and 2BshV of Narayanan et al., SC'21, appendix.
    Embedding lookups are bound by memory: every activation is read once and written once.
    """
    h, tokens = model.hidden, model.micro_batch_tokens
    return ComputeTimes(
        attention=_compute_micros(model, tokens * (8 * h * h + 4 * model.sequence * h)),
        mlp=_compute_micros(model, tokens * 4 * model.ffn_multiplier * h * h),
        head=_compute_micros(model, tokens * 2 * h * model.vocabulary),
        embedding=_memory_micros(model, 2 * model.activation_bytes),
    )


def optimizer_micros(model: Transformer, stage: int) -> int:
    """Duration of the optimizer step of a stage, µs. It is bound by memory: ADAM_STATE_BYTES, gradient, parameter."""
    parameters = model.stage_parameters(stage) // (model.data if model.shard_optimizer else 1)
    return _memory_micros(model, parameters * (ADAM_STATE_BYTES + 2 * model.dtype_bytes))


def iteration_flops(model: Transformer) -> int:
    """Floating-point operations of one iteration over all ranks.

    72Blsh²(1 + s/6h) + 6BshV for an MLP of 4h; with recomputation, 96 in place of 72.

    Source: Narayanan et al., SC'21, equation 3 and appendix.
    """
    h, s, tokens = model.hidden, model.sequence, model.batch * model.sequence
    layer = (8 + 4 * model.ffn_multiplier) * h * h + 4 * s * h
    passes = 4 if model.recompute else 3
    return tokens * (passes * model.layers * layer + 6 * h * model.vocabulary)


def parameter_count(model: Transformer) -> int:
    """Parameters of the whole model: 12lh²(1 + 13/12h + (V + s)/12lh) for an MLP of 4h.

    Source: Narayanan et al., SC'21, equation 2.
    """
    h, f = model.hidden, model.ffn_multiplier
    return model.layers * ((4 + 2 * f) * h * h + (9 + f) * h) + (model.vocabulary + model.sequence) * h


def _compute_micros(model: Transformer, flops: int) -> int:
    return compute_micros(flops / model.tensor, tflops=model.device_tflops)


def _memory_micros(model: Transformer, size_bytes: int) -> int:
    return memory_micros(size_bytes, gbytes_per_s=model.device_gbytes_per_s)
