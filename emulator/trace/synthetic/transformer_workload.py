"""A transformer as a workload: nodes, process groups, and totals in closed form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.device import BACKWARD_TO_FORWARD
from emulator.trace.synthetic.options import described
from emulator.trace.synthetic.synthetic import GroupRole, SyntheticWorkload, Totals, Traffic
from emulator.trace.synthetic.transformer import LOSS_BYTES, ContextExchange, Transformer
from emulator.trace.synthetic.transformer_stage import transformer_nodes
from emulator.trace.synthetic.transformer_times import ComputeTimes, compute_times, optimizer_micros


def transformer_workload(model: Transformer) -> SyntheticWorkload:
    """One training iteration of `model` on tensor x context x data x pipeline ranks."""
    return SyntheticWorkload(
        name="transformer",
        ranks=model.layout.ranks,
        groups=_groups(model),
        nodes=partial(transformer_nodes, model),
        parameters=described(model),
        make_totals=partial(transformer_totals, model),
    )


def _groups(model: Transformer) -> dict[int, tuple[int, ...]]:
    """Those that perform collectives: a ring is sends and receives."""
    is_ring = model.context_exchange is ContextExchange.RING
    every = model.layout.groups().items()
    return {n: ranks for n, ranks in every if not (is_ring and model.layout.role(n) is GroupRole.CONTEXT)}


def transformer_totals(model: Transformer) -> Totals:
    """Totals of one iteration of the whole world; docs/generate.md has the formulas.

    A layer reduces its activations twice forward and twice backward (Shoeybi et al.); so do the embedding forward and
    the output layer backward, once each.
    """
    compute_nodes, compute_micros = _compute_totals(model)
    traffic = tuple(entry for entry in _traffic(model) if entry.operations and entry.group_size)
    return Totals(
        ranks=model.layout.ranks,
        nodes=compute_nodes + sum(entry.nodes for entry in traffic),
        compute_nodes=compute_nodes,
        compute_micros=compute_micros,
        traffic=traffic,
    )


def _compute_totals(model: Transformer) -> tuple[int, int]:
    times = compute_times(model)
    columns, m = model.tensor * model.layout.replicas, model.micro_batches
    passes = 1 + BACKWARD_TO_FORWARD
    layer = _attention_micros(model, times) + times.mlp + (times.router if model.experts > 1 else 0)
    micros = m * (model.layers * (passes + model.recompute) * layer + passes * times.head + 2 * times.embedding)
    micros += sum(optimizer_micros(model, stage) for stage in range(model.pipeline))
    nodes = m * (model.layers * (2 + model.recompute) * _nodes_of_layer(model) + 4) + model.pipeline
    return columns * nodes, columns * micros


def _attention_micros(model: Transformer, times: ComputeTimes) -> int:
    if model.context == 1:
        return times.attention
    return times.queries + model.context * times.scores + times.projection


def _nodes_of_layer(model: Transformer) -> int:
    """Compute nodes of one pass: of attention, of the MLP, of the router."""
    parts = model.context if model.context_exchange is ContextExchange.RING else 1
    return (1 if model.context == 1 else parts + 2) + (1 if model.experts == 1 else 2)


def _traffic(model: Transformer) -> Iterator[Traffic]:
    yield from _tensor(model)
    yield from _context(model)
    yield from _expert(model)
    yield from _pipeline(model)
    yield from _data(model)
    yield from _embedding(model)
    world = model.layout.ranks
    yield Traffic(GroupRole.WORLD, CommKind.ALL_REDUCE, LOSS_BYTES, world, operations=int(world > 1))


def _tensor(model: Transformer) -> Iterator[Traffic]:
    if model.tensor == 1:
        return
    passes = model.layout.replicas * model.micro_batches
    sizes: Counter[tuple[CommKind, int]] = Counter()
    if model.is_split:
        sizes.update(_split_activations(model))
        replicated = model.layers // model.pipeline * model.replicated_parameters * model.dtype_bytes
        sizes[CommKind.ALL_REDUCE, replicated] += model.pipeline * model.layout.replicas
    else:
        sizes[CommKind.ALL_REDUCE, model.activation_bytes] += passes * (
            model.layers * (6 if model.recompute else 4) + 2
        )
    sizes[CommKind.ALL_REDUCE, model.softmax_bytes] += 3 * passes
    for (kind, size_bytes), operations in sizes.items():
        yield Traffic(GroupRole.TENSOR, kind, size_bytes, model.tensor, operations)


def _split_activations(model: Transformer) -> Counter[tuple[CommKind, int]]:
    """Reduce-scatters and all-gathers of sequence parallelism; a layer's input is gathered again backward."""
    passes = model.layout.replicas * model.micro_batches
    layers, again = passes * model.layers, 1 + model.recompute
    dense = 2 if model.experts == 1 else 1
    found: Counter[tuple[CommKind, int]] = Counter()
    found[CommKind.REDUCE_SCATTER, model.activation_bytes] += layers * dense * (again + 1) + 2 * passes
    found[CommKind.ALL_GATHER, model.held_activation_bytes] += layers * dense * (again + 2) + 3 * passes
    if model.experts > 1:
        found[CommKind.REDUCE_SCATTER, model.dispatch_bytes * model.tensor] += layers * (again + 1)
        found[CommKind.ALL_GATHER, model.dispatch_bytes] += layers * (again + 1)
    return found


