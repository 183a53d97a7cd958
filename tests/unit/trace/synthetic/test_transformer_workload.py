"""Totals of a transformer against the formulas of docs/generate.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.options import described
from emulator.trace.synthetic.synthetic import GroupRole
from emulator.trace.synthetic.transformer import Transformer
from emulator.trace.synthetic.transformer_workload import transformer_workload

MODEL = Transformer(
    layers=6, hidden=8, sequence=16, batch=24, micro_batches=4, vocabulary=64, tensor=2, pipeline=3, data=2
)
l, h, s, V, f, e = MODEL.layers, MODEL.hidden, MODEL.sequence, MODEL.vocabulary, 4, 2  # noqa: E741
t, p, d, m = MODEL.tensor, MODEL.pipeline, MODEL.data, MODEL.micro_batches
b = MODEL.batch // (d * m)


def counted(model: Transformer) -> Counter[tuple[GroupRole, CommKind, int]]:
    found: Counter[tuple[GroupRole, CommKind, int]] = Counter()
    for entry in transformer_workload(model).totals.traffic:
        found[entry.role, entry.kind, entry.size_bytes] += entry.operations
    return found


def test_operations_and_sizes_are_those_of_the_page() -> None:
    layer_bytes = e * (((4 + 2 * f) * h * h + (3 + f) * h) // t + 6 * h)
    assert counted(MODEL) == {
        (GroupRole.TENSOR, CommKind.ALL_REDUCE, b * s * h * e): d * m * (4 * l + 2),
        (GroupRole.TENSOR, CommKind.ALL_REDUCE, 4 * b * s): 3 * d * m,
        (GroupRole.PIPELINE, CommKind.SEND, b * s * h * e): 2 * d * t * m * (p - 1),
        (GroupRole.PIPELINE, CommKind.RECV, b * s * h * e): 2 * d * t * m * (p - 1),
        (GroupRole.DATA, CommKind.ALL_REDUCE, layer_bytes): t * l,
        (GroupRole.DATA, CommKind.ALL_REDUCE, e * (V * h // t + s * h)): t,
        (GroupRole.DATA, CommKind.ALL_REDUCE, e * V * h // t): t,
        (GroupRole.EMBEDDING, CommKind.ALL_REDUCE, e * V * h // t): d * t,
        (GroupRole.WORLD, CommKind.ALL_REDUCE, 4): 1,
    }


def test_recomputation_adds_two_all_reduces_per_layer() -> None:
    key = (GroupRole.TENSOR, CommKind.ALL_REDUCE, b * s * h * e)
    assert counted(replace(MODEL, recompute=True))[key] == d * m * (6 * l + 2)


def test_a_sharded_optimizer_scatters_buckets_and_gathers_shards() -> None:
    found = counted(replace(MODEL, shard_optimizer=True))
    data = {key: count for key, count in found.items() if key[0] is GroupRole.DATA}
    scattered = {size: count for (_, kind, size), count in data.items() if kind is CommKind.REDUCE_SCATTER}
    gathered = {size: count for (_, kind, size), count in data.items() if kind is CommKind.ALL_GATHER}
    assert {size // d: count for size, count in scattered.items()} == gathered
    assert len(data) == len(scattered) + len(gathered)


@pytest.mark.parametrize(
    ("degrees", "roles"),
    [
        ((1, 1, 1), set()),
        ((2, 1, 1), {GroupRole.TENSOR, GroupRole.WORLD}),
        ((1, 3, 1), {GroupRole.PIPELINE, GroupRole.EMBEDDING, GroupRole.WORLD}),
        ((1, 1, 2), {GroupRole.DATA, GroupRole.WORLD}),
    ],
)
def test_only_parallel_axes_communicate(degrees: tuple[int, int, int], roles: set[GroupRole]) -> None:
    tensor, pipeline, data = degrees
    model = replace(MODEL, tensor=tensor, pipeline=pipeline, data=data)
    assert {role for role, _, _ in counted(model)} == roles


def test_the_workload_names_its_parameters() -> None:
    workload = transformer_workload(MODEL)
    assert workload.name == "transformer"
    assert workload.parameters == described(MODEL)
    assert workload.groups == MODEL.layout.groups()
