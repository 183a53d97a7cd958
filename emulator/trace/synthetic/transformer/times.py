"""How long the nodes of a transformer compute."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.trace.synthetic.device import ADAM_STATE_BYTES, compute_micros, memory_micros
from emulator.trace.synthetic.transformer.transformer import Transformer


@dataclass(frozen=True, slots=True)
class ComputeTimes:
    """Durations of a rank's compute nodes for one micro-batch, µs, each at least 1.

    Attributes:
        attention, mlp: forward pass of half a layer; the backward pass takes twice as long. So it does for the others.
        queries, scores, projection: parts of attention, where context ranks exchange keys and values in between: the
            matrices before, the scores of one rank's keys and values, and the matrix after.
        router: choice of the experts.
        head: forward pass of the output layer.
        embedding: looking up the embeddings; accumulating their gradients takes as long.
    """

    attention: int
    mlp: int
    head: int
    embedding: int
    queries: int
    scores: int
    projection: int
    router: int


def compute_times(model: Transformer) -> ComputeTimes:
    """Durations of the compute nodes, from their operations and the rates that the device achieves.

    A matrix of p parameters takes 2p operations per token forward and 4p backward. Per token and layer, that is 8h² for
    the four matrices of attention, 4sh for the scores and their use, and 4fh² for an MLP of width fh; 2hV for the
    output layer. With f = 4, the sums are the 24Bsh² + 4Bs²h per layer and 2BshV of Narayanan et al., SC'21, appendix.
    A token takes as many MLPs as it uses experts, and 2hE to choose them. Embedding lookups are bound by memory: every
    activation is read once and written once.
    """
    h, s, tokens = model.hidden, model.sequence, model.micro_batch_tokens
    return ComputeTimes(
        attention=_compute_micros(model, tokens * (8 * h * h + 4 * s * h)),
        mlp=_compute_micros(model, tokens * model.top_k * 4 * model.ffn_multiplier * h * h),
        head=_compute_micros(model, tokens * 2 * h * model.vocabulary),
        embedding=memory_micros(2 * model.activation_bytes, gbytes_per_s=model.device_gbytes_per_s),
        queries=_compute_micros(model, tokens * 6 * h * h),
        scores=_compute_micros(model, tokens * 4 * s * h // model.context),
        projection=_compute_micros(model, tokens * 2 * h * h),
        router=_compute_micros(model, tokens * 2 * h * model.experts),
    )


def optimizer_micros(model: Transformer, stage: int) -> int:
    """Duration of the optimizer step of a stage, µs. It is bound by memory: ADAM_STATE_BYTES, gradient, parameter."""
    parameters, experts = model.stage_parameters(stage), model.stage_expert_parameters
    if model.shard_optimizer:
        parameters, experts = parameters // model.layout.replicas, experts // model.layout.expert_replicas
    size_bytes = (parameters + experts) * (ADAM_STATE_BYTES + 2 * model.dtype_bytes)
    return memory_micros(size_bytes, gbytes_per_s=model.device_gbytes_per_s)


def _compute_micros(model: Transformer, flops: int) -> int:
    return compute_micros(flops / model.tensor, tflops=model.device_tflops)
