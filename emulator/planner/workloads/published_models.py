"""Published dense models whose parameters are counted from their architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
