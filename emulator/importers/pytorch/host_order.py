"""From a host trace alone to a graph: communication in the order of its records, with the dependencies of its data.

Without times there is no compute time to play. A communication depends on those whose results it reads, also through
operators in between: storages of tensors tell (PyTorch may use a storage again, which can only add dependencies).
A barrier depends on all before it, and all after it depend on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from emulator.importers.losses import Fate, Losses
from emulator.importers.model import ImportedNode, Operation, Place
from emulator.importers.pytorch.host_trace import HostTrace, tensors_of
from emulator.trace.model import CommKind


def host_order(trace: HostTrace, operations: Mapping[int, Operation], losses: Losses) -> list[ImportedNode]:
    """The nodes of a rank.

    Args:
        trace: of one rank.
        operations: id of the record → the operation that it is.
        losses: what is merged is counted there.
    """
    with_children = {node.parent_id for node in trace.nodes}
    results: defaultdict[int, frozenset[int]] = defaultdict(frozenset)
    nodes: list[ImportedNode] = []
    barrier = 0
    merged = 0
    for record in trace.nodes:
        operation = operations.get(record.id)
        if operation is not None:
            number = len(nodes) + 1
            used = operation.reads | operation.writes
            deps = frozenset().union(*(results[storage] for storage in used)) | ({barrier} if barrier else frozenset())
            if operation.kind is CommKind.BARRIER:
                deps, barrier = frozenset(range(max(1, barrier), number)), number
            nodes.append(
                ImportedNode(number, operation.kind.label, Place.NETWORK, tuple(sorted(deps)), operation=operation)
            )
            for storage in operation.writes:
                results[storage] = frozenset({number})
        elif record.id not in with_children:
            merged += 1
            read = [results[one.storage] for one in tensors_of(record.input_values) if one.storage in results]
            if read:
                from_results = frozenset().union(*read)
                for one in tensors_of(record.output_values):
                    results[one.storage] |= from_results
    losses.count(Fate.MERGED, "operators without times into dependencies of communication", number=merged)
    return nodes
