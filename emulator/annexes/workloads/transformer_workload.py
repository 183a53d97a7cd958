"""A transformer as a workload: process groups, and the nodes of a rank for one iteration, generated one at a time.

The device processes the passes in the order of the pipeline schedule; every compute node depends on the previous one.
Communication depends on the compute node that produces its data, and only nodes that need its result depend on it, so
gradients are reduced while the backward pass continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from emulator.annexes.workloads.layout import Coordinates, Layout
from emulator.annexes.workloads.options import BACKWARD_TO_FORWARD, described
from emulator.annexes.workloads.totals import GroupRole, SyntheticWorkload
from emulator.annexes.workloads.transformer import (
    LOSS_BYTES,
    ContextExchange,
    PipelineStep,
    Transformer,
    pipeline_steps,
)
from emulator.annexes.workloads.transformer_layer import Layer, TransformerRank, optimizer_micros
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import Emission, WorkNode


def transformer_nodes(model: Transformer, rank: int) -> Iterator[WorkNode]:
    """Nodes of one rank for one iteration, in file order. Memory does not grow with the number of nodes."""
    return _Stage(TransformerRank(model, rank)).nodes()


class _Stage:
    """The passes of a rank: the losses that are pending, and the last send of gradients."""

    def __init__(self, rank: TransformerRank) -> None:
        self._rank, self._model, self._stage = rank, rank.model, rank.at.pipeline
        self._layer, self._gradients = Layer(rank), Gradients(rank)
        self._losses: dict[int, int] = {}
        self._flushed = 0

    def nodes(self) -> Iterator[WorkNode]:
        model = self._model
        steps = pipeline_steps(
            model.schedule,
            stage=self._stage,
            stages=model.pipeline,
            micro_batches=model.micro_batches,
            virtual_stages=model.virtual_stages,
        )
        for step in steps:
            yield from self._forward(step) if step.is_forward else self._backward(step)
        yield from self._gradients.optimizer_step(flushed=self._flushed)

    # Where a pass is in the model.

    def _place(self, step: PipelineStep) -> int:
        """Number of the chunk of layers in the whole model: virtual stages are dealt out to the stages in turn."""
        return step.chunk * self._model.pipeline + self._stage

    def _is_first(self, step: PipelineStep) -> bool:
        return self._place(step) == 0

    def _is_last(self, step: PipelineStep) -> bool:
        return self._place(step) == self._model.pipeline * self._model.virtual_stages - 1

    def _layers(self, step: PipelineStep) -> range:
        count = self._model.layers // (self._model.pipeline * self._model.virtual_stages)
        return range(self._place(step) * count, (self._place(step) + 1) * count)

    def _name(self, step: PipelineStep) -> str:
        chunk = f".chunk{step.chunk}" if self._model.virtual_stages > 1 else ""
        return f"{'forward' if step.is_forward else 'backward'}.{step.micro_batch}{chunk}"

    # Forward and backward pass of a micro-batch.

    def _forward(self, step: PipelineStep) -> Iterator[WorkNode]:
        k, ready = step.micro_batch, (yield from self._forward_input(step))
        for layer in self._layers(step):
            ready = yield from self._layer.forward(f"forward.{k}.layer{layer}", ready)
        if self._is_last(step):
            self._losses[k] = yield from self._head_forward(f"forward.{k}.head", ready)
        else:
            yield from self._message(step, CommKind.SEND, ready)

    def _forward_input(self, step: PipelineStep) -> Emission:
        if not self._is_first(step):
            return (yield from self._message(step, CommKind.RECV, self._rank.device))
        name = f"forward.{step.micro_batch}.embedding"
        ready = yield from self._rank.compute(name, self._rank.times.embedding, 0)
        return (yield from self._layer.leave(name, ready))

    def _head_forward(self, name: str, ready: int) -> Emission:
        # Megatron-LM's vocabulary-parallel loss reduces three numbers per token over the split vocabulary.
        ready = yield from self._layer.enter(name, ready)
        ready = yield from self._rank.compute(name, self._rank.times.head, ready)
        for number in ("maximum", "target", "sum"):
            size_bytes, kind = self._model.softmax_bytes, CommKind.ALL_REDUCE
            ready = yield from self._rank.collective(f"{name}.{number}", GroupRole.TENSOR, kind, size_bytes, ready)
        return ready

    def _backward(self, step: PipelineStep) -> Iterator[WorkNode]:
        ready = yield from self._backward_input(step)
        for layer in reversed(self._layers(step)):
            name = f"backward.{step.micro_batch}.layer{layer}"
            if self._model.recompute:
                ready = yield from self._layer.forward(f"{name}.again", ready)
            ready = yield from self._layer.backward(name, ready)
            if step.is_last:
                yield from self._gradients.reduce_layer(layer)
        yield from self._backward_output(step, ready)

    def _backward_input(self, step: PipelineStep) -> Emission:
        if not self._is_last(step):
            return (yield from self._message(step, CommKind.RECV, self._rank.device))
        name = f"backward.{step.micro_batch}.head"
        ready = yield from self._layer.enter(name, self._losses.pop(step.micro_batch))
        ready = yield from self._rank.compute(name, self._rank.times.head * BACKWARD_TO_FORWARD, ready)
        ready = yield from self._layer.leave(name, ready)
        if step.is_last and self._model.pipeline > 1:
            yield from self._gradients.reduce("head", self._model.word_embedding_parameters)
        return ready

    def _backward_output(self, step: PipelineStep, ready: int) -> Iterator[WorkNode]:
        if not self._is_first(step):
            self._flushed = yield from self._message(step, CommKind.SEND, ready)
            return
        name = f"backward.{step.micro_batch}.embedding"
        ready = yield from self._layer.leave_backward(name, ready, weights=False)
        yield from self._rank.compute(name, self._rank.times.embedding, ready)
        if step.is_last:
            yield from self._gradients.reduce("embedding", self._model.embedding_parameters)

    # Between stages.

    def _message(self, step: PipelineStep, kind: CommKind, ready: int) -> Emission:
        """From or to the chunk before or after this one."""
        distance = 1 if step.is_forward == (kind is CommKind.SEND) else -1
        at, stages = self._rank.at, self._model.pipeline
        peer = self._rank.layout.rank(at._replace(pipeline=(self._stage + distance) % stages))
        size_bytes, tag = self._model.held_activation_bytes, self._tag(step, distance)
        return (yield from self._rank.message(self._name(step), kind, peer, tag, size_bytes, ready))

    def _tag(self, step: PipelineStep, distance: int) -> int:
        """Number of the micro-batch; with virtual stages, also of the border: two stages share several."""
        border = min(self._place(step), self._place(step) + distance) if self._model.virtual_stages > 1 else 0
        return border * self._model.micro_batches + step.micro_batch


class Gradients:
    """Adds the nodes that reduce gradients, and the optimizer step, to those of a rank."""

    def __init__(self, rank: TransformerRank) -> None:
        self._rank, self._model, self._layout = rank, rank.model, rank.layout
        self._buckets: list[tuple[str, GroupRole, int]] = []
        self._reduced: list[int] = []

    def reduce_layer(self, layer: int) -> Iterator[WorkNode]:
        """Of a layer, as soon as its last backward pass is computed."""
        yield from self.reduce(f"layer{layer}", self._model.layer_parameters)
        if self._model.experts > 1:
            role = GroupRole.EXPERT_DATA if self._model.expert > 1 else GroupRole.DATA
            yield from self.reduce(f"layer{layer}.experts", self._model.expert_parameters, role)

    def reduce(self, name: str, parameters: int, role: GroupRole = GroupRole.DATA) -> Iterator[WorkNode]:
        """Of parameters that the group of this role holds."""
        replicas = self._layout.group_size(role)
        if replicas == 1:
            return
        kind = CommKind.REDUCE_SCATTER if self._model.shard_optimizer else CommKind.ALL_REDUCE
        size_bytes = self._model.bucket_bytes(parameters, replicas=replicas)
        self._buckets.append((name, role, size_bytes // replicas))
        reduced = self._rank.collective(f"gradients.{name}", role, kind, size_bytes, self._rank.device)
        self._reduced.append((yield from reduced))

    def optimizer_step(self, *, flushed: int) -> Iterator[WorkNode]:
        """What follows the last pass; `flushed`: the last node that sent gradients to the stage before."""
        stage, stages = self._rank.at.pipeline, self._model.pipeline
        if self._model.is_split:
            self._reduced.append((yield from self._reduce_replicated()))
        if stages > 1 and stage in (0, stages - 1):
            self._reduced.append((yield from self._reduce_shared_embedding(flushed)))
        after = (self._rank.device, *self._reduced)
        kind = CommKind.ALL_REDUCE
        ready = yield from self._rank.collective("gradient_norm", GroupRole.WORLD, kind, LOSS_BYTES, *after)
        ready = yield from self._rank.compute("optimizer", optimizer_micros(self._model, stage), ready)
        if self._model.shard_optimizer:
            yield from self._gather_parameters(ready)

    def _reduce_replicated(self) -> Emission:
        # Each tensor rank has seen its share of the tokens only (Megatron-LM's layer norms under sequence parallelism).
        parameters = self._model.layers // self._model.pipeline * self._model.replicated_parameters
        size_bytes, after = parameters * self._model.dtype_bytes, (self._rank.device, *self._reduced)
        name, kind = "gradients.replicated", CommKind.ALL_REDUCE
        return (yield from self._rank.collective(name, GroupRole.TENSOR, kind, size_bytes, *after))

    def _reduce_shared_embedding(self, flushed: int) -> Emission:
        # After the pipeline flush: the last stage has its gradient long before the first. A player with one
        # communication in flight would deadlock here, waiting for a stage that waits for this one.
        size_bytes = self._model.word_embedding_parameters * self._model.dtype_bytes
        after = (self._rank.device, flushed, *self._reduced)
        return (
            yield from self._rank.collective("embedding", GroupRole.EMBEDDING, CommKind.ALL_REDUCE, size_bytes, *after)
        )

    def _gather_parameters(self, ready: int) -> Iterator[WorkNode]:
        # The first layers come first, because the next iteration needs them first.
        for name, role, shard in reversed(self._buckets):
            yield from self._rank.collective(f"parameters.{name}", role, CommKind.ALL_GATHER, shard, ready)


def transformer_workload(model: Transformer) -> SyntheticWorkload:
    """One training iteration of `model` on tensor x context x data x pipeline ranks."""
    layout = model.layout
    first = [layout.rank(Coordinates(0, 0, stage)) for stage in range(layout.pipeline)]
    return SyntheticWorkload(
        name="transformer",
        ranks=layout.ranks,
        groups=_groups(model),
        nodes=partial(transformer_nodes, model),
        parameters=described(model),
        role=partial(_role, layout),
        alike=dict.fromkeys(first, layout.ranks // layout.pipeline),
    )


def _groups(model: Transformer) -> dict[int, tuple[int, ...]]:
    """Those that perform collectives: a ring is sends and receives."""
    is_ring = model.context_exchange is ContextExchange.RING
    every = model.layout.groups().items()
    return {n: ranks for n, ranks in every if not (is_ring and model.layout.role(n) is GroupRole.CONTEXT)}


def _role(layout: Layout, rank: int, node: WorkNode) -> GroupRole:
    if node.kind not in (CommKind.SEND, CommKind.RECV):
        return layout.role(node.group)
    is_in_stage = layout.coordinates(rank).pipeline == layout.coordinates(node.peer).pipeline
    return GroupRole.CONTEXT if is_in_stage else GroupRole.PIPELINE
