"""Disaggregated inference: workers that prefill prompts hand the key-value cache to workers that decode.

Splitting the two phases over pools: Zhong et al., DistServe, OSDI'24; Qin et al., Mooncake, FAST'25.

Shapes of the models that are served: Llama 3.1: Dubey et al., arXiv 2407.21783, table 3; DeepSeek-V3 and R1:
DeepSeek-AI, arXiv 2412.19437, section 4.2 and its multi-head latent attention, whose cache is one latent vector per
token and layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np

from emulator.annexes.workloads.options import check_ranges, compute_micros, described, option, tflops_option
from emulator.errors import PlanError
from emulator.trace.meaning.program import MAX_MICROS
from emulator.units import US_PER_S


class ServedModel(Enum):
    """Models by the names of their publishers."""

    LLAMA_8B = "llama-3.1-8b"
    LLAMA_70B = "llama-3.1-70b"
    LLAMA_405B = "llama-3.1-405b"
    DEEPSEEK_R1 = "deepseek-r1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What the traffic of a model follows from.

    Attributes:
        kv_heads: heads of keys and values, which tensor parallelism spreads; 1: every rank holds all of it.
        kv_values: values in the cache per token, layer and head of keys and values.
        attention_width: heads times head size of the queries.
        parameters: used for a token.
    """

    layers: int
    kv_heads: int
    kv_values: int
    attention_width: int
    parameters: int

    def head_bytes(self, value_bytes: int) -> int:
        """Cache of a token for one head of keys and values in all layers."""
        return self.layers * self.kv_values * value_bytes

    def token_bytes(self, value_bytes: int) -> int:
        """Cache of a token: 2 · 80 · 8 · 128 · 2 = 327,680 for Llama 3.1 70B, 61 · (512 + 64) · 2 = 70,272 for R1."""
        return self.kv_heads * self.head_bytes(value_bytes)

    def prefill_flops(self, *, tokens: int, cached: int) -> int:
        """Operations to compute `tokens` that follow `cached` ones: two a parameter, and four a value of attention."""
        attended = tokens * cached + tokens * (tokens + 1) // 2
        return 2 * self.parameters * tokens + 4 * self.layers * self.attention_width * attended


def _llama(layers: int, hidden: int, parameters: int) -> ModelShape:
    return ModelShape(layers=layers, kv_heads=8, kv_values=2 * 128, attention_width=hidden, parameters=parameters)


