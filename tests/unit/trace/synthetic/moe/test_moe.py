"""Sizes of a mixture of experts against published figures, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.errors import PlanError
from emulator.trace.synthetic.moe.moe import DispatchType, MixtureOfExperts, Routing

V3 = MixtureOfExperts(expert=64, tokens=128)


def test_bytes_are_those_published_for_deepep() -> None:
    """Low-latency kernels: 128 tokens, hidden 7168, top 8, FP8 dispatch and BF16 combine; DeepEP, docs/legacy.md."""
    copies = 128 * 8
    assert copies * V3.dispatch_token_bytes == 7_569_408  # 7.57 MB
    assert copies * V3.combine_token_bytes == 14_680_064  # 14.7 MB
    assert replace(V3, header_bytes=16).dispatch_token_bytes == 7168 + 7168 // 128 * 4 + 16  # its tests count this
    # Its table has latencies and bandwidths; their products are the bytes, rounded to whole GB/s. Its tests leave out
    # up to ten of the 1,024 copies.
    for micros, gbytes_per_s in ((77, 98), (192, 39), (194, 39)):
        assert copies * V3.dispatch_token_bytes == pytest.approx(micros * gbytes_per_s * 1e3, rel=0.02)
    for micros, gbytes_per_s in ((114, 127), (195, 74), (273, 53), (314, 46), (369, 39), (360, 40)):
        assert copies * V3.combine_token_bytes == pytest.approx(micros * gbytes_per_s * 1e3, rel=0.025)


def test_a_bf16_dispatch_carries_no_scales() -> None:
    assert replace(V3, dispatch=DispatchType.BF16).dispatch_token_bytes == V3.combine_token_bytes


def test_parameters_of_a_layer_are_those_of_deepseek_v3() -> None:
    """256 experts of 3 · 7168 · 2048, and one shared: 11.3 10⁹ parameters a layer (arXiv 2412.19437, section 4.2)."""
    assert replace(V3, expert=1).expert_parameters == 256 * 3 * 7168 * 2048
    assert V3.expert_parameters == 4 * 3 * 7168 * 2048
    assert V3.dense_parameters == 4 * 7168**2 + 7168 * 256 + 3 * 7168 * 2048 + 2 * 7168


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"expert": 48}, "experts 256 is not divisible by expert 48"),
        ({"tokens": 0}, "tokens is 0: it must be greater than 0"),
        ({"seed": -1}, "seed is -1: it must be at least 0"),
        ({"top_k": 300}, "top_k 300 is more than the 256 experts"),
        ({"routing": Routing.NODE_LIMITED, "expert_groups": 7}, "not divisible by expert_groups 7"),
        ({"routing": Routing.NODE_LIMITED, "top_k": 40, "groups_per_token": 1}, "choose 40 of 32 experts in 1 of 8"),
        ({"expert": 256, "micro_batches": 1000}, "make fewer layers"),
        ({"tokens": 1 << 40}, "the limit of a trace"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], problem: str) -> None:
    with pytest.raises(PlanError, match=r".") as refused:
        replace(V3, **change)  # type: ignore[arg-type]
    assert problem in str(refused.value)
