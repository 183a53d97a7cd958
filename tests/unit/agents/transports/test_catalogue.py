"""Transports by name."""

import asyncio
import math
from collections.abc import Callable, Sequence

import pytest

from agents.transports import catalogue
from agents.transports.base import Silence
from agents.transports.catalogue import (
    DomainEndpoint,
    DomainGroup,
    DomainTransport,
    ScaleUpDomain,
    make_transport,
    with_domains,
)
from emulator.control.conversation import Address, DomainPlace
from emulator.control.observations import Medium
from emulator.control.parameter import Parameter
from emulator.errors import PlanError
from emulator.host.clock import Clock
from emulator.plugins import PluginKind
from emulator.topology.model import Domain
from emulator.transports.registry import TRANSPORTS
from tests.integration.transport_conformance import Heard, Listener, directory
from tests.support.memory_transport.transport import MemoryNetwork
from tests.support.playing import LateClock
from tests.support.virtual_clock import VirtualClock

NETWORK_NS = 1_000_000
MESSAGE_BYTES = 4096


class Bed:
    """Ranks, of which some share a domain of 450 GB/s and 2 µs, over a network of 1 ms."""

    def __init__(self, ranks: int, domain: Sequence[int], *, late_ns: int = 0) -> None:
        self.virtual = VirtualClock(10**15)
        clock: Clock = LateClock(self.virtual, least_ns=late_ns, most_ns=late_ns) if late_ns else self.virtual
        self.network = MemoryNetwork(self.virtual, latency_ns=NETWORK_NS, read_delay_ns=7)
        places = [DomainPlace(domain, 3_600 * 10**9, 2_000)]
        self.transport = with_domains(self.network, places, clock=clock, message_bytes=MESSAGE_BYTES)
        self.log: list[Heard] = []
        opened = (asyncio.run(self.transport.open(rank, "memory")) for rank in range(ranks))
        self.ranks = [Listener(endpoint, self.log) for endpoint in opened]
        for listener in self.ranks:
            listener.connect(directory(self.ranks))
        self.virtual.run()
        self.start_ns = self.virtual.now()


@pytest.mark.parametrize("late_ns", [0, 50_000])
@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 1), (0, 2), (0, 3)], [(1, 0), (2, 0), (3, 0)]])
def test_transfers_take_their_bytes_over_the_rate_and_the_latency(pairs: list[tuple[int, int]], late_ns: int) -> None:
    bed, rounds, size_bytes = Bed(4, range(4), late_ns=late_ns), 40, 1 << 20
    for tag in range(rounds):
        for sender, receiver in pairs:
            bed.ranks[sender].send(receiver, [(tag, size_bytes)])
    bed.virtual.run()
    transfers = rounds * len(pairs)
    exact_ns = math.ceil(transfers * size_bytes / 450 + 2_000)  # 450 bytes a nanosecond
    last_ns = max(time for listener in bed.ranks for time in listener.times)
    assert len(bed.log) == 2 * transfers
    assert exact_ns <= last_ns - bed.start_ns <= exact_ns + late_ns  # late alarms do not add up


def test_others_cross_the_network_and_neither_knows_of_the_other() -> None:
    bed = Bed(3, [0, 1])
    bed.ranks[0].send(1, [(1, 5000), (2, 0)])
    bed.ranks[0].send(2, [(3, 5000), (4, 0)])
    bed.virtual.run()
    assert bed.ranks[1].arrivals(0) == [(2, 0), (1, 5000)]
    assert sorted(bed.ranks[2].arrivals(0)) == [(3, 5000), (4, 0)]
    assert max(bed.ranks[1].times) < bed.start_ns + NETWORK_NS <= min(bed.ranks[2].times)
    flows = {flow.dst: (flow.medium, flow.bytes, flow.messages) for flow in bed.ranks[0].endpoint.counters()}
    assert flows[1] == (Medium.DOMAIN, 5000, 3)
    assert flows[2][:2] == (Medium.WIRE, 5000)
    assert bed.ranks[0].endpoint.acknowledged_bytes == 10_000


