"""Layout of ranks in tensor x data x pipeline parallelism, and their process groups.

Rank = (pipeline · D + data) · T + tensor, as in Megatron-LM, so that tensor-parallel ranks, which communicate most, are
consecutive (Narayanan et al., SC'21). Groups are numbered from 1 in the order tensor, data, embedding; groups with only
one member do not exist and have no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Coordinates(NamedTuple):
    """Position of a rank along each axis, from 0."""

    tensor: int
    data: int
    pipeline: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism along the three axes, each at least 1."""

    tensor: int
    data: int
    pipeline: int

    @property
    def ranks(self) -> int:
        """Number of ranks in the world."""
        return self.tensor * self.data * self.pipeline

    def rank(self, at: Coordinates) -> int:
        """World rank at a position."""
        return (at.pipeline * self.data + at.data) * self.tensor + at.tensor

    def coordinates(self, rank: int) -> Coordinates:
        """Position of a world rank."""
        rest, tensor = divmod(rank, self.tensor)
        pipeline, data = divmod(rest, self.data)
        return Coordinates(tensor, data, pipeline)

    def tensor_group(self, at: Coordinates) -> int:
        """Number of the group that shares the matrices of a layer; valid if tensor > 1."""
        return 1 + at.pipeline * self.data + at.data

    def data_group(self, at: Coordinates) -> int:
        """Number of the group that holds replicas of the same parameters; valid if data > 1."""
        return 1 + self._tensor_groups + at.pipeline * self.tensor + at.tensor

    def embedding_group(self, at: Coordinates) -> int:
        """Number of the group of first and last stage, which share the word embedding; valid if pipeline > 1."""
        return 1 + self._tensor_groups + self._data_groups + at.data * self.tensor + at.tensor

    def groups(self) -> dict[int, tuple[int, ...]]:
        """Group number → world ranks, ascending."""
        return {number: tuple(self.rank(at) for at in members) for number, members in self._members()}

    @property
    def _tensor_groups(self) -> int:
        return self.pipeline * self.data if self.tensor > 1 else 0

    @property
    def _data_groups(self) -> int:
        return self.pipeline * self.tensor if self.data > 1 else 0

    def _members(self) -> Iterator[tuple[int, list[Coordinates]]]:
        tensors, replicas, stages = range(self.tensor), range(self.data), range(self.pipeline)
        if self.tensor > 1:
            for first in (Coordinates(0, d, p) for p in stages for d in replicas):
                yield self.tensor_group(first), [first._replace(tensor=t) for t in tensors]
        if self.data > 1:
            for first in (Coordinates(t, 0, p) for p in stages for t in tensors):
                yield self.data_group(first), [first._replace(data=d) for d in replicas]
        if self.pipeline > 1:
            for first in (Coordinates(t, d, 0) for d in replicas for t in tensors):
                yield self.embedding_group(first), [first, first._replace(pipeline=self.pipeline - 1)]
