"""Totals of traffic."""

from __future__ import annotations

from emulator.planner.workloads.synthetic import WORLD_GROUP, GroupRole, Traffic, WorkNode
from emulator.trace.model import CommKind


def test_every_member_of_an_operation_has_a_node() -> None:
    traffic = Traffic(GroupRole.TENSOR, CommKind.ALL_REDUCE, 100, group_size=4, operations=3)
    assert (traffic.nodes, traffic.total_bytes) == (12, 1200)


def test_a_node_computes_for_all_ranks_unless_specified() -> None:
    node = WorkNode(1, "n")
    assert (node.kind, node.group, node.peer, node.deps) == (None, WORLD_GROUP, -1, ())
