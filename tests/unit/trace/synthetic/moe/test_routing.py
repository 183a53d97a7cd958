"""Tokens between ranks: every routing against what it promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from emulator.trace.synthetic.moe.moe import Copies, MixtureOfExperts, Routing
from emulator.trace.synthetic.moe.routing import RoutedTokens, route

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