def test_a_rank_without_a_domain_has_the_endpoint_of_the_transport() -> None:
    bed = Bed(3, [0, 1])
    kinds = [isinstance(listener.endpoint, DomainEndpoint) for listener in bed.ranks]
    assert kinds == [True, True, False]


def test_a_run_without_domains_has_the_transport_as_it_is() -> None:
    async def made(domains: Sequence[DomainPlace]) -> bool:
        options = {"message_bytes": MESSAGE_BYTES, "run": "r"}
        transport = make_transport("zmq", **options, domains=domains, clock=VirtualClock())  # type: ignore[arg-type]
        async with transport:
            return isinstance(transport, DomainTransport)

    assert not asyncio.run(made([]))
    assert asyncio.run(made([DomainPlace([0, 1], 10**9, 0)]))


def test_what_has_a_stamp_keeps_it_and_what_comes_through_a_domain_has_none() -> None:
    bed = Bed(3, [0, 1])
    has_stamp: dict[int, bool] = {}

    class Watching(Listener):
        def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
            has_stamp[peer] = self.endpoint.stamp_ns > 0

    endpoints = [asyncio.run(bed.transport.open(rank, "memory")) for rank in range(3)]
    watching, *others = (Watching(endpoint, bed.log) for endpoint in endpoints)
    for listener in (watching, *others):
        listener.connect(directory([watching, *others]))
    for other in others:
        other.send(0, [(1, 10)])
    bed.virtual.run()
    assert has_stamp == {1: False, 2: True}


def test_bytes_move_while_a_long_transfer_is_under_way() -> None:
    """As over a wire: else a run that waits for one would look as if nothing moved."""
    bed = Bed(2, range(2))
    bed.ranks[0].send(1, [(1, 450 * 10**9)])  # a second
    seen = []
    for tenth in range(1, 4):
        bed.virtual.run(until=bed.start_ns + tenth * 10**8)
        seen.append(bed.ranks[0].endpoint.acknowledged_bytes)
    assert seen == [45 * 10**9, 90 * 10**9, 135 * 10**9]


def test_the_rest_of_the_transport_shows_through() -> None:
    class Facts(MemoryNetwork):
        def facts(self) -> dict[str, Parameter]:
            return {"buffer": Parameter(3)}

        def silence(self) -> Silence:
            return Silence(0, 1, 5)

    network = Facts(VirtualClock())
    transport = with_domains(network, [DomainPlace([0, 1], 10**9, 0)], clock=network.clock, message_bytes=MESSAGE_BYTES)
    assert (transport.name, transport.facts(), transport.silence()) == ("memory", network.facts(), network.silence())
    endpoint = asyncio.run(transport.open(1, "memory"))
    assert (endpoint.rank, endpoint.address) == (1, Address("memory", 1))


def test_jobs_may_share_a_domain_and_do_not_hear_of_each_other() -> None:
    clock = VirtualClock()
    domain = ScaleUpDomain(Domain(8 * 10**9), clock)
    jobs = []
    for _ in range(2):
        network, group = MemoryNetwork(clock), DomainGroup(domain, {})
        ends = [DomainEndpoint(network.attach(rank), group, message_bytes=MESSAGE_BYTES) for rank in range(2)]
        log: list[Heard] = []
        jobs.append([Listener(end, log) for end in ends])
        for listener in jobs[-1]:
            listener.connect(directory(jobs[-1]))
    jobs[0][0].send(1, [(1, 100)])
    jobs[1][0].send(1, [(2, 100)])
    clock.run()
    assert [(job[1].arrivals(0), job[1].times) for job in jobs] == [([(1, 100)], [100]), ([(2, 100)], [100])]


@pytest.mark.parametrize("name", TRANSPORTS)
def test_only_the_named_transport_is_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def load(kind: PluginKind, name: str) -> Callable[..., dict[str, object]]:
        loaded.append((kind, name))
        return lambda **given: given

    monkeypatch.setattr(catalogue, "load", load)
    made = make_transport(name, message_bytes=5, run="r")
    assert loaded == [(PluginKind.TRANSPORTS, name)]
    assert made == {"message_bytes": 5, "run": "r", "seed": 0, "options": None, "devices": {}}


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(PlanError, match="there is no transport 'tcp'"):
        make_transport("tcp", message_bytes=1, run="r")
