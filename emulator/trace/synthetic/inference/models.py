"""Language models that are served: the size of their key-value cache, and the work of a prefill.

Shapes: Llama 3.1: Dubey et al., arXiv 2407.21783, table 3; DeepSeek-V3 and R1: DeepSeek-AI, arXiv 2412.19437, section
4.2 and its multi-head latent attention, whose cache is one latent vector per token and layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


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
