"""The nodes of one rank for one training iteration of a transformer, generated one at a time.

The device processes the passes in the order of the pipeline schedule; every compute node depends on the previous one.
Communication depends on the compute node that produces its data, and only nodes that need its result depend on it, so
gradients are reduced while the backward pass continues.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeAlias

from emulator.planner.workloads.device import BACKWARD_TO_FORWARD
from emulator.planner.workloads.pipeline_schedule import pipeline_steps
from emulator.planner.workloads.synthetic import WORLD_GROUP, WorkNode
from emulator.planner.workloads.transformer import LOSS_BYTES, Transformer, compute_times, optimizer_micros
from emulator.trace.model import CommKind

Emission: TypeAlias = Generator[WorkNode, None, int]
"""Yields nodes; returns the id of the node after which the result is available, 0 if from the start."""


def transformer_nodes(model: Transformer, rank: int) -> Iterator[WorkNode]:
    """Nodes of one rank for one iteration, in file order. Memory does not grow with the number of nodes."""
    return _Stage(model, rank).nodes()


class _Stage:
    """State while the nodes of one rank are generated: the last id, the last compute node, what is pending."""

    def __init__(self, model: Transformer, rank: int) -> None:
        self._model = model
        self._layout = model.layout
        self._at = self._layout.coordinates(rank)
        self._stage = self._at.pipeline
        self._times = compute_times(model)
        self._last_id = 0
        self._device = 0
        self._losses: dict[int, int] = {}
        self._buckets: list[tuple[str, int]] = []
        self._gradients: list[int] = []
        self._flushed = 0

    @property
    def _is_first(self) -> bool:
        return self._stage == 0

    @property
    def _is_last(self) -> bool:
        return self._stage == self._model.pipeline - 1

    @property
    def _layers(self) -> range:
        count = self._model.layers // self._model.pipeline
        return range(self._stage * count, (self._stage + 1) * count)

    def nodes(self) -> Iterator[WorkNode]:
        steps = pipeline_steps(
            self._model.schedule,
            stage=self._stage,
            stages=self._model.pipeline,
            micro_batches=self._model.micro_batches,
        )
        for step in steps:
            if step.is_forward:
                yield from self._forward(step.micro_batch)
            else:
                yield from self._backward(step.micro_batch, is_last=step.is_last)
        yield from self._optimizer_step()

    # Forward and backward pass of a micro-batch.

    def _forward(self, k: int) -> Iterator[WorkNode]:
        ready = yield from self._forward_input(k)
        for layer in self._layers:
            ready = yield from self._layer_forward(f"forward.{k}.layer{layer}", ready)
        if self._is_last:
            self._losses[k] = yield from self._head_forward(f"forward.{k}.head", ready)
        else:
            yield from self._send(f"forward.{k}.send", self._stage + 1, k, ready)

    def _forward_input(self, k: int) -> Emission:
        if not self._is_first:
            return (yield from self._receive(f"forward.{k}.recv", self._stage - 1, k))
        ready = yield from self._compute(f"forward.{k}.embedding", self._times.embedding, 0)
        return (yield from self._tensor_all_reduce(f"forward.{k}.embedding.all_reduce", ready))

    def _layer_forward(self, name: str, ready: int) -> Emission:
        ready = yield from self._compute(f"{name}.attention", self._times.attention, ready)
        ready = yield from self._tensor_all_reduce(f"{name}.attention.all_reduce", ready)
        ready = yield from self._compute(f"{name}.mlp", self._times.mlp, ready)
        return (yield from self._tensor_all_reduce(f"{name}.mlp.all_reduce", ready))

    def _head_forward(self, name: str, ready: int) -> Emission:
        # Megatron-LM's vocabulary-parallel loss reduces three numbers per token over the split vocabulary.
        ready = yield from self._compute(name, self._times.head, ready)
        for number in ("maximum", "target", "sum"):
            ready = yield from self._tensor_all_reduce(f"{name}.{number}.all_reduce", ready, self._model.softmax_bytes)
        return ready

    def _backward(self, k: int, *, is_last: bool) -> Iterator[WorkNode]:
        ready = yield from self._backward_input(k, is_last=is_last)
        for layer in reversed(self._layers):
            name = f"backward.{k}.layer{layer}"
            if self._model.recompute:
                ready = yield from self._layer_forward(f"{name}.again", ready)
            ready = yield from self._layer_backward(name, ready)
            if is_last:
                yield from self._reduce_gradients(f"layer{layer}", self._model.layer_parameters)
        yield from self._backward_output(k, ready, is_last=is_last)

    def _backward_input(self, k: int, *, is_last: bool) -> Emission:
        if not self._is_last:
            return (yield from self._receive(f"backward.{k}.recv", self._stage + 1, k))
        name = f"backward.{k}.head"
        micros = self._times.head * BACKWARD_TO_FORWARD
        ready = yield from self._compute(name, micros, self._losses.pop(k))
        ready = yield from self._tensor_all_reduce(f"{name}.all_reduce", ready)
        if is_last and not self._is_first:
            yield from self._reduce_gradients("head", self._model.word_embedding_parameters)
        return ready

    def _layer_backward(self, name: str, ready: int) -> Emission:
        ready = yield from self._compute(f"{name}.mlp", self._times.mlp * BACKWARD_TO_FORWARD, ready)
        ready = yield from self._tensor_all_reduce(f"{name}.mlp.all_reduce", ready)
        ready = yield from self._compute(f"{name}.attention", self._times.attention * BACKWARD_TO_FORWARD, ready)
        return (yield from self._tensor_all_reduce(f"{name}.attention.all_reduce", ready))

    def _backward_output(self, k: int, ready: int, *, is_last: bool) -> Iterator[WorkNode]:
        if not self._is_first:
            self._flushed = yield from self._send(f"backward.{k}.send", self._stage - 1, k, ready)
            return
        yield from self._compute(f"backward.{k}.embedding", self._times.embedding, ready)
        if is_last:
            yield from self._reduce_gradients("embedding", self._model.embedding_parameters)

    # Gradients and the optimizer step.

    def _reduce_gradients(self, name: str, parameters: int) -> Iterator[WorkNode]:
        if self._model.data == 1:
            return
        sharded = self._model.shard_optimizer
        kind = CommKind.REDUCE_SCATTER if sharded else CommKind.ALL_REDUCE
        size_bytes = self._model.bucket_bytes(parameters)
        self._buckets.append((name, size_bytes))
        node = self._node(
            f"gradients.{name}.{kind.label}",
            self._device,
            kind=kind,
            size_bytes=size_bytes,
            group=self._layout.data_group(self._at),
        )
        self._gradients.append(node.node_id)
        yield node

    def _optimizer_step(self) -> Iterator[WorkNode]:
        if self._model.pipeline > 1 and (self._is_first or self._is_last):
            yield from self._reduce_shared_embedding()
        ready = self._device
        if self._layout.ranks > 1:
            norm = self._all_reduce("gradient_norm.all_reduce", WORLD_GROUP, LOSS_BYTES, self._device, *self._gradients)
            ready = yield from norm
        ready = yield from self._compute("optimizer", optimizer_micros(self._model, self._stage), ready)
        if self._model.shard_optimizer:
            yield from self._gather_parameters(ready)

    def _reduce_shared_embedding(self) -> Iterator[WorkNode]:
        # After the pipeline flush: the last stage has its gradient long before the first. A player with one
        # communication in flight would deadlock here, waiting for a stage that waits for this one.
        size_bytes = self._model.word_embedding_parameters * self._model.dtype_bytes
        group = self._layout.embedding_group(self._at)
        after = (self._device, self._flushed, *self._gradients)
        self._gradients.append((yield from self._all_reduce("embedding.all_reduce", group, size_bytes, *after)))

    def _gather_parameters(self, ready: int) -> Iterator[WorkNode]:
        # The first layers come first, because the next iteration needs them first.
        group = self._layout.data_group(self._at)
        for name, size_bytes in reversed(self._buckets):
            shard = size_bytes // self._model.data
            name = f"parameters.{name}.all_gather"
            yield self._node(name, ready, kind=CommKind.ALL_GATHER, size_bytes=shard, group=group)

    # Single nodes.

    def _compute(self, name: str, micros: int, ready: int) -> Emission:
        node = self._node(name, self._device, ready, duration_micros=micros)
        self._device = node.node_id
        yield node
        return node.node_id

    def _tensor_all_reduce(self, name: str, ready: int, size_bytes: int | None = None) -> Emission:
        if self._model.tensor == 1:
            return ready
        size = self._model.activation_bytes if size_bytes is None else size_bytes
        return (yield from self._all_reduce(name, self._layout.tensor_group(self._at), size, ready))

    def _all_reduce(self, name: str, group: int, size_bytes: int, *after: int) -> Emission:
        node = self._node(name, *after, kind=CommKind.ALL_REDUCE, size_bytes=size_bytes, group=group)
        yield node
        return node.node_id

    def _send(self, name: str, stage: int, tag: int, ready: int) -> Emission:
        return (yield from self._point_to_point(name, CommKind.SEND, stage, tag, ready))

    def _receive(self, name: str, stage: int, tag: int) -> Emission:
        return (yield from self._point_to_point(name, CommKind.RECV, stage, tag, self._device))

    def _point_to_point(self, name: str, kind: CommKind, stage: int, tag: int, ready: int) -> Emission:
        node = self._node(
            name,
            ready,
            kind=kind,
            size_bytes=self._model.activation_bytes,
            peer=self._layout.rank(self._at._replace(pipeline=stage)),
            tag=tag,
        )
        yield node
        return node.node_id

    def _node(
        self,
        name: str,
        *after: int,
        duration_micros: int = 0,
        kind: CommKind | None = None,
        size_bytes: int = 0,
        group: int = WORLD_GROUP,
        peer: int = -1,
        tag: int = 0,
    ) -> WorkNode:
        self._last_id += 1
        return WorkNode(
            node_id=self._last_id,
            name=name,
            deps=tuple(sorted({dep for dep in after if dep})),
            duration_micros=duration_micros,
            kind=kind,
            size_bytes=size_bytes,
            group=group,
            peer=peer,
            tag=tag,
        )
