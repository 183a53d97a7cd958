"""The traffic of a trace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from emulator.planner.algorithms import POINT_TO_POINT, depends_on_layout
from emulator.planner.group_layout import GroupLayout, Layouts
from emulator.planner.traffic.operation import Operation, Traffic, TrafficPlace
from emulator.planner.traffic.phase import Phase
from emulator.trace.meaning.model import CommKind, Communication, Workload


def traffic_of_workload(
    workload: Workload, *, name_of: Callable[[Communication], str], layouts: Layouts | None = None
) -> Traffic:
    """The traffic of a trace; `name_of` returns the algorithm of a collective, `layouts` are those of its groups.

    Raises:
        PlanError: there is no such algorithm.
    """
    return _WorkloadTraffic(workload, name_of, layouts or Layouts()).traffic()


class _OperationShape(NamedTuple):
    kind: CommKind
    algorithm: str
    size_bytes: int
    members: int
    root: int
    layout: GroupLayout | None = None


class _WorkloadTraffic:
    """Collects the instances of a workload by shape."""

    def __init__(self, workload: Workload, name_of: Callable[[Communication], str], layouts: Layouts) -> None:
        self._workload, self._name_of, self._layouts = workload, name_of, layouts
        self._groups: dict[_OperationShape, dict[tuple[int, ...], int]] = defaultdict(dict)
        self._counts: dict[_OperationShape, Counter[int]] = defaultdict(Counter)
        self._place_of: dict[int, tuple[_OperationShape, int]] = {}
        self._uneven: dict[int, dict[int, Communication]] = defaultdict(dict)

    def traffic(self) -> Traffic:
        for program in self._workload.programs:
            for node in program.communications.values():
                if node.send_splits is not None:
                    self._uneven[node.instance][program.rank] = node
                elif node.instance not in self._place_of:
                    self._add(program.rank, node)
        operations = [self._operation(shape) for shape in self._groups]
        number = {shape: index for index, shape in enumerate(self._groups)}
        found = {instance: TrafficPlace(number[shape], group) for instance, (shape, group) in self._place_of.items()}
        for instance, nodes in self._uneven.items():
            found[instance] = TrafficPlace(len(operations), 0)
            operations.append(self._uneven_operation(nodes))
        places = [found[instance] for instance in range(self._workload.instances)]
        return Traffic(len(self._workload.programs), operations, places=places)

    def _add(self, rank: int, node: Communication) -> None:
        if node.kind.is_collective:
            ranks = self._workload.groups[node.group].ranks
            root = ranks.index(node.root) if node.root in ranks else 0
            name = self._name_of(node)
            layout = self._layouts.of(ranks) if depends_on_layout(node.kind, name) else None
            shape = _OperationShape(node.kind, name, node.size_bytes, len(ranks), root, layout)
        else:
            ranks = node.ends(rank)
            kind = node.kind if node.kind.is_storage else CommKind.SEND
            shape = _OperationShape(kind, POINT_TO_POINT, node.size_bytes, 2, 0)
        group = self._groups[shape].setdefault(ranks, len(self._groups[shape]))
        self._counts[shape][group] += 1
        self._place_of[node.instance] = (shape, group)

    def _operation(self, shape: _OperationShape) -> Operation:
        ranks = np.array(list(self._groups[shape]), dtype=np.int64)
        counts = np.array([self._counts[shape][group] for group in range(len(ranks))], dtype=np.int64)
        return Operation(
            "", shape.kind, shape.algorithm, shape.size_bytes, ranks, counts, shape.root, layout=shape.layout
        )

    def _uneven_operation(self, nodes: Mapping[int, Communication]) -> Operation:
        first = next(iter(nodes.values()))
        ranks = self._workload.groups[first.group].ranks
        matrix = np.zeros((len(ranks), len(ranks)), dtype=np.int64)
        for at, rank in enumerate(ranks):
            if (node := nodes.get(rank)) is None:  # not recorded: what it sends is what the others receive
                continue
            matrix[at] = np.array(node.send_splits, dtype=np.int64)
            if node.recv_splits is not None:
                matrix[:, at] = np.array(node.recv_splits, dtype=np.int64)
        np.fill_diagonal(matrix, 0)
        senders, receivers = np.nonzero(matrix)
        splits = Phase(senders.astype(np.int64), receivers.astype(np.int64), matrix[senders, receivers])
        size = max(node.size_bytes for node in nodes.values())
        once = np.ones(1, dtype=np.int64)
        return Operation(
            "", first.kind, self._name_of(first), size, np.array([ranks], dtype=np.int64), once, splits=splits
        )
