"""Which experts the tokens of an expert-parallel group choose: tokens between ranks, as matrices.

Random numbers come from seeds alone, so a matrix is the same for every rank that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.trace.meaning.model import BoolArray, IntArray
from emulator.trace.synthetic.moe.moe import Copies, MixtureOfExperts, Routing

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
