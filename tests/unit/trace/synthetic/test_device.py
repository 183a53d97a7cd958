"""How long work takes on a device."""

from collections.abc import Iterator

import pytest

from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.device import NodeChain, compute_micros, memory_micros
from emulator.trace.synthetic.synthetic import WorkNode


def test_durations_follow_from_rates() -> None:
    assert compute_micros(3e12, tflops=1.5) == 2_000_000
    assert memory_micros(4e9, gbytes_per_s=2) == 2_000_000
    assert compute_micros(1, tflops=1) == memory_micros(1, gbytes_per_s=1) == 1


def test_a_duration_beyond_the_limit_of_a_trace_is_refused() -> None:
    with pytest.raises(PlanError, match="would compute for"):
        compute_micros(1e30, tflops=1e-3)


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
