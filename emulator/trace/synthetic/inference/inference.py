"""Disaggregated inference: workers that prefill prompts hand the key-value cache to workers that decode.

Splitting the two phases over pools: Zhong et al., DistServe, OSDI'24; Qin et al., Mooncake, FAST'25.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from emulator.errors import PlanError
from emulator.trace.synthetic.device import compute_micros, tflops_option
from emulator.trace.synthetic.inference.models import MODEL_SHAPES, ModelShape, ServedModel
from emulator.trace.synthetic.options import check_ranges, described, option

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