MODEL_SHAPES: Mapping[ServedModel, ModelShape] = {
    ServedModel.LLAMA_8B: _llama(32, 4096, 8_030_000_000),
    ServedModel.LLAMA_70B: _llama(80, 8192, 70_600_000_000),
    ServedModel.LLAMA_405B: _llama(126, 16384, 405_900_000_000),
    # A latent vector of 512 and a rotary key of 64; 128 heads with 192 values to score and 128 to sum, 160 on average.
    ServedModel.DEEPSEEK_R1: ModelShape(
        layers=61, kv_heads=1, kv_values=512 + 64, attention_width=128 * 160, parameters=37_000_000_000
    ),
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        at_micros: arrival, µs after the first request.
        input_length, output_length: tokens.
        blocks: names of the blocks of the prompt: equal names are equal prefixes. Empty: it shares none.
    """

    at_micros: int
    input_length: int
    output_length: int
    blocks: Sequence[int] = ()


def poisson_requests(job: Inference) -> Iterator[Request]:
    """Requests of a Poisson process, with exponentially distributed lengths of at least one token; the first at 0.

    Raises:
        PlanError: they take longer than a trace can say.
    """
    rng = np.random.default_rng(job.seed)
    assert job.rate is not None
    at_seconds = 0.0
    for number in range(job.poisson_requests):
        gap, prompt, answer = (-math.log1p(-draw) for draw in rng.random(3).tolist())
        at_seconds += gap / job.rate if number else 0.0
        at_micros = _checked(round(at_seconds * US_PER_S))
        yield Request(at_micros, _tokens(prompt * job.input_length), _tokens(answer * job.output_length))


def played_requests(job: Inference, found: Sequence[Request]) -> list[Request]:
    """The requests of a file that are played, from time 0 on, at the speed of the job.

    Raises:
        PlanError: there are none, or too many, or they take longer than a trace can say.
    """
    chosen = found[: job.requests]
    if not chosen:
        raise PlanError("there is no request in the file")
    if len(chosen) > MAX_REQUESTS:
        raise PlanError(f"{len(chosen)} requests: at most {MAX_REQUESTS} are supported")
    first = chosen[0].at_micros
    _checked(round((chosen[-1].at_micros - first) / job.speed))
    return [replace(one, at_micros=round((one.at_micros - first) / job.speed)) for one in chosen]


def _tokens(drawn: float) -> int:
    return max(1, math.ceil(drawn))


def _checked(at_micros: int) -> int:
    if at_micros > MAX_MICROS:
        raise PlanError(f"a request would arrive after {at_micros:.3g} µs; the limit of a trace is {MAX_MICROS}")
    return at_micros


MAX_REQUESTS = (1 << 31) - 1
"""A request's number is the tag of its messages, which a trace keeps as int32."""


class PrefixCache(Enum):
    """Who remembers blocks: each worker for itself, the workers of a pool together, or nobody."""

    WORKER = "worker"
    POOL = "pool"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """Pools, model and requests. Ranks: those of the prefill workers, then those of the decode workers.

    Attributes:
        trace: file with the requests; None: a Poisson process.
        requests: how many; None: all of the file.
        rate: arrivals a second of the Poisson process.
        input_length, output_length: mean tokens of its requests; exponentially distributed.
        speed: factor by which the requests of the file arrive faster.
        prefix_cache, cache_blocks: who remembers how many blocks, the least recently used go first; None: all.

    Raises:
        PlanError: a number is out of range, heads do not divide over ranks, or the source of requests is not clear.
    """

    prefill: int = option("prefill workers", default=1, group="pools")
    prefill_tensor: int = option("ranks of a prefill worker", default=1, group="pools")
    decode: int = option("decode workers", default=1, group="pools")
    decode_tensor: int = option("ranks of a decode worker", default=1, group="pools")
    model: ServedModel = option(
        "llama-3.1-8b, -70b, -405b or deepseek-r1", default=ServedModel.LLAMA_70B, group="pools", metavar="MODEL"
    )
    trace: Path | None = option(
        "requests as JSON lines, in Mooncake's format", default=None, group="requests", metavar="FILE", read=Path
    )
    rate: float | None = option(
        "or a Poisson process: requests per second", default=None, group="requests", metavar="R"
    )
    requests: int | None = option("number of requests", default=None, group="requests", unset="all, or 100")
    speed: float = option("requests of the file arrive X times as fast", default=1.0, group="requests", metavar="X")
    input_length: float = option("with --rate: mean prompt, tokens", default=8192.0, group="requests")
    output_length: float = option("with --rate: mean answer, tokens", default=512.0, group="requests", is_advanced=True)
    seed: int = option("with --rate: seed", default=0, group="requests", is_advanced=True)
    prefix_cache: PrefixCache = option(
        "who caches blocks, which are then not sent again", default=PrefixCache.WORKER, group="cache", is_advanced=True
    )
    cache_blocks: int | None = option(
        "size of the cache in blocks", default=None, group="cache", is_advanced=True, unset="all"
    )
    block_tokens: int = option("tokens per block in the file", default=512, group="cache", is_advanced=True)
    kv_value_bytes: int = option("bytes per value in the cache", default=2, group="cache", is_advanced=True)
    device_tflops: float = tflops_option()

    def __post_init__(self) -> None:
        check_ranges(self, or_zero=("seed",))
        if self.requests is not None and self.requests > MAX_REQUESTS:
            raise PlanError(f"requests is {self.requests}: at most {MAX_REQUESTS} are supported")
        if (self.trace is None) == (self.rate is None):
            raise PlanError("give either a file of requests (--trace FILE) or the rate of a Poisson process (--rate R)")
        for name in ("prefill_tensor", "decode_tensor"):
            ranks, heads = getattr(self, name), self.shape.kv_heads
            if ranks % heads and heads % ranks:
                raise PlanError(f"{name} {ranks} neither divides the {heads} key-value heads nor is divided by them")

    @property
    def shape(self) -> ModelShape:
        """Of the model."""
        return MODEL_SHAPES[self.model]

    @property
    def ranks(self) -> int:
        """Ranks of both pools."""
        return self.prefill * self.prefill_tensor + self.decode * self.decode_tensor

    @property
    def poisson_requests(self) -> int:
        """Number of requests of a Poisson process."""
        return self.requests or 100

    def prefill_micros(self, *, tokens: int, cached: int) -> int:
        """How long a worker computes `tokens` that follow `cached` ones, µs."""
        flops = self.shape.prefill_flops(tokens=tokens, cached=cached)
        return compute_micros(flops / self.prefill_tensor, tflops=self.device_tflops)

    def described(self) -> dict[str, int | str]:
        """What is set, as names and plain values; of the file its name alone."""
        return described(self) | ({"trace": self.trace.name} if self.trace else {})
