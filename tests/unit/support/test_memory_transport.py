from collections.abc import Callable, Coroutine

import pytest

from agents.transports.base import Endpoint
from tests.integration.transport_conformance import CASES, Bed, Case, Heard, Listener, directory
from tests.support.memory_transport.transport import MemoryNetwork
from tests.support.virtual_clock import VirtualClock


class MemoryBed(Bed):
    def __init__(self, **faults: float) -> None:
        super().__init__()
        self.message_bytes = 1000
        self.clock = VirtualClock()
        self.network = MemoryNetwork(
            self.clock, seed=5, bytes_per_s=10**9, message_bytes=self.message_bytes, retry_limit=40, **faults
        )

    async def open(self, rank: int) -> Endpoint:
        return await self.network.open(rank, "memory")

    async def until(self, reached: Callable[[], bool]) -> None:
        self.clock.run_until(reached)

    async def quiesce(self) -> None:
        self.clock.run(self.clock.now() + 100_000)


def drive(coroutine: Coroutine[None, None, None]) -> None:
    """Run a coroutine that never waits: time is virtual."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


@pytest.mark.parametrize("faults", [{}, {"loss": 0.2, "duplication": 0.2, "reordering": 0.2}], ids=["clean", "faulty"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Case, faults: dict[str, float]) -> None:
    drive(case(MemoryBed(**faults)))


def pair(network: MemoryNetwork) -> tuple[Listener, Listener]:
    log: list[Heard] = []
    a, b = (Listener(network.attach(rank), log) for rank in range(2))
    for listener in (a, b):
        listener.connect(directory([a, b]))
    return a, b


def test_a_transfer_takes_latency_and_serialisation() -> None:
    clock = VirtualClock()
    a, b = pair(MemoryNetwork(clock, latency_ns=500, bytes_per_s=10**9, message_bytes=1000))
    a.send(1, [(1, 4000), (2, 0)])
    clock.run()
    assert b.times == [500, 4500]
    assert a.times == [1000, 5000]


def test_without_a_rate_only_latency_counts() -> None:
    clock = VirtualClock()
    a, b = pair(MemoryNetwork(clock, latency_ns=500, message_bytes=1000))
    a.send(1, [(1, 8000)])
    clock.run()
    assert b.times == [500]


def test_few_messages_are_in_flight() -> None:
    clock = VirtualClock()
    a, b = pair(MemoryNetwork(clock, latency_ns=500, message_bytes=1000, window_messages=2))
    a.send(1, [(1, 6000)])
    clock.run()
    assert b.times == [500 + 2 * 1000]


def test_nothing_is_sent_again_on_a_clean_network() -> None:
    clock = VirtualClock()
    a, _ = pair(MemoryNetwork(clock, bytes_per_s=10**6))
    a.send(1, [(tag, 10_000_000) for tag in range(3)])
    clock.run()
    assert a.acknowledgements(1) == [0, 1, 2]
    assert a.endpoint.counters()[0].retransmits == 0


def test_losses_are_repaired_and_counted() -> None:
    clock = VirtualClock()
    a, b = pair(MemoryNetwork(clock, seed=3, loss=0.3, message_bytes=10))
    a.send(1, [(tag, 95) for tag in range(20)])
    clock.run()
    assert b.arrivals(0) == [(tag, 95) for tag in range(20)]
    flow = a.endpoint.counters()[0]
    assert (flow.bytes, flow.messages) == (1900, 200)
    assert flow.retransmits is not None
    assert flow.retransmits >= 60  # 200 messages, of which nearly a third is lost


def test_a_seed_repeats_its_faults() -> None:
    def run(seed: int) -> list[int]:
        clock = VirtualClock()
        a, b = pair(MemoryNetwork(clock, seed=seed, loss=0.2, duplication=0.2, reordering=0.2, message_bytes=10))
        a.send(1, [(tag, 95) for tag in range(20)])
        clock.run()
        return b.times

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_peer_that_never_answers_has_failed() -> None:
    clock = VirtualClock()
    a, b = pair(MemoryNetwork(clock, loss=1.0, retry_limit=5))
    a.send(1, [(1, 10), (2, 0)])
    clock.run()
    assert (a.failures(1), a.reasons, b.log) == (1, ["no answer after 5 retransmissions"], a.log)
    assert a.endpoint.counters()[0].retransmits in range(5, 11)


def test_leaving_the_network_closes_all_endpoints() -> None:
    clock = VirtualClock()

    async def scenario() -> None:
        async with MemoryNetwork(clock) as network:
            a, b = pair(network)
            a.send(1, [(1, 10)])
        clock.run()
        assert b.log == []

    drive(scenario())
