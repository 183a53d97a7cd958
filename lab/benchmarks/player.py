"""What playing itself costs a rank: transfers and compute nodes on endpoints that deliver at once, without sockets.

python -m lab.benchmarks.player --ranks 64 --rounds 4 --nodes 100000
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agents.play.player import RankPlayer
from agents.transports.base import Endpoint, EndpointEvents
from emulator.control.conversation import Address
from emulator.control.observations import Completion, FlowCounters, RankSummary
from emulator.planner.rank_program import Chunk, PlannedCommunication, PlaySettings
from emulator.roce.connection.messages import FirstSent
from emulator.trace.meaning.model import CommKind, Resource
from tests.support.virtual_clock import VirtualClock

BYTES = 1 << 20


class Wire:
    """Carries every transfer to its player in the order of posting."""

    def __init__(self) -> None:
        self.events: dict[int, EndpointEvents] = {}
        self.queue: deque[tuple[int, int, int, int]] = deque()

    def pump(self) -> int:
        """Deliver until nothing is on its way; returns how many transfers that were."""
        carried = 0
        while self.queue:
            source, target, tag, size = self.queue.popleft()
            carried += 1
            self.events[target].arrived(source, tag, size, carried)
            self.events[source].acknowledged(target, tag, carried)
        return carried


class InstantEndpoint(Endpoint):
    """A rank's place on a Wire."""

    stamp_ns = received_ns = stalled_ns = lead_bytes = clock_steps = 0
    """See Endpoint."""

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """See Endpoint."""
        return 0

    def __init__(self, rank: int, wire: Wire) -> None:
        self._rank, self._wire = rank, wire

    @property
    def rank(self) -> int:
        """See Endpoint."""
        return self._rank

    @property
    def address(self) -> Address:
        """See Endpoint."""
        return Address("instant", self._rank)

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """See Endpoint."""
        self._wire.events[self._rank] = events

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """See Endpoint."""
        self._wire.queue.append((self._rank, peer, tag, size))

    def flush(self) -> None:
        """See Endpoint."""

    def collect(self) -> None:
        """See Endpoint."""

    @property
    def acknowledged_bytes(self) -> int:
        """See Endpoint."""
        return 0

    def counters(self) -> Sequence[FlowCounters]:
        """See Endpoint."""
        return []

    def eventful(self) -> Sequence[FlowCounters]:
        """See Endpoint."""
        return []

    def close(self) -> None:
        """See Endpoint."""


class Silent:
    """A PlayObserver that only counts iterations."""

    def __init__(self) -> None:
        self.done = 0

    def completed(self, completion: Completion) -> None:
        """See PlayObserver."""

    def retired(self, rank: int, nodes: int) -> None:
        """See PlayObserver."""

    def computed(self, rank: int, iteration: int, spans: Sequence[tuple[int, int]]) -> None:
        """See PlayObserver."""

    def iteration_done(self, iteration: int, summary: RankSummary) -> None:
        """See PlayObserver."""
        self.done += 1

    def failed(self, rank: int, reason: str) -> None:
        """See PlayObserver."""
        raise AssertionError(reason)


def chunk(rank: int, resource: Resource, *, nodes: int, duration_ns: int, kind: CommKind | None = None) -> Chunk:
    """A chain of equal nodes."""
    numbers = np.arange(nodes)
    planned = [
        PlannedCommunication(kind, group=0, size_bytes=BYTES, instance=k, peer=-1, root=-1, algorithm=0)
        for k in range(nodes if kind is not None else 0)
    ]
    return Chunk(
        rank=rank,
        first_position=0,
        node_id=numbers.astype(np.uint64),
        resource=np.full(nodes, resource, np.uint32),
        duration_ns=np.full(nodes, duration_ns, np.uint64),
        dependencies=(numbers > 0).astype(np.uint32),
        distance=np.ones(max(0, nodes - 1), np.uint64),
        communications=dict(enumerate(planned)),
    )


def transfers(ranks: int, rounds: int, *, with_credits: bool) -> tuple[int, Callable[[], object]]:
    """Payload transfers of some ring all-reduces, and what plays them."""
    clock, wire, observer = VirtualClock(), Wire(), Silent()
    settings = PlaySettings(credits=with_credits, instances=rounds, algorithms=("ring",), groups=(tuple(range(ranks)),))
    for rank in range(ranks):
        endpoint = InstantEndpoint(rank, wire)
        player = RankPlayer(endpoint, clock, observer, settings=settings, nodes=rounds)
        endpoint.connect({}, player)
        player.deliver(chunk(rank, Resource.NETWORK, nodes=rounds, duration_ns=0, kind=CommKind.ALL_REDUCE))
        player.begin(0, 0)

    def run() -> None:
        clock.run()
        wire.pump()
        assert observer.done == ranks

    return 2 * (ranks - 1) * ranks * rounds, run


def compute(nodes: int) -> tuple[int, Callable[[], object]]:
    """Compute nodes in a chain, and what plays them: an alarm for each."""
    clock, wire, observer = VirtualClock(), Wire(), Silent()
    settings = PlaySettings(credits=True, instances=1, algorithms=(), groups=((0,),))
    player = RankPlayer(InstantEndpoint(0, wire), clock, observer, settings=settings, nodes=nodes)
    player.deliver(chunk(0, Resource.DEVICE, nodes=nodes, duration_ns=2_000))
    player.begin(0, 0)
    return nodes, clock.run


def report(what: str, job: tuple[int, Callable[[], object]], *, profiled: bool) -> None:
    """Run it and print µs per unit; `profiled`: where the time went instead."""
    count, run = job
    if profiled:
        with cProfile.Profile() as profile:
            run()
        pstats.Stats(profile).sort_stats("tottime").print_stats(14)
        return
    began = time.perf_counter()
    run()
    print(f"{what}: {(time.perf_counter() - began) / count * 1e6:.2f} µs over {count}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4, help="all-reduces")
    parser.add_argument("--nodes", type=int, default=100_000, help="compute nodes")
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    args = parser.parse_args()
    for with_credits in (True, False):
        job = transfers(args.ranks, args.rounds, with_credits=with_credits)
        report(f"ring step of a rank, credits {'on' if with_credits else 'off'}", job, profiled=args.profile)
    report("compute node", compute(args.nodes), profiled=args.profile)


if __name__ == "__main__":
    main()
