"""From a host trace alone to a graph: communication in the order of its records, with the dependencies of its data.

Without times there is no compute time to play. A communication depends on those whose results it reads, also through
operators in between: storages of tensors tell (PyTorch may use a storage again, which can only add dependencies).
A barrier depends on all before it, and all after it depend on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from emulator.annexes.importers.model import Fate, ImportedNode, Losses, NodeResource, RecordedOperation
from emulator.annexes.importers.pytorch.host_trace import HostTrace
from emulator.trace.meaning.model import CommKind


def host_order(trace: HostTrace, operations: Mapping[int, RecordedOperation], losses: Losses) -> list[ImportedNode]:
    """The nodes of a rank.

    Args:
        operations: id of the record → the operation that it is.
    """
    records = trace.records
    results: defaultdict[int, frozenset[int]] = defaultdict(frozenset)
    nodes: list[ImportedNode] = []
    barrier = 0
    merged = int(np.count_nonzero(records.is_leaf & ~np.isin(records.ids, list(operations))))
    for row, node_id in enumerate(records.ids.tolist()):
        operation = operations.get(node_id)
        if operation is not None:
            number = len(nodes) + 1
            used = operation.reads | operation.writes
            deps = frozenset().union(*(results[storage] for storage in used)) | ({barrier} if barrier else frozenset())
            if operation.kind is CommKind.BARRIER:
                deps, barrier = frozenset(range(max(1, barrier), number)), number
            nodes.append(
                ImportedNode(
                    number, operation.kind.label, NodeResource.NETWORK, tuple(sorted(deps)), operation=operation
                )
            )
            for storage in operation.writes:
                results[storage] = frozenset({number})
        elif nodes and records.is_leaf[row]:
            read = [results[one] for one in records.reads.of(row) if one in results]
            if read:
                from_results = frozenset().union(*read)
                for one in records.writes.of(row):
                    results[one] |= from_results
    losses.count(Fate.MERGED, "operators without times into dependencies of communication", number=merged)
    return nodes
