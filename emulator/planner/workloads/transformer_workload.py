"""A transformer as a workload: nodes, process groups, and totals in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from emulator.planner.workloads.device import BACKWARD_TO_FORWARD
from emulator.planner.workloads.synthetic import GroupRole, SyntheticWorkload, Totals, Traffic
from emulator.planner.workloads.transformer import LOSS_BYTES, Transformer, compute_times, optimizer_micros
from emulator.planner.workloads.transformer_stage import transformer_nodes
from emulator.trace.model import CommKind


def transformer_workload(model: Transformer) -> SyntheticWorkload:
    """One training iteration of `model` on tensor x data x pipeline ranks."""
    return SyntheticWorkload(
        name="transformer",
        ranks=model.layout.ranks,
        groups=model.layout.groups(),
        nodes=partial(transformer_nodes, model),
        parameters=model.described(),
        make_totals=partial(transformer_totals, model),
    )


def transformer_totals(model: Transformer) -> Totals:
    """Totals of one iteration of the whole world, with degrees of parallelism D, T, P and m micro-batches.

    Tensor: D·m·(4l + 2) all-reduces of b·s·h (6l + 2 with recomputation: 2 forward and 2 backward per layer,
    Shoeybi et al.; 1 after the embedding, 1 before the output layer) and 3·D·m of one float32 per token.
    Pipeline: 2·D·T·m·(P - 1) sends of b·s·h, and as many receives. Data: T all-reduces per layer, T for the embedding,
    T for its copy on the last stage. Embedding: D·T all-reduces. World: one of LOSS_BYTES.
    """
    compute_nodes, compute_micros = _compute_totals(model)
    traffic = tuple(_traffic(model))
    return Totals(
        ranks=model.layout.ranks,
        nodes=compute_nodes + sum(entry.nodes for entry in traffic),
        compute_nodes=compute_nodes,
        compute_micros=compute_micros,
        traffic=traffic,
    )


def _compute_totals(model: Transformer) -> tuple[int, int]:
    times = compute_times(model)
    columns, m = model.tensor * model.data, model.micro_batches
    passes = 1 + BACKWARD_TO_FORWARD
    layer = (passes + model.recompute) * (times.attention + times.mlp)
    micros = m * (model.layers * layer + passes * times.head + 2 * times.embedding)
    micros += sum(optimizer_micros(model, stage) for stage in range(model.pipeline))
    nodes = m * (model.layers * (4 + 2 * model.recompute) + 4) + model.pipeline
    return columns * nodes, columns * micros


def _traffic(model: Transformer) -> Iterator[Traffic]:
    yield from _tensor(model)
    yield from _pipeline(model)
    yield from _data(model)
    yield from _embedding(model)
    world = model.layout.ranks
    if world > 1:
        yield Traffic(GroupRole.WORLD, CommKind.ALL_REDUCE, LOSS_BYTES, group_size=world, operations=1)


def _tensor(model: Transformer) -> Iterator[Traffic]:
    if model.tensor == 1:
        return
    passes = model.data * model.micro_batches
    activations = passes * (model.layers * (6 if model.recompute else 4) + 2)
    for size_bytes, operations in ((model.activation_bytes, activations), (model.softmax_bytes, 3 * passes)):
        yield Traffic(GroupRole.TENSOR, CommKind.ALL_REDUCE, size_bytes, model.tensor, operations)


def _pipeline(model: Transformer) -> Iterator[Traffic]:
    operations = 2 * model.data * model.tensor * model.micro_batches * (model.pipeline - 1)
    for kind in (CommKind.SEND, CommKind.RECV) if operations else ():
        yield Traffic(GroupRole.PIPELINE, kind, model.activation_bytes, group_size=1, operations=operations)


def _data(model: Transformer) -> Iterator[Traffic]:
    if model.data == 1:
        return
    kinds = {CommKind.ALL_REDUCE: 1}
    if model.shard_optimizer:
        kinds = {CommKind.REDUCE_SCATTER: 1, CommKind.ALL_GATHER: model.data}
    for kind, shards in kinds.items():
        for parameters, buckets in _buckets(model):
            size_bytes = model.bucket_bytes(parameters) // shards
            yield Traffic(GroupRole.DATA, kind, size_bytes, model.data, model.tensor * buckets)


def _buckets(model: Transformer) -> Iterator[tuple[int, int]]:
    """(parameters of a gradient bucket, number of those buckets in one column of stages)."""
    yield model.layer_parameters, model.layers
    yield model.embedding_parameters, 1
    if model.pipeline > 1:
        yield model.word_embedding_parameters, 1


def _embedding(model: Transformer) -> Iterator[Traffic]:
    if model.pipeline > 1:
        size_bytes = model.word_embedding_parameters * model.dtype_bytes
        yield Traffic(GroupRole.EMBEDDING, CommKind.ALL_REDUCE, size_bytes, 2, model.data * model.tensor)
