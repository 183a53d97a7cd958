"""Model of a mixture-of-experts transformer with expert parallelism: sizes and compute times.

Attention, router and shared experts are replicated on every rank (attention is data-parallel, as in DeepSeek-V3); the
routed experts are spread over the ranks of an expert-parallel group. A dispatch sends every token to the experts that
it chose, a combine returns what they computed (DeepSeek-AI, arXiv 2412.19437, sections 2.1.2 and 3.2).

Which experts the tokens of a group choose is known as tokens between ranks, as matrices. Random numbers come from seeds
alone, so a matrix is the same for every rank that asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from emulator.annexes.workloads.options import (
    ADAM_STATE_BYTES,
    check_ranges,
    compute_micros,
    memory_micros,
    memory_option,
    option,
    tflops_option,
)
from emulator.errors import PlanError
from emulator.trace.meaning.model import BoolArray, IntArray
from emulator.trace.synthetic.synthetic import MAX_COMM_SIZE

SCALE_BYTES = 4
"""A float32 scale per block of FP8 values (arXiv 2412.19437, section 3.3.2)."""
SCALE_BLOCK = 128
MATRICES_BYTES = 2 << 30
"""Most memory for the routing of one expert-parallel group."""


class Routing(Enum):
    """How a router spreads tokens over the experts."""

    UNIFORM = "uniform"
    ZIPF = "zipf"
    NODE_LIMITED = "node-limited"
    BALANCED = "balanced"


class Copies(Enum):
    """What receives a copy of a token: every expert that it chose, or every rank that holds any of them."""

    EXPERT = "expert"
    RANK = "rank"


class DispatchType(Enum):
    """Data type of what a dispatch carries."""

    FP8 = "fp8"
    BF16 = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfExperts:
    """Model, tokens, routing and parallelism of one iteration. The defaults are those of DeepSeek-V3.

    Attributes:
        expert: ranks of an expert-parallel group; they share the routed experts.
        hidden, sequence: hidden size, and tokens that a token attends to.
        expert_hidden: width of an expert, which has three matrices.
        dispatch: data type of dispatches; FP8 carries a float32 scale for 128 values.
        forward_only: no backward pass, gradients or optimizer: one step of inference.

    Raises:
        PlanError: a number is out of range, or does not divide as the parallelism requires.
    """

    expert: int = option("ranks that share the experts of a layer", group="parallelism")
    data: int = option("replicas of that group of ranks", default=1, group="parallelism")
    layers: int = option("layers with experts", default=58, group="model")
    tokens: int = option("tokens per rank and micro-batch", default=4096, group="model")
    micro_batches: int = option("micro-batches per iteration", default=1, group="model", is_advanced=True)
    hidden: int = option("hidden size", default=7168, group="model", is_advanced=True)
    experts: int = option("routed experts of a layer", default=256, group="model", is_advanced=True)
    top_k: int = option("experts that a token chooses", default=8, group="model", is_advanced=True)
    expert_hidden: int = option("width of an expert", default=2048, group="model", is_advanced=True)
    shared_experts: int = option("experts that every token uses", default=1, group="model", is_advanced=True)
    sequence: int = option("tokens that a token attends to", default=4096, group="model", is_advanced=True)
    dtype_bytes: int = option(
        "bytes per combined value, parameter and gradient", default=2, group="model", is_advanced=True
    )
    forward_only: bool = option("inference: no backward pass, no gradients", default=False, group="model")
    routing: Routing = option("how tokens choose experts", default=Routing.UNIFORM, group="routing")
    zipf_exponent: float = option(
        "with zipf: popularity of the i-th expert is 1 / i^X", default=1.0, group="routing", metavar="X"
    )
    expert_groups: int = option(
        "with node-limited: groups of experts (nodes)", default=8, group="routing", is_advanced=True
    )
    groups_per_token: int = option(
        "with node-limited: groups that a token may choose from", default=4, group="routing", is_advanced=True
    )
    copies: Copies = option(
        "a token is sent once for every expert, or once for every rank",
        default=Copies.EXPERT,
        group="routing",
        is_advanced=True,
    )
    seed: int = option("seed of the routing", default=0, group="routing")
    dispatch: DispatchType = option(
        "data type of dispatched tokens", default=DispatchType.FP8, group="routing", is_advanced=True
    )
    header_bytes: int = option("bytes sent with each copy of a token", default=0, group="routing", is_advanced=True)
    shard_optimizer: bool = option(
        "reduce-scatter gradients and all-gather parameters (default: all-reduce gradients)",
        default=False,
        group="parallelism",
        is_advanced=True,
    )
    device_tflops: float = tflops_option()
    device_gbytes_per_s: float = memory_option()

    def __post_init__(self) -> None:
        check_ranges(self, or_zero=("shared_experts", "header_bytes", "seed", "zipf_exponent"))
        self._check_choice()
        if self.experts % self.expert:
            raise PlanError(f"experts {self.experts} is not divisible by expert {self.expert}")
        if self.routing is Routing.NODE_LIMITED:
            self._check_groups()
        self._check_sizes()

    @property
    def ranks(self) -> int:
        """Number of ranks: `data` groups of `expert` consecutive ranks."""
        return self.expert * self.data

    @property
    def dispatch_token_bytes(self) -> int:
        """One copy of a token in a dispatch: 7168 + 56 · 4 = 7,392 with FP8 and the hidden size of DeepSeek-V3."""
        values = 2 * self.hidden
        if self.dispatch is DispatchType.FP8:
            values = self.hidden + math.ceil(self.hidden / SCALE_BLOCK) * SCALE_BYTES
        return values + self.header_bytes

    @property
    def combine_token_bytes(self) -> int:
        """One copy of a token in a combine: 2 · 7168 = 14,336 with the hidden size of DeepSeek-V3."""
        return self.hidden * self.dtype_bytes

    @property
    def dense_parameters(self) -> int:
        """Parameters of a layer that every rank holds: attention 4h², router hE, shared experts 3hf each, norms 2h."""
        h = self.hidden
        return 4 * h * h + h * self.experts + 3 * h * self.expert_hidden * self.shared_experts + 2 * h

    @property
    def expert_parameters(self) -> int:
        """Parameters of the routed experts of a layer on one rank: 3hf each."""
        return self.experts // self.expert * 3 * self.hidden * self.expert_hidden

    def bucket_bytes(self, parameters: int, *, replicas: int) -> int:
        """Gradients of parameters that so many ranks hold; with a sharded optimizer padded to equal shards."""
        shards = replicas if self.shard_optimizer else 1
        return math.ceil(parameters / shards) * shards * self.dtype_bytes

    def attention_micros(self) -> int:
        """Forward pass of attention and router, µs: 8h² + 4sh and 2hE operations a token."""
        h = self.hidden
        flops = self.tokens * (8 * h * h + 4 * self.sequence * h + 2 * h * self.experts)
        return compute_micros(flops, tflops=self.device_tflops)

    def experts_micros(self, selections: int) -> int:
        """Forward pass of experts for so many (token, expert) pairs, µs: three matrices, 6hf operations a pair."""
        return compute_micros(6 * self.hidden * self.expert_hidden * selections, tflops=self.device_tflops)

    def optimizer_micros(self) -> int:
        """Optimizer step of a rank, µs; it is bound by memory: ADAM_STATE_BYTES, gradient and parameter."""
        dense, experts = self.layers * self.dense_parameters, self.layers * self.expert_parameters
        if self.shard_optimizer:
            dense, experts = dense // self.ranks, experts // self.data
        size = (dense + experts) * (ADAM_STATE_BYTES + 2 * self.dtype_bytes)
        return memory_micros(size, gbytes_per_s=self.device_gbytes_per_s)

    def _check_choice(self) -> None:
        if self.top_k > self.experts:
            raise PlanError(f"top_k {self.top_k} is more than the {self.experts} experts")

    def _check_groups(self) -> None:
        if self.experts % self.expert_groups:
            raise PlanError(f"experts {self.experts} is not divisible by expert_groups {self.expert_groups}")
        allowed = self.experts // self.expert_groups * self.groups_per_token
        if self.groups_per_token > self.expert_groups or allowed < self.top_k:
            raise PlanError(
                f"a token would choose {self.top_k} of {allowed} experts in {self.groups_per_token} of "
                f"{self.expert_groups} groups"
            )

    def _check_sizes(self) -> None:
        largest = self.tokens * self.expert * self.top_k * max(self.dispatch_token_bytes, self.combine_token_bytes)
        largest = max(largest, *(2 * self.dtype_bytes * (p + self.ranks) for p in self._parameters))
        if largest > MAX_COMM_SIZE:
            raise PlanError(f"a collective would have {largest} bytes; the limit of a trace is {MAX_COMM_SIZE}")
        matrices = self.layers * self.micro_batches * self.expert**2 * 4
        if matrices > MATRICES_BYTES:
            raise PlanError(
                f"the routing of {self.expert} ranks in {self.layers} layers and {self.micro_batches} micro-batches "
                f"takes {matrices >> 20} MiB; at most {MATRICES_BYTES >> 20} are supported: make fewer layers"
            )

    @property
    def _parameters(self) -> tuple[int, int]:
        return self.dense_parameters, self.expert_parameters


ROWS_AT_ONCE = 1 << 14
"""Tokens whose scores are drawn together; with 256 experts they take 16 MiB."""
REDRAWS = 8
"""Times that an expert chosen twice is drawn again from all experts, before it is drawn from the others alone."""

FloatArray = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RoutedTokens:
    """What one dispatch moves.

    Attributes:
        copies: int32, shape (ranks, ranks): copies of tokens from the rank of a row to that of a column.
        selections: int64, shape (ranks,): (token, expert) pairs that the experts of a rank compute.
    """

    copies: npt.NDArray[np.int32]
    selections: IntArray


def route(model: MixtureOfExperts, *, group: int, layer: int, micro_batch: int) -> RoutedTokens:
    """The tokens of one group in one layer; the popular experts of a layer are the same for all of them."""
    rng = np.random.default_rng([model.seed, 1, group, layer, micro_batch])
    chosen = _CHOOSERS[model.routing](model, rng, layer) // (model.experts // model.expert)
    source = np.repeat(np.arange(model.expert, dtype=np.int64), model.tokens)
    selections = np.bincount(chosen.ravel(), minlength=model.expert)
    if model.copies is Copies.RANK:
        chosen, source = _distinct(chosen, source)
    else:
        chosen, source = chosen.ravel(), np.repeat(source, model.top_k)
    pairs = np.bincount(source * model.expert + chosen, minlength=model.expert**2)
    return RoutedTokens(pairs.reshape(model.expert, model.expert).astype(np.int32), selections.astype(np.int64))


def _distinct(chosen: IntArray, source: IntArray) -> tuple[IntArray, IntArray]:
    """Each rank at most once per token: (chosen, source) of the pairs that remain."""
    ordered = np.sort(chosen, axis=1)
    is_first = np.ones(ordered.shape, dtype=np.bool_)
    is_first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return ordered[is_first], np.repeat(source, is_first.sum(axis=1))


def _uniform(model: MixtureOfExperts, rng: np.random.Generator, layer: int) -> IntArray:
    del layer  # no expert is more popular than another
    return _weighted(model, rng, np.ones(model.experts))


def _zipf(model: MixtureOfExperts, rng: np.random.Generator, layer: int) -> IntArray:
    order = np.random.default_rng([model.seed, 0, layer]).permutation(model.experts)
    return _weighted(model, rng, (1.0 + order) ** -model.zipf_exponent)


def _weighted(model: MixtureOfExperts, rng: np.random.Generator, weights: FloatArray) -> IntArray:
    """Distinct experts one after the other, each in proportion to its weight among those that are left."""
    rows = model.expert * model.tokens
    bounds = np.cumsum(weights / weights.sum())
    bounds[-1] = 1.0
    chosen = np.full((rows, model.top_k), -1, dtype=np.int64)
    for column in range(model.top_k):
        left = np.arange(rows)
        for _ in range(REDRAWS):
            drawn = np.searchsorted(bounds, rng.random(len(left)), side="right")
            is_new = (chosen[left, :column] != drawn[:, None]).all(axis=1)
            chosen[left[is_new], column] = drawn[is_new]
            left = left[~is_new]
        for some in _parts(left):
            chosen[some, column] = _among_others(rng, weights, chosen[some, :column])
    return chosen


def _among_others(rng: np.random.Generator, weights: FloatArray, taken: IntArray) -> IntArray:
    """An expert per row that the row has not taken: the first of exponential clocks whose rates are the weights."""
    times = -np.log1p(-rng.random((len(taken), len(weights)))) / weights
    np.put_along_axis(times, taken, np.inf, axis=1)
    found: IntArray = times.argmin(axis=1)
    return found


def _node_limited(model: MixtureOfExperts, rng: np.random.Generator, layer: int) -> IntArray:
    """DeepSeek-V3's gate on random scores: the groups with the largest sum of their two best, then the best experts."""
    del layer
    chosen = np.empty((model.expert * model.tokens, model.top_k), dtype=np.int64)
    for rows in _parts(np.arange(len(chosen))):
        scores = rng.random((len(rows), model.expert_groups, model.experts // model.expert_groups), dtype=np.float32)
        two_best = np.partition(scores, -min(2, scores.shape[2]), axis=2)[:, :, -2:].sum(axis=2)
        scores[~_is_largest(two_best, model.groups_per_token)] = -1.0
        flat = scores.reshape(len(rows), -1)
        chosen[rows] = np.argpartition(flat, -model.top_k, axis=1)[:, -model.top_k :]
    return chosen


def _is_largest(values: FloatArray, count: int) -> BoolArray:
    found = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(found, np.argpartition(values, -count, axis=1)[:, -count:], True, axis=1)
    return found


def _balanced(model: MixtureOfExperts, rng: np.random.Generator, layer: int) -> IntArray:
    """Every expert in turn, so that the experts of a layer differ by one token at most."""
    del rng, layer
    selections = np.arange(model.expert * model.tokens * model.top_k, dtype=np.int64)
    return (selections % model.experts).reshape(-1, model.top_k)


def _parts(rows: IntArray) -> list[IntArray]:
    return [rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE)]


_CHOOSERS: Mapping[Routing, Callable[[MixtureOfExperts, np.random.Generator, int], IntArray]] = {
    Routing.UNIFORM: _uniform,
    Routing.ZIPF: _zipf,
    Routing.NODE_LIMITED: _node_limited,
    Routing.BALANCED: _balanced,
}
