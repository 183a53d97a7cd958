"""Nodes one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.node_chain import NodeChain
from emulator.trace.synthetic.synthetic import WorkNode


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
