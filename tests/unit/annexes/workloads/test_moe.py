"""Sizes of a mixture of experts against published figures, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from emulator.annexes.workloads.moe import Copies, DispatchType, MixtureOfExperts, RoutedTokens, Routing, route
from emulator.errors import PlanError

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


ROUTER = MixtureOfExperts(
    routing=Routing.UNIFORM, experts=64, top_k=4, tokens=256, expert=8, expert_groups=8, groups_per_token=2, seed=7
)


def _routed(routing: Routing, copies: Copies = Copies.EXPERT, **place: int) -> RoutedTokens:
    at = {"group": 0, "layer": 0, "micro_batch": 0} | place
    return route(replace(ROUTER, routing=routing, copies=copies), **at)


@pytest.mark.parametrize("routing", Routing)
def test_every_token_goes_to_as_many_experts_as_it_chooses(routing: Routing) -> None:
    found = _routed(routing)
    assert (found.copies.sum(axis=1) == ROUTER.tokens * ROUTER.top_k).all()
    assert (found.copies.sum(axis=0) == found.selections).all()


@pytest.mark.parametrize("routing", Routing)
def test_a_rank_receives_a_token_once_for_all_its_experts(routing: Routing) -> None:
    found, whole = _routed(routing, Copies.RANK), _routed(routing)
    assert (found.copies <= ROUTER.tokens).all()
    assert (found.copies <= whole.copies).all()
    assert found.copies.sum() < whole.copies.sum()
    assert (found.selections == whole.selections).all()


def test_uniform_experts_get_the_mean_and_zipf_favours_few() -> None:
    mean = ROUTER.tokens * ROUTER.top_k
    uniform, zipf = _routed(Routing.UNIFORM).selections, _routed(Routing.ZIPF).selections
    assert np.abs(uniform - mean).max() < 0.2 * mean
    assert zipf.max() > 1.5 * mean


def test_balanced_ranks_differ_by_a_token_for_each_expert_at_most() -> None:
    assert (
        np.ptp(route(replace(ROUTER, routing=Routing.BALANCED, tokens=13), group=0, layer=0, micro_batch=0).selections)
        <= ROUTER.experts // ROUTER.expert
    )


def test_a_node_limited_token_reaches_so_many_groups_at_most() -> None:
    """Each rank holds one group of experts here, so a token has at most two copies by rank."""
    found = _routed(Routing.NODE_LIMITED, Copies.RANK)
    assert found.copies.sum() <= 8 * ROUTER.tokens * ROUTER.groups_per_token
    assert _routed(Routing.UNIFORM, Copies.RANK).copies.sum() > 8 * ROUTER.tokens * ROUTER.groups_per_token


def test_a_seed_and_a_place_say_it_all() -> None:
    first = _routed(Routing.ZIPF).copies
    assert (_routed(Routing.ZIPF).copies == first).all()
    for place in ("group", "layer", "micro_batch"):
        assert (_routed(Routing.ZIPF, **{place: 1}).copies != first).any()
    assert (route(replace(ROUTER, routing=Routing.ZIPF, seed=8), group=0, layer=0, micro_batch=0).copies != first).any()


def test_the_popular_experts_of_a_layer_are_the_same_for_every_group() -> None:
    busiest = [int(_routed(Routing.ZIPF, group=group).selections.argmax()) for group in range(5)]
    assert len(set(busiest)) == 1


def test_experts_are_distinct_even_where_nearly_all_weight_is_on_a_few() -> None:
    steep = replace(ROUTER, routing=Routing.ZIPF, zipf_exponent=12.0, expert=64, tokens=40)
    found = route(steep, group=0, layer=0, micro_batch=0)
    assert found.selections.max() <= 64 * 40  # a rank holds one expert: no token chose it twice
    assert found.selections.sum() == 64 * 40 * steep.top_k
