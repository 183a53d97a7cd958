"""Layout of ranks in tensor x context x data x pipeline parallelism, and their process groups.

Rank = ((pipeline · D + data) · C + context) · T + tensor, as in Megatron-LM, so that tensor-parallel ranks, which
communicate most, are consecutive (Narayanan et al., SC'21). Expert parallelism takes consecutive positions along data
and context. Groups are numbered from 1, role by role; groups with only one member do not exist and have no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emulator.annexes.workloads.totals import GroupRole
from emulator.trace.meaning.model import IntArray
from emulator.trace.synthetic.synthetic import WORLD_GROUP

NUMBERED = (
    GroupRole.TENSOR,
    GroupRole.DATA,
    GroupRole.EMBEDDING,
    GroupRole.CONTEXT,
    GroupRole.EXPERT,
    GroupRole.EXPERT_DATA,
)
"""Roles in the order in which their groups are numbered."""


class Coordinates(NamedTuple):
    """Position of a rank along each axis, from 0."""

    tensor: int
    data: int
    pipeline: int
    context: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism along the axes, each at least 1; `expert` divides data · context."""

    tensor: int
    data: int
    pipeline: int
    context: int = 1
    expert: int = 1

    @property
    def ranks(self) -> int:
        """Number of ranks in the world."""
        return self.tensor * self.replicas * self.pipeline

    @property
    def replicas(self) -> int:
        """Ranks that hold the same parameters, except those of experts: data · context."""
        return self.data * self.context

    @property
    def expert_replicas(self) -> int:
        """Ranks that hold the same experts."""
        return self.replicas // self.expert

    def rank(self, at: Coordinates) -> int:
        """World rank at a position."""
        return (at.pipeline * self.replicas + self._replica(at)) * self.tensor + at.tensor

    def coordinates(self, rank: int) -> Coordinates:
        """Position of a world rank."""
        rest, tensor = divmod(rank, self.tensor)
        rest, context = divmod(rest, self.context)
        pipeline, data = divmod(rest, self.data)
        return Coordinates(tensor, data, pipeline, context)

    def group_size(self, role: GroupRole) -> int:
        """Members of a group of this role."""
        return {
            GroupRole.TENSOR: self.tensor,
            GroupRole.DATA: self.replicas,
            GroupRole.EMBEDDING: min(self.pipeline, 2),
            GroupRole.CONTEXT: self.context,
            GroupRole.EXPERT: self.expert,
            GroupRole.EXPERT_DATA: self.expert_replicas if self.expert > 1 else 1,  # without it, DATA is the same
        }.get(role, self.ranks)

    def group(self, role: GroupRole, at: Coordinates) -> int:
        """Number of a rank's group of this role; WORLD_GROUP for the world. The group must have two members."""
        if role is GroupRole.WORLD:
            return WORLD_GROUP
        replica = self._replica(at)
        stage, index = {
            GroupRole.TENSOR: (at.pipeline, replica),
            GroupRole.DATA: (at.pipeline, at.tensor),
            GroupRole.EMBEDDING: (0, replica * self.tensor + at.tensor),
            GroupRole.CONTEXT: (at.pipeline, at.data * self.tensor + at.tensor),
            GroupRole.EXPERT: (at.pipeline, replica // self.expert * self.tensor + at.tensor),
            GroupRole.EXPERT_DATA: (at.pipeline, replica % self.expert * self.tensor + at.tensor),
        }[role]
        return self._first_number(role) + stage * self._groups_of_stage(role) + index

    def role(self, group: int) -> GroupRole:
        """What the group of this number is for."""
        if group == WORLD_GROUP:
            return GroupRole.WORLD
        return next(role for role in reversed(NUMBERED) if self._count(role) and self._first_number(role) <= group)

    def members(self, role: GroupRole) -> IntArray:
        """World ranks, shape (stages, groups of a stage, members), in the order of numbers; one stage for EMBEDDING."""
        ranks = np.arange(self.ranks, dtype=np.int64).reshape(self.pipeline, self.replicas, self.tensor)
        if role is GroupRole.WORLD:
            return ranks.reshape(1, 1, -1)
        if role is GroupRole.EMBEDDING:
            return ranks[[0, -1]].reshape(2, -1).T[None]
        if role is GroupRole.TENSOR:
            return ranks
        if role is GroupRole.DATA:
            return ranks.transpose(0, 2, 1)
        inner = self.context if role is GroupRole.CONTEXT else self.expert
        split = ranks.reshape(self.pipeline, -1, inner, self.tensor)
        split = split.transpose(0, 2, 3, 1) if role is GroupRole.EXPERT_DATA else split.transpose(0, 1, 3, 2)
        return split.reshape(self.pipeline, self._groups_of_stage(role), -1)

    def groups(self) -> dict[int, tuple[int, ...]]:
        """Group number → world ranks, ascending."""
        return dict(enumerate(self._existing(), 1))

    def _existing(self) -> Iterator[tuple[int, ...]]:
        for role in NUMBERED:
            if self._count(role):
                members = self.members(role)
                yield from map(tuple, members.reshape(-1, members.shape[2]).tolist())

    def _replica(self, at: Coordinates) -> int:
        return at.data * self.context + at.context

    def _groups_of_stage(self, role: GroupRole) -> int:
        if role is GroupRole.EMBEDDING:
            return self.replicas * self.tensor
        return self.replicas * self.tensor // self.group_size(role)

    def _count(self, role: GroupRole) -> int:
        """Groups of this role in all stages; 0 if they have one member."""
        stages = 1 if role is GroupRole.EMBEDDING else self.pipeline
        return stages * self._groups_of_stage(role) if self.group_size(role) > 1 else 0

    def _first_number(self, role: GroupRole) -> int:
        return 1 + sum(self._count(before) for before in NUMBERED[: NUMBERED.index(role)])
