"""Nodes one after the other."""

from __future__ import annotations

from emulator.planner.workloads.node_chain import NodeChain
from emulator.trace.model import CommKind


def test_ids_count_up_and_the_device_works_on_one_node_after_the_other() -> None:
    chain = NodeChain()
    first, sent, second = (
        next(chain.compute("first", 5, 0)),
        next(chain.communicate("sent", 1, 0, kind=CommKind.SEND, size_bytes=7, peer=3)),
        next(chain.compute("second", 6, 2)),
    )
    assert [node.node_id for node in (first, sent, second)] == [1, 2, 3]
    assert [node.deps for node in (first, sent, second)] == [(), (1,), (1, 2)]
    assert (sent.kind, sent.size_bytes, sent.peer) == (CommKind.SEND, 7, 3)
    assert chain.device == 3
