"""A mixture of experts as a workload: nodes and process groups.

Rank = replica · E + member, so that the ranks of an expert-parallel group are consecutive. Groups are numbered from 1:
expert-parallel groups, then the groups of ranks that hold the same experts; groups with only one member do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.moe import MixtureOfExperts
from emulator.trace.synthetic.moe_nodes import MoeRank
from emulator.trace.synthetic.moe_routing import RoutedTokens, route
from emulator.trace.synthetic.options import described
from emulator.trace.synthetic.synthetic import WORLD_GROUP, GroupRole, SyntheticWorkload, WorkNode


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
