"""What a plan is made for: operations of one shape, played by many groups, as arrays of ranks.

It comes from a trace, from one collective, or from the description of a transformer, of which no node of most ranks is
ever made.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from emulator.errors import PlanError
from emulator.planner.algorithms import choose
from emulator.planner.schedule import Collective
from emulator.planner.traffic.phases import Phase, peer_totals, phases, transfers_per_group
from emulator.planner.workloads.collective_loop import CollectiveLoop
from emulator.planner.workloads.layout import Coordinates, Layout
from emulator.planner.workloads.synthetic import WORLD_GROUP, WorkNode
from emulator.planner.workloads.transformer import Transformer
from emulator.planner.workloads.transformer_stage import transformer_nodes
from emulator.trace.model import CommKind, Communication, IntArray, Workload
from emulator.units import NS_PER_US

POINT_TO_POINT = "direct"
"""What a send is listed as: there is nothing to choose."""
SENDERS_AT_ONCE = 1 << 21
"""Transfers that are worked on together: some tens of megabytes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Communications of one shape: the same kind, size, algorithm and group size, in g groups of n ranks.

    Attributes:
        role: what for, "" if not specified.
        kind: a collective, or SEND for pairs of sender and receiver.
        algorithm: that plays it.
        size_bytes: Chakra's comm_size.
        ranks: int64, shape (g, n), world ranks in group order; of a SEND (sender, receiver).
        counts: int64, shape (g,): how often each group plays it.
        root: member number.
        splits: of an uneven all-to-all: all its transfers; then g is 1.
    """

    role: str
    kind: CommKind
    algorithm: str
    size_bytes: int
    ranks: IntArray
    counts: IntArray
    root: int = 0
    splits: Phase | None = None

    @property
    def groups(self) -> int:
        """How many play it."""
        return len(self.ranks)

    @property
    def members(self) -> int:
        """Ranks of a group."""
        return int(self.ranks.shape[1])

    @property
    def transfers(self) -> int:
        """About how many transfers one group makes."""
        if self.splits is not None:
            return len(self.splits.sizes)
        return transfers_per_group(self.algorithm, self.kind, self.members) if self.kind.is_collective else 1

    def totals(self) -> Iterator[Phase]:
        """Transfers of a group in member numbers, all phases together; in several parts where they are many."""
        if self.splits is not None or not self.kind.is_collective:
            yield from self.phases()
            return
        senders = np.arange(self.members, dtype=np.int64)
        parts = -(-self.transfers // SENDERS_AT_ONCE)
        for some in np.array_split(senders, min(parts, self.members)) if parts > 1 else (None,):
            yield peer_totals(self.algorithm, self._collective, some)

    def phases(self) -> Iterator[Phase]:
        """Transfers of a group in member numbers, phase after phase."""
        if self.splits is not None:
            yield self.splits
        elif self.kind.is_collective:
            yield from phases(self.algorithm, self._collective)
        elif self.size_bytes:
            sender, receiver, size = (np.array([value], dtype=np.int64) for value in (0, 1, self.size_bytes))
            yield Phase(sender, receiver, size)

    @property
    def _collective(self) -> Collective:
        return Collective(self.kind, self.members, 0, self.size_bytes, self.root)


class Place(NamedTuple):
    """Where an instance of a trace is found: operation number, group number in it."""

    operation: int
    group: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """All communication of one iteration.

    Attributes:
        ranks: of the world.
        operations: what it does.
        compute_ns: per class of ranks that do the same: compute time of each, ns.
        members: per class of ranks the same, operation number → how often a rank of it takes part.
        places: of a trace: where each instance is found.
    """

    ranks: int
    operations: Sequence[Operation]
    compute_ns: Sequence[int] = ()
    members: Sequence[Mapping[int, int]] = ()
    places: Sequence[Place] = field(default=())


def traffic_of_collective(
    kind: CommKind, *, ranks: int, size_bytes: int, group_size: int, overrides: Mapping[str, str]
) -> Traffic:
    """One collective in groups of neighbouring ranks at once; the last group is smaller where they do not fit.

    Args:
        kind: any collective.
        ranks: of the world.
        size_bytes: as nccl-tests counts it, for a group.
        group_size: ranks of a group.
        overrides: collective → algorithm.

    Raises:
        PlanError: sizes that do not fit the group.
    """
    groups = np.arange(ranks // group_size * group_size, dtype=np.int64).reshape(-1, group_size)
    rest = np.arange(groups.size, ranks, dtype=np.int64).reshape(1, -1)
    operations = []
    for members in (each for each in (groups, rest) if each.size):
        count = members.shape[1]
        size = CollectiveLoop(kind=kind, ranks=count, size_bytes=size_bytes).comm_size
        name = choose(kind, members=count, size_bytes=size, overrides=overrides)
        operations.append(Operation("", kind, name, size, members, np.ones(len(members), dtype=np.int64)))
    return Traffic(ranks, operations)


def traffic_of_workload(workload: Workload, *, name_of: Callable[[Communication], str]) -> Traffic:
    """What a trace moves; `name_of` gives the algorithm of a collective.

    Raises:
        PlanError: an algorithm that does not exist.
    """
    return _WorkloadTraffic(workload, name_of).traffic()


class _Shape(NamedTuple):
    kind: CommKind
    algorithm: str
    size_bytes: int
    members: int
    root: int


class _WorkloadTraffic:
    """Sorts the instances of a workload by shape."""

    def __init__(self, workload: Workload, name_of: Callable[[Communication], str]) -> None:
        self._workload, self._name_of = workload, name_of
        self._groups: dict[_Shape, dict[tuple[int, ...], int]] = defaultdict(dict)
        self._counts: dict[_Shape, Counter[int]] = defaultdict(Counter)
        self._at: dict[int, tuple[_Shape, int]] = {}
        self._uneven: dict[int, dict[int, Communication]] = defaultdict(dict)

    def traffic(self) -> Traffic:
        for program in self._workload.programs:
            for node in program.communications.values():
                if node.send_splits is not None:
                    self._uneven[node.instance][program.rank] = node
                elif node.instance not in self._at:
                    self._add(program.rank, node)
        operations = [self._operation(shape) for shape in self._groups]
        number = {shape: index for index, shape in enumerate(self._groups)}
        found = {instance: Place(number[shape], group) for instance, (shape, group) in self._at.items()}
        for instance, nodes in self._uneven.items():
            found[instance] = Place(len(operations), 0)
            operations.append(self._uneven_operation(nodes))
        places = [found[instance] for instance in range(self._workload.instances)]
        return Traffic(len(self._workload.programs), operations, places=places)

    def _add(self, rank: int, node: Communication) -> None:
        if node.kind.is_collective:
            ranks = self._workload.groups[node.group].ranks
            root = ranks.index(node.root) if node.root in ranks else 0
            shape = _Shape(node.kind, self._name_of(node), node.size_bytes, len(ranks), root)
        else:
            ranks = (rank, node.peer) if node.kind is CommKind.SEND else (node.peer, rank)
            shape = _Shape(CommKind.SEND, POINT_TO_POINT, node.size_bytes, 2, 0)
        group = self._groups[shape].setdefault(ranks, len(self._groups[shape]))
        self._counts[shape][group] += 1
        self._at[node.instance] = (shape, group)

    def _operation(self, shape: _Shape) -> Operation:
        ranks = np.array(list(self._groups[shape]), dtype=np.int64)
        counts = np.array([self._counts[shape][group] for group in range(len(ranks))], dtype=np.int64)
        return Operation("", shape.kind, shape.algorithm, shape.size_bytes, ranks, counts, shape.root)

    def _uneven_operation(self, nodes: Mapping[int, Communication]) -> Operation:
        first = next(iter(nodes.values()))
        ranks = self._workload.groups[first.group].ranks
        matrix = np.array([nodes[rank].send_splits for rank in ranks], dtype=np.int64)
        np.fill_diagonal(matrix, 0)
        senders, receivers = np.nonzero(matrix)
        splits = Phase(senders.astype(np.int64), receivers.astype(np.int64), matrix[senders, receivers])
        size = max(node.size_bytes for node in nodes.values())
        once = np.ones(1, dtype=np.int64)
        return Operation(
            "", first.kind, self._name_of(first), size, np.array([ranks], dtype=np.int64), once, splits=splits
        )


def traffic_of_transformer(model: Transformer, *, overrides: Mapping[str, str]) -> Traffic:
    """One training iteration of a transformer; only one rank of each pipeline stage has its nodes made.

    Raises:
        PlanError: as `choose`.
    """
    return _TransformerTraffic(model, overrides).traffic()


class _Use(NamedTuple):
    role: str
    kind: CommKind
    size_bytes: int


class _TransformerTraffic:
    """All ranks of a stage do the same with groups of the same role, so one rank speaks for its stage."""

    def __init__(self, model: Transformer, overrides: Mapping[str, str]) -> None:
        self._model, self._overrides = model, overrides
        self._layout: Layout = model.layout

    def traffic(self) -> Traffic:
        stages = [self._stage(stage) for stage in range(self._model.pipeline)]
        uses: dict[_Use, dict[int, int]] = defaultdict(dict)
        for stage, (_, used) in enumerate(stages):
            for use, count in used.items():
                uses[use][stage] = count
        operations = [self._operation(use, counts) for use, counts in uses.items()]
        members = [{n: c[stage] for n, c in enumerate(uses.values()) if stage in c} for stage in range(len(stages))]
        return Traffic(self._layout.ranks, operations, [compute for compute, _ in stages], members)

    def _stage(self, stage: int) -> tuple[int, Counter[_Use]]:
        """Compute time of a rank of the stage, ns, and how often it does what."""
        at = Coordinates(0, 0, stage)
        used: Counter[_Use] = Counter()
        micros = 0
        for node in transformer_nodes(self._model, self._layout.rank(at)):
            micros += node.duration_micros
            if node.kind is not None and node.kind is not CommKind.RECV:
                used[_Use(self._role(node, at), node.kind, node.size_bytes)] += 1
        return micros * NS_PER_US, used

    def _role(self, node: WorkNode, at: Coordinates) -> str:
        if node.kind is CommKind.SEND:
            return "forward" if self._layout.coordinates(node.peer).pipeline > at.pipeline else "backward"
        if node.group == WORLD_GROUP:
            return "world"
        if node.group == self._layout.tensor_group(at) and self._layout.tensor > 1:
            return "tensor"
        return "data" if node.group == self._layout.data_group(at) and self._layout.data > 1 else "embedding"

    def _operation(self, use: _Use, counts: Mapping[int, int]) -> Operation:
        """Groups of a role, of all stages that take part."""
        ranks, stage_of = self._groups(use.role, sorted(counts))
        repeated = np.array([counts[stage] for stage in stage_of], dtype=np.int64)
        name = POINT_TO_POINT
        if use.kind.is_collective:
            name = choose(use.kind, members=ranks.shape[1], size_bytes=use.size_bytes, overrides=self._overrides)
        return Operation(use.role, use.kind, name, use.size_bytes, ranks, repeated)

    def _groups(self, role: str, stages: Sequence[int]) -> tuple[IntArray, Sequence[int]]:
        """Ranks by group, and the stage whose count is the group's."""
        every, layout = self._every_rank, self._layout  # shape (pipeline, data, tensor)
        if role == "world":
            return every.reshape(1, -1), [0]
        if role == "embedding":
            return every[[0, -1]].reshape(2, -1).T, [0] * (layout.data * layout.tensor)
        if role in ("forward", "backward"):
            there = [stage + 1 if role == "forward" else stage - 1 for stage in stages]
            pairs = np.stack([every[list(stages)], every[there]], axis=-1)
            return pairs.reshape(-1, 2), np.repeat(stages, layout.data * layout.tensor).tolist()
        mine = every[list(stages)]
        if role == "tensor":
            return mine.reshape(-1, layout.tensor), np.repeat(stages, layout.data).tolist()
        return mine.transpose(0, 2, 1).reshape(-1, layout.data), np.repeat(stages, layout.tensor).tolist()

    @property
    def _every_rank(self) -> IntArray:
        layout = self._layout
        return np.arange(layout.ranks, dtype=np.int64).reshape(layout.pipeline, layout.data, layout.tensor)


def check_size(traffic: Traffic, *, most: int) -> None:
    """Refuse what nobody would wait for.

    Raises:
        PlanError: more than `most` transfers.
    """
    transfers = sum(operation.transfers * operation.groups for operation in traffic.operations)
    if transfers > most:
        raise PlanError(
            f"this plan has about {transfers:.1e} pairs of ranks that talk, and takes up to {most:.0e}: "
            "make the groups smaller, or choose an algorithm with fewer peers (ring, halving_doubling)"
        )
