"""A mixture of experts as a workload: nodes of every rank for one iteration, and process groups.

The device works on one node after the other. Shared experts are computed while tokens are on their way. Backward, the
gradients of what the experts returned take the way of the dispatch, and those of their inputs the way of the combine.

Rank = replica · E + member, so that the ranks of an expert-parallel group are consecutive. Groups are numbered from 1:
expert-parallel groups, then the groups of ranks that hold the same experts; groups with only one member do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from emulator.annexes.workloads.moe import MixtureOfExperts, RoutedTokens, route
from emulator.annexes.workloads.options import BACKWARD_TO_FORWARD, described
from emulator.annexes.workloads.totals import GroupRole, SyntheticWorkload
from emulator.annexes.workloads.transformer import LOSS_BYTES
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import WORLD_GROUP, Emission, NodeChain, WorkNode


class MoeRank(NodeChain):
    """State while the nodes of one rank are generated.

    Args:
        member: number of the rank in its expert-parallel group.
        expert_group: number of that group; 0 if it has one member.
        replica_group: number of the group that holds the same experts; 0 if it has one member, or is the world.
        routed: layer by layer, micro-batch by micro-batch.
    """

    def __init__(
        self,
        model: MixtureOfExperts,
        *,
        member: int,
        expert_group: int,
        replica_group: int,
        routed: Sequence[Sequence[RoutedTokens]],
    ) -> None:
        super().__init__()
        self._model, self._member, self._routed = model, member, routed
        self._expert_group, self._replica_group = expert_group, replica_group
        self._gradients: list[int] = []
        self._buckets: list[tuple[str, int, int, int]] = []

    def nodes(self) -> Iterator[WorkNode]:
        """All of them, in file order."""
        layers, last = range(self._model.layers), self._model.micro_batches - 1
        for k in range(self._model.micro_batches):
            ready = 0
            for layer in layers:
                ready = yield from self._forward(layer, k, ready)
            if self._model.forward_only:
                continue
            for layer in reversed(layers):
                ready = yield from self._backward(layer, k, ready)
                if k == last:
                    yield from self._reduce_gradients(layer)
        if not self._model.forward_only:
            yield from self._optimizer_step()

    def _forward(self, layer: int, k: int, ready: int) -> Emission:
        name = f"forward.{k}.layer{layer}"
        ready = yield from self.compute(f"{name}.attention", self._model.attention_micros(), ready)
        return (yield from self._experts(name, layer, k, ready, passes=1))

    def _backward(self, layer: int, k: int, ready: int) -> Emission:
        name = f"backward.{k}.layer{layer}"
        ready = yield from self._experts(name, layer, k, ready, passes=BACKWARD_TO_FORWARD)
        micros = BACKWARD_TO_FORWARD * self._model.attention_micros()
        return (yield from self.compute(f"{name}.attention", micros, ready))

    def _experts(self, name: str, layer: int, k: int, ready: int, *, passes: int) -> Emission:
        model, routed = self._model, self._routed[layer][k]
        sent = yield from self._exchange(f"{name}.dispatch", routed, model.dispatch_token_bytes, ready)
        if model.shared_experts:
            shared = model.experts_micros(model.tokens * model.shared_experts)
            yield from self.compute(f"{name}.shared_experts", passes * shared, ready)
        micros = passes * model.experts_micros(int(routed.selections[self._member]))
        computed = yield from self.compute(f"{name}.experts", micros, sent)
        return (yield from self._exchange(f"{name}.combine", routed, model.combine_token_bytes, computed, back=True))

    def _exchange(
        self, name: str, routed: RoutedTokens, token_bytes: int, ready: int, *, back: bool = False
    ) -> Emission:
        if not self._expert_group:
            return ready
        there = [count * token_bytes for count in routed.copies[self._member].tolist()]
        here = [count * token_bytes for count in routed.copies[:, self._member].tolist()]
        sent, received = (here, there) if back else (there, here)
        return (
            yield from self.append(
                name,
                ready,
                kind=CommKind.ALL_TO_ALL,
                size_bytes=sum(sent),
                group=self._expert_group,
                send_splits=tuple(sent),
                recv_splits=tuple(received),
            )
        )

    def _reduce_gradients(self, layer: int) -> Iterator[WorkNode]:
        model = self._model
        if model.data > 1:
            group = self._replica_group
            yield from self._bucket(f"layer{layer}.experts", model.expert_parameters, group, model.data)
        if model.ranks > 1:
            yield from self._bucket(f"layer{layer}.dense", model.dense_parameters, WORLD_GROUP, model.ranks)

    def _bucket(self, name: str, parameters: int, group: int, replicas: int) -> Iterator[WorkNode]:
        size_bytes = self._model.bucket_bytes(parameters, replicas=replicas)
        kind = CommKind.REDUCE_SCATTER if self._model.shard_optimizer else CommKind.ALL_REDUCE
        self._buckets.append((name, size_bytes // replicas, group, replicas))
        reduced = self.append(
            f"gradients.{name}.{kind.label}", self.device, kind=kind, size_bytes=size_bytes, group=group
        )
        self._gradients.append((yield from reduced))

    def _optimizer_step(self) -> Iterator[WorkNode]:
        ready = self.device
        if self._model.ranks > 1:
            ready = yield from self.append(
                "gradient_norm.all_reduce",
                self.device,
                *self._gradients,
                kind=CommKind.ALL_REDUCE,
                size_bytes=LOSS_BYTES,
                group=WORLD_GROUP,
            )
        ready = yield from self.compute("optimizer", self._model.optimizer_micros(), ready)
        for name, shard, group, _ in reversed(self._buckets) if self._model.shard_optimizer else ():
            # The first layers come first, because the next iteration needs them first.
            gathered = f"parameters.{name}.all_gather"
            yield from self.append(gathered, ready, kind=CommKind.ALL_GATHER, size_bytes=shard, group=group)


def moe_workload(model: MixtureOfExperts) -> SyntheticWorkload:
    """One iteration of `model` on expert x data ranks."""
    made = _Moe(model)
    return SyntheticWorkload(
        name="moe",
        ranks=model.ranks,
        groups=made.groups(),
        nodes=made.nodes,
        parameters=described(model),
        role=_role,
    )


class _Moe:
    """Routes a group when its first rank is written, and keeps that group only."""

    def __init__(self, model: MixtureOfExperts) -> None:
        self._model = model
        self._group = lru_cache(maxsize=1)(self._route)

    def groups(self) -> dict[int, tuple[int, ...]]:
        expert, data, ranks = self._model.expert, self._model.data, self._model.ranks
        found: list[tuple[int, ...]] = []
        if expert > 1:
            found += [tuple(range(first, first + expert)) for first in range(0, ranks, expert)]
        if data > 1:
            found += [tuple(range(member, ranks, expert)) for member in range(expert)]
        return dict(enumerate(found, 1))

    def nodes(self, rank: int) -> Iterator[WorkNode]:
        expert, data = self._model.expert, self._model.data
        replica, member = divmod(rank, expert)
        expert_groups = data if expert > 1 else 0
        chain = MoeRank(
            self._model,
            member=member,
            expert_group=1 + replica if expert > 1 else 0,
            replica_group=1 + expert_groups + member if data > 1 else 0,
            routed=self._group(replica),
        )
        return chain.nodes()

    def _route(self, group: int) -> Sequence[Sequence[RoutedTokens]]:
        model = self._model
        return [
            [route(model, group=group, layer=layer, micro_batch=k) for k in range(model.micro_batches)]
            for layer in range(model.layers)
        ]


def _role(rank: int, node: WorkNode) -> GroupRole:
    del rank
    if node.kind is CommKind.ALL_TO_ALL:
        return GroupRole.DISPATCH if node.name.endswith(".dispatch") else GroupRole.COMBINE
    return GroupRole.WORLD if node.group == WORLD_GROUP else GroupRole.DATA
