"""Gradients and the optimizer step of one rank."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.planner.workloads.node_chain import Emission
from emulator.planner.workloads.synthetic import GroupRole, WorkNode
from emulator.planner.workloads.transformer import LOSS_BYTES
from emulator.planner.workloads.transformer_rank import TransformerRank
from emulator.planner.workloads.transformer_times import optimizer_micros
from emulator.trace.model import CommKind


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
