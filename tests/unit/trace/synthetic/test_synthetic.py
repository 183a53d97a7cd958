"""Totals of traffic."""

from __future__ import annotations

import pytest

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.collective_loop import CollectiveLoop
from emulator.trace.synthetic.sweep import Sweep
from emulator.trace.synthetic.synthetic import LARGEST_JOB_NODES, WORLD_GROUP, GroupRole, Traffic, WorkNode


def test_a_job_too_large_to_be_prepared_is_refused() -> None:
    ranks = LARGEST_JOB_NODES // 2
    Sweep(CommKind.BARRIER, ranks, (1, 2))
    with pytest.raises(
        PlanError, match=r"ranks with 3 communications each have 30,000,000 nodes; .* at most 20,000,000"
    ):
        Sweep(CommKind.BARRIER, ranks, (1, 2, 3))
    with pytest.raises(PlanError, match="at most 20,000,000"):
        CollectiveLoop(kind=CommKind.BARRIER, ranks=ranks, count=3)


def test_every_member_of_an_operation_has_a_node() -> None:
    traffic = Traffic(GroupRole.TENSOR, CommKind.ALL_REDUCE, 100, group_size=4, operations=3)
    assert (traffic.nodes, traffic.total_bytes) == (12, 1200)


def test_a_node_computes_for_all_ranks_unless_specified() -> None:
    node = WorkNode(1, "n")
    assert (node.kind, node.group, node.peer, node.deps) == (None, WORLD_GROUP, -1, ())