def _context(model: Transformer) -> Iterator[Traffic]:
    """Keys and values once forward and once backward, their gradients once."""
    ranks, size_bytes = model.context, model.key_value_bytes
    if ranks == 1:
        return
    columns = model.data * model.tensor
    layers, values = columns * model.micro_batches * model.layers, 2 + model.recompute
    if model.context_exchange is ContextExchange.RING:
        messages = layers * ranks * (ranks - 1) * (values + 1)
        for kind in (CommKind.SEND, CommKind.RECV):
            yield Traffic(GroupRole.CONTEXT, kind, size_bytes, group_size=1, operations=messages)
        return
    yield Traffic(GroupRole.CONTEXT, CommKind.ALL_GATHER, size_bytes, ranks, layers * values)
    yield Traffic(GroupRole.CONTEXT, CommKind.REDUCE_SCATTER, size_bytes * ranks, ranks, layers)


def _expert(model: Transformer) -> Iterator[Traffic]:
    """A dispatch and a combine in each pass of a layer."""
    if model.expert > 1:
        groups = model.tensor * model.layout.expert_replicas
        operations = groups * model.micro_batches * model.layers * 2 * (2 + model.recompute)
        yield Traffic(GroupRole.EXPERT, CommKind.ALL_TO_ALL, model.dispatch_bytes, model.expert, operations)


def _pipeline(model: Transformer) -> Iterator[Traffic]:
    if model.pipeline == 1:
        return
    columns = model.layout.replicas * model.tensor
    operations = 2 * columns * model.micro_batches * (model.pipeline * model.virtual_stages - 1)
    for kind in (CommKind.SEND, CommKind.RECV):
        yield Traffic(GroupRole.PIPELINE, kind, model.held_activation_bytes, group_size=1, operations=operations)


def _data(model: Transformer) -> Iterator[Traffic]:
    kinds = (CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER) if model.shard_optimizer else (CommKind.ALL_REDUCE,)
    for kind in kinds:
        for role, parameters, buckets in _buckets(model):
            replicas = model.layout.group_size(role)
            size_bytes = model.bucket_bytes(parameters, replicas=replicas)
            size_bytes //= replicas if kind is CommKind.ALL_GATHER else 1
            if replicas > 1:
                yield Traffic(role, kind, size_bytes, replicas, buckets)


def _buckets(model: Transformer) -> Iterator[tuple[GroupRole, int, int]]:
    """(group that reduces it, parameters of a gradient bucket, number of those buckets in all groups)."""
    yield GroupRole.DATA, model.layer_parameters, model.tensor * model.layers
    if model.experts > 1:
        role = GroupRole.EXPERT_DATA if model.expert > 1 else GroupRole.DATA
        yield role, model.expert_parameters, model.tensor * model.expert * model.layers
    yield GroupRole.DATA, model.embedding_parameters, model.tensor
    if model.pipeline > 1:
        yield GroupRole.DATA, model.word_embedding_parameters, model.tensor


def _embedding(model: Transformer) -> Iterator[Traffic]:
    if model.pipeline > 1:
        size_bytes = model.word_embedding_parameters * model.dtype_bytes
        groups = model.layout.replicas * model.tensor
        yield Traffic(GroupRole.EMBEDDING, CommKind.ALL_REDUCE, size_bytes, 2, groups)
