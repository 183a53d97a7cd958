"""Nodes of a workload, and how many there may be."""

from collections.abc import Iterator

import pytest

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.sweep import SweepWorkload
from emulator.trace.synthetic.synthetic import LARGEST_JOB_NODES, WORLD_GROUP, NodeChain, WorkNode


def test_a_job_too_large_to_be_prepared_is_refused() -> None:
    ranks = LARGEST_JOB_NODES // 2
    SweepWorkload(CommKind.BARRIER, ranks, (1, 2))
    with pytest.raises(
        PlanError, match=r"ranks with 3 communications each have 30,000,000 nodes; .* at most 20,000,000"
    ):
        SweepWorkload(CommKind.BARRIER, ranks, (1, 2, 3))


def test_a_node_computes_for_all_ranks_unless_specified() -> None:
    node = WorkNode(1, "n")
    assert (node.kind, node.group, node.peer, node.deps) == (None, WORLD_GROUP, -1, ())


def test_ids_count_up_and_the_device_works_on_one_node_after_the_other() -> None:
    chain = NodeChain()

    def emitted() -> Iterator[WorkNode]:
        computed = yield from chain.compute("first", 5, 0)
        sent = yield from chain.append("sent", computed, 0, kind=CommKind.SEND, size_bytes=7, peer=3)
        yield from chain.compute("second", 6, sent)

    first, sent, second = emitted()
    assert [node.node_id for node in (first, sent, second)] == [1, 2, 3]
    assert [node.deps for node in (first, sent, second)] == [(), (1,), (1, 2)]
    assert (sent.kind, sent.size_bytes, sent.peer) == (CommKind.SEND, 7, 3)
    assert chain.device == 3
