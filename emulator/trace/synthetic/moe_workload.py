"""A mixture of experts as a workload: nodes, process groups and totals.

Rank = replica · E + member, so that the ranks of an expert-parallel group are consecutive. Groups are numbered from 1:
expert-parallel groups, then the groups of ranks that hold the same experts; groups with only one member do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.device import BACKWARD_TO_FORWARD
from emulator.trace.synthetic.moe import MixtureOfExperts
from emulator.trace.synthetic.moe_nodes import MoeRank
from emulator.trace.synthetic.moe_routing import RoutedTokens, route
from emulator.trace.synthetic.options import described
from emulator.trace.synthetic.synthetic import GroupRole, SyntheticWorkload, Totals, Traffic, WorkNode
from emulator.trace.synthetic.transformer import LOSS_BYTES


def moe_workload(model: MixtureOfExperts) -> SyntheticWorkload:
    """One iteration of `model` on expert x data ranks."""
    made = _Moe(model)
    return SyntheticWorkload(
        name="moe",
        ranks=model.ranks,
        groups=made.groups(),
        nodes=made.nodes,
        parameters=described(model),
        make_totals=made.totals,
    )


class _Routed(NamedTuple):
    """What one expert-parallel group adds to the totals: copies of tokens, and the time its experts compute."""

    copies: int
    experts_micros: int


class _Moe:
    """Routes a group when its first rank is written, keeps that group only, and sums up what all of them send."""

    def __init__(self, model: MixtureOfExperts) -> None:
        self._model = model
        self._routed: dict[int, _Routed] = {}
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

    def totals(self) -> Totals:
        traffic = tuple(self._traffic())
        compute_nodes, compute_micros = self._compute()
        nodes = compute_nodes + sum(entry.nodes for entry in traffic)
        return Totals(self._model.ranks, nodes, compute_nodes, compute_micros, traffic)

    def _route(self, group: int) -> Sequence[Sequence[RoutedTokens]]:
        model = self._model
        found = [
            [route(model, group=group, layer=layer, micro_batch=k) for k in range(model.micro_batches)]
            for layer in range(model.layers)
        ]
        every = [one for layer in found for one in layer]
        micros = sum(model.experts_micros(count) for one in every for count in one.selections.tolist())
        self._routed[group] = _Routed(sum(int(one.copies.sum()) for one in every), micros)
        return found

    def _summed(self) -> _Routed:
        for group in set(range(self._model.data)) - set(self._routed):
            self._group(group)
        return _Routed(*(sum(values) for values in zip(*self._routed.values(), strict=True)))

    def _compute(self) -> tuple[int, int]:
        """(nodes, µs) of all ranks."""
        model = self._model
        passes = 1 if model.forward_only else 1 + BACKWARD_TO_FORWARD
        shared = model.experts_micros(model.tokens * model.shared_experts) if model.shared_experts else 0
        steps = model.ranks * model.layers * model.micro_batches
        nodes = steps * (3 if model.shared_experts else 2) * (1 if model.forward_only else 2)
        micros = passes * (steps * (model.attention_micros() + shared) + self._summed().experts_micros)
        if model.forward_only:
            return nodes, micros
        return nodes + model.ranks, micros + model.ranks * model.optimizer_micros()

    def _traffic(self) -> Iterator[Traffic]:
        model = self._model
        directions = 1 if model.forward_only else 2
        operations = model.data * model.layers * model.micro_batches * directions
        sizes = {GroupRole.DISPATCH: model.dispatch_token_bytes, GroupRole.COMBINE: model.combine_token_bytes}
        for role, token_bytes in sizes.items() if model.expert > 1 else ():
            total = self._summed().copies * directions * token_bytes
            yield Traffic.uneven(role, CommKind.ALL_TO_ALL, model.expert, operations, total)
        if not model.forward_only:
            yield from self._gradients()

    def _gradients(self) -> Iterator[Traffic]:
        model = self._model
        kinds = (CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER) if model.shard_optimizer else (CommKind.ALL_REDUCE,)
        for kind in kinds:
            for parameters, replicas, groups, role in (
                (model.expert_parameters, model.data, model.expert, GroupRole.DATA),
                (model.dense_parameters, model.ranks, 1, GroupRole.WORLD),
            ):
                size = model.bucket_bytes(parameters, replicas=replicas)
                size //= replicas if kind is CommKind.ALL_GATHER else 1
                if replicas > 1:
                    yield Traffic(role, kind, size, replicas, groups * model.layers)
        if model.ranks > 1:
            yield Traffic(GroupRole.WORLD, CommKind.ALL_REDUCE, LOSS_BYTES, model.ranks, 1)
