"""The traffic of a training iteration of a transformer, without generating the nodes of every rank."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emulator.annexes.workloads.layout import Coordinates
from emulator.annexes.workloads.totals import GroupRole
from emulator.annexes.workloads.transformer import Transformer, parse_transformer
from emulator.annexes.workloads.transformer_workload import transformer_nodes
from emulator.planner.algorithms import POINT_TO_POINT
from emulator.planner.group_layout import GroupLayout, Layouts
from emulator.planner.traffic.operation import Operation, Traffic, by_algorithm
from emulator.trace.meaning.model import CommKind, IntArray
from emulator.trace.synthetic.synthetic import WorkNode
from emulator.units import NS_PER_US


@dataclass(frozen=True, slots=True)
class TransformerLoad:
    """A transformer that is planned in place of a trace. Implements PlannedLoad."""

    model: Transformer

    @property
    def ranks(self) -> int:
        """Number of ranks in the world."""
        return self.model.layout.ranks

    def traffic(self, overrides: Mapping[str, str], layouts: Layouts) -> Traffic:
        """See PlannedLoad."""
        return traffic_of_transformer(self.model, overrides=overrides, layouts=layouts)


def transformer_load(text: str) -> TransformerLoad:
    """What `layers=96,tensor=8,…` describes.

    Raises:
        ValueError: see parse_transformer.
    """
    return TransformerLoad(parse_transformer(text))


def traffic_of_transformer(
    model: Transformer, *, overrides: Mapping[str, str], layouts: Layouts | None = None
) -> Traffic:
    """One training iteration of a transformer. Nodes are generated for one rank of each pipeline stage only.

    Groups of one role can be laid out differently; a rank counts with the first of its stage.

    Raises:
        PlanError: as `choose`.
    """
    return _TransformerTraffic(model, overrides, layouts or Layouts()).traffic()


class _Use(NamedTuple):
    role: str
    kind: CommKind
    size_bytes: int


class _TransformerTraffic:
    """All ranks of a stage do the same with groups of the same role, so one rank represents its stage."""

    def __init__(self, model: Transformer, overrides: Mapping[str, str], layouts: Layouts) -> None:
        self._model, self._overrides, self._layout, self._layouts = model, overrides, model.layout, layouts

    def traffic(self) -> Traffic:
        stages = [self._stage(stage) for stage in range(self._model.pipeline)]
        uses: dict[_Use, dict[int, int]] = defaultdict(dict)
        for stage, (_, used) in enumerate(stages):
            for use, count in used.items():
                uses[use][stage] = count
        operations: list[Operation] = []
        members: list[dict[int, int]] = [{} for _ in stages]
        for use, counts in uses.items():
            pending = set(counts)
            for operation, of_stages in self._operations(use, counts):
                for stage in pending & of_stages:
                    members[stage][len(operations)] = counts[stage]
                pending -= of_stages
                operations.append(operation)
        return Traffic(self._layout.ranks, operations, [compute_ns for compute_ns, _ in stages], members)

    def _stage(self, stage: int) -> tuple[int, Counter[_Use]]:
        """(compute time of a rank of the stage in ns, how often it takes part in what)."""
        at = Coordinates(0, 0, stage)
        used: Counter[_Use] = Counter()
        micros = 0
        for node in transformer_nodes(self._model, self._layout.rank(at)):
            micros += node.duration_micros
            if node.kind is not None and node.kind is not CommKind.RECV:
                used[_Use(self._role(node), node.kind, node.size_bytes)] += 1
        return micros * NS_PER_US, used

    def _role(self, node: WorkNode) -> str:
        if node.kind is not CommKind.SEND:
            return self._layout.role(node.group).value
        if self._layout.coordinates(node.peer).context:  # the first rank of a stage sends to the second one of its ring
            return GroupRole.CONTEXT.value
        return node.name.partition(".")[0]  # forward or backward

    def _operations(self, use: _Use, counts: Mapping[int, int]) -> Iterator[tuple[Operation, set[int]]]:
        """The groups of a role, of all stages that take part: those that play alike, and their stages."""
        ranks, stage_of = (self._groups if use.kind.is_collective else self._pairs)(use.role, sorted(counts))
        repeated = np.array([counts[stage] for stage in stage_of], dtype=np.int64)
        alike: Sequence[tuple[str, GroupLayout | None, list[int]]] = [(POINT_TO_POINT, None, [*range(len(ranks))])]
        if use.kind.is_collective:
            alike = by_algorithm(ranks, use.kind, use.size_bytes, self._overrides, self._layouts)
        for name, layout, rows in alike:
            one = Operation(use.role, use.kind, name, use.size_bytes, ranks[rows], repeated[rows], layout=layout)
            yield one, {stage_of[row] for row in rows}

    def _groups(self, role: str, stages: Sequence[int]) -> tuple[IntArray, Sequence[int]]:
        """(ranks by group, stage of each group); groups of several stages count with the first one."""
        members = self._layout.members(GroupRole(role))
        chosen = members[list(stages)] if len(members) == self._layout.pipeline else members
        return chosen.reshape(-1, members.shape[2]), np.repeat(stages[: len(chosen)], members.shape[1]).tolist()

    def _pairs(self, role: str, stages: Sequence[int]) -> tuple[IntArray, Sequence[int]]:
        """(sender and receiver of each pair, stage of the sender)."""
        if role == GroupRole.CONTEXT.value:
            senders = self._layout.members(GroupRole.CONTEXT)[list(stages)]
            receivers = np.roll(senders, -1, axis=2)
        else:
            every = np.arange(self._layout.ranks, dtype=np.int64).reshape(self._layout.pipeline, -1)
            distance = 1 if role == "forward" else -1
            senders = every[list(stages)]
            receivers = every[[(stage + distance) % self._layout.pipeline for stage in stages]]
        pairs = np.stack([senders.reshape(-1), receivers.reshape(-1)], axis=-1)
        return pairs, np.repeat(stages, senders[0].size).tolist()
