"""Endpoints of two ranks over a network in memory: transfers, strangers, failures and counters."""

from __future__ import annotations

import errno
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from agents.nic.channel import Agenda
from agents.nic.context import Context, make_context
from agents.nic.port import PortPacer
from agents.nic.system_calls import UDP_SEGMENT, ControlMessages, SocketAddress
from agents.transports.base import Address
from agents.transports.roce.connection_id import FIRST_QPN
from agents.transports.roce.endpoint import RoceEndpoint
from emulator.errors import LocalProtocolError
from emulator.roce.constants import UDP_PORT
from emulator.roce.options import RoceOptions
from tests.support.virtual_clock import VirtualClock

HOSTS = {0: "192.0.2.1", 1: "192.0.2.2", 2: "192.0.2.3"}
PATH_MTU = 1024


class Network:
    """Delivers datagrams between sockets by address; `loses` decides which are lost."""

    def __init__(self) -> None:
        self.queues: dict[str, deque[tuple[bytes, SocketAddress]]] = {}
        self.datagrams = 0
        self.loses: Callable[[bytes], bool] = lambda datagram: False

    def deliver(self, datagram: bytes, source: SocketAddress, target: SocketAddress) -> None:
        self.datagrams += 1
        if target[0] in self.queues and not self.loses(datagram):
            self.queues[target[0]].append((datagram, source))


class MemorySocket:
    """What a reader uses of a socket."""

    def __init__(self, network: Network, host: str, fd: int) -> None:
        self._fd, self._host, self._network = fd, host, network
        self._queue = network.queues[host] = deque()

    def fileno(self) -> int:
        return self._fd

    def recvmsg_into(self, buffers: Sequence[memoryview], room: int) -> tuple[int, list[Any], int, SocketAddress]:
        if not self._queue:
            raise BlockingIOError
        datagram, sender = self._queue.popleft()
        buffers[0][: len(datagram)] = datagram
        return len(datagram), [], 0, sender

    def close(self) -> None:
        del self._network.queues[self._host]


class MemoryListener:
    """The listening socket of an address."""

    def __init__(self, network: Network, host: str, fd: int) -> None:
        self.host, self.is_v6, self.buffer_bytes, self.is_merging = host, False, 1 << 20, False
        self.has_stamps = False
        self.socket = MemorySocket(network, host, fd)


class MemorySender:
    """A sending socket; calls are cut into datagrams here."""

    def __init__(self, network: Network, host: str, port: int) -> None:
        self._network, self._source = network, (host, port)
        self.port, self.is_v6, self.drops = port, False, 0

    def send(
        self, pieces: Sequence[Any], to: SocketAddress, control: ControlMessages = (), *, packets: int = 1
    ) -> bool:
        call = b"".join(bytes(piece) for piece in pieces)
        strides = [struct.unpack("=H", data)[0] for _, kind, data in control if kind == UDP_SEGMENT]
        stride = strides[0] if strides else len(call)
        for start in range(0, len(call), stride):
            self._network.deliver(call[start : start + stride], self._source, to)
        return True

    def send_cut(self, batch: Any, slot: int, count: int, to: SocketAddress) -> None:
        for one in range(slot, slot + count):
            self.send(batch.staging.pieces(one, 1), to)

    def send_whole(self, datagram: Any, to: SocketAddress) -> None:
        self.send([datagram], to)


class MemorySenders:
    """The sending sockets of a process."""

    def __init__(self, network: Network) -> None:
        self._network, self.closed = network, set[str]()

    def get(self, host: str, port: int) -> MemorySender:
        return MemorySender(self._network, host, port)

    def close(self, host: str) -> None:
        self.closed.add(host)


class Passes:
    """The part of passes that an endpoint uses; callbacks are called by `World.run`."""

    def __init__(self) -> None:
        self.agenda, self.singles_per_turn = Agenda(), 4
        self.listening: set[int] = set()
        self.soon: deque[Callable[[], None]] = deque()

    def listen(self, endpoint: object, fd: int) -> None:
        self.listening.add(fd)

    def forget(self, fd: int) -> None:
        self.listening.discard(fd)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def watch(self) -> None:
        """Timeouts are not part of this world."""


class Rank:
    """The events of a rank."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[int, int, int]] = []
        self.acknowledgements: list[tuple[int, int]] = []
        self.failures: list[tuple[int, str]] = []

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        self.arrivals += [(peer, tag, size)] * count

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        self.acknowledgements.append((peer, tag))

    def failed(self, peer: int, reason: str) -> None:
        self.failures.append((peer, reason))


class World:
    """Two ranks.

    Args:
        connects: connect both ranks at once.
        is_local: both ranks are in the same process.
        port_bps: rate of the port of each rank; 0: no pacing.
        options: of the transport.
    """

    def __init__(self, *, connects: bool = True, is_local: bool = False, port_bps: int = 0, **options: Any) -> None:
        self.network, self.clock = Network(), VirtualClock(time.monotonic_ns())
        self.options, self.port_bps = RoceOptions(path_mtu=PATH_MTU, **options), port_bps
        one = Passes()
        self.ranks, self.passes = [Rank(), Rank()], [one, one if is_local else Passes()]
        self.contexts: list[Context] = []
        self.ends: list[RoceEndpoint] = []
        self.local: dict[int, RoceEndpoint] | None = {} if is_local else None
        for number in range(2):
            self._add(number)
        for end, rank in zip(self.ends, self.ranks, strict=True):
            if connects:
                end.connect(self.directory, rank)

    @property
    def directory(self) -> Mapping[int, Address]:
        return {number: Address(HOSTS[number], UDP_PORT) for number in range(2)}

    def _add(self, number: int) -> None:
        senders = cast(Any, MemorySenders(self.network))
        context = make_context(options=self.options, clock=self.clock, senders=senders, payload_seed=None)
        if self.local is not None and self.contexts:
            context = self.contexts[0]
        self.contexts.append(context)
        listener = cast(Any, MemoryListener(self.network, HOSTS[number], 100 + number))
        port = PortPacer(self.clock, rate_bps=self.port_bps, path_mtu=PATH_MTU, is_v6=False) if self.port_bps else None
        end = RoceEndpoint(
            number,
            listener,
            context,
            cast(Any, self.passes[number]),
            local={} if self.local is None else self.local,
            message_bytes=4 * PATH_MTU,
            seed=1,
            rkey=7,
            port=port,
        )
        self.ends.append(end)
        if self.local is not None:
            self.local[number] = end

    def run(self) -> None:
        """Deliver everything until nothing happens any more."""
        while True:
            before = self.network.datagrams
            for end, passes in zip(self.ends, self.passes, strict=True):
                end.nic.catch_up()
                while passes.soon:
                    passes.soon.popleft()()
                for _ in range(len(passes.agenda.unfinished)):
                    passes.agenda.unfinished.popleft().send_more(0, 4)
            if self.network.datagrams == before and not any(self.network.queues.values()):
                for passes in self.passes:
                    passes.agenda.reply()
                if self.network.datagrams == before:
                    self.clock.run()
                if self.network.datagrams == before:
                    return

    def send(self, *transfers: tuple[int, int]) -> None:
        """Post transfers (tag, size) from rank 0 to rank 1, and deliver them."""
        for tag, size in transfers:
            self.ends[0].post(1, tag, size)
        self.ends[0].flush()
        self.run()

    def later(self) -> int:
        """The later of both clocks: endpoints read the system's, and alarms come on the virtual one."""
        return max(self.clock.now(), time.monotonic_ns())

    def inject(self, datagram: bytes, *, source: str = HOSTS[0]) -> None:
        """A datagram from somebody, to rank 1."""
        self.network.deliver(datagram, (source, 50_000), (HOSTS[1], UDP_PORT))
        self.run()


@pytest.mark.parametrize("qps", [1, 3])
@pytest.mark.parametrize("size", [0, 1, PATH_MTU, PATH_MTU + 1, 5 * PATH_MTU, 200 * PATH_MTU + 7])
def test_a_transfer_of_any_size_arrives_and_is_acknowledged(size: int, qps: int) -> None:
    world = World(qps=qps)
    world.send((7, size))
    assert world.ranks[1].arrivals == [(0, 7, size)]
    assert world.ranks[0].acknowledgements == [(1, 7)]
    assert world.ends[0].acknowledged_bytes == size


@pytest.mark.parametrize("payload", ["constant", "random"])
@pytest.mark.parametrize("size", [0, 1, 5 * PATH_MTU, 3000 * PATH_MTU + 7])
def test_transfers_between_ranks_of_one_process_arrive_in_turns(size: int, payload: str) -> None:
    world = World(is_local=True, payload=payload)
    world.send((7, size), (8, 1))
    assert sorted(world.ranks[1].arrivals) == [(0, 7, size), (0, 8, 1)]
    assert sorted(world.ranks[0].acknowledgements) == [(1, 7), (1, 8)]


@pytest.mark.parametrize("size", [0, 1, 200 * PATH_MTU + 7])
def test_transfers_arrive_through_a_paced_port(size: int) -> None:
    world = World(port_bps=100_000_000)
    world.send((7, size), (8, 0))
    assert sorted(world.ranks[1].arrivals) == [(0, 7, size), (0, 8, 0)]
    assert sorted(world.ranks[0].acknowledgements) == [(1, 7), (1, 8)]


def test_a_paced_port_spreads_a_transfer_over_time() -> None:
    world = World(port_bps=100_000_000)
    world.send((6, 1))
    before = world.clock.now()
    world.send((7, 1000 * PATH_MTU))
    assert world.later() - before > 0.8 * 1000 * PATH_MTU * 8 * 10  # 10 ns per bit


def test_a_flow_rate_spreads_a_transfer_over_time() -> None:
    world = World(flow_rate_bps=100_000_000)
    world.send((6, 1))
    before = world.clock.now()
    world.send((7, 1000 * PATH_MTU))
    assert world.ranks[1].arrivals[1:] == [(0, 7, 1000 * PATH_MTU)]
    assert world.later() - before > 0.8 * 1000 * PATH_MTU * 8 * 10


def test_a_send_that_fails_is_a_failure_of_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> bool:
        raise OSError(errno.EMSGSIZE, "Message too long")

    monkeypatch.setattr(MemorySender, "send", refuse)
    world = World()
    world.send((7, 10 * PATH_MTU))
    assert world.ranks[0].failures == [
        (1, f"packets of path MTU {PATH_MTU} do not fit the interface: choose a smaller --path-mtu")
    ]


def test_transfers_of_a_batch_arrive_in_order() -> None:
    world = World()
    transfers = [(tag, size) for tag, size in enumerate([1, 3000, 5, 70_000, 8, 8])]
    world.send(*transfers)
    assert world.ranks[1].arrivals == [(0, tag, size) for tag, size in transfers]


def test_nothing_leaves_before_the_flush() -> None:
    world = World()
    world.ends[0].post(1, 7, 5000)
    assert world.network.datagrams == 0


def test_both_ends_count_the_same_flow() -> None:
    world = World()
    world.send((7, 10 * PATH_MTU))
    (sent,) = (row for row in world.ends[0].counters() if row.messages)
    (received,) = world.ends[1].counters()
    assert (sent.src, sent.dst, sent.bytes, sent.qpn) == (0, 1, 10 * PATH_MTU, received.qpn)
    assert (received.src, received.dst, received.duplicates) == (0, 1, 0)


def test_a_rank_must_be_in_the_directory() -> None:
    world = World()
    with pytest.raises(LocalProtocolError, match="rank 0 posted to rank 9, which is not in its directory"):
        world.ends[0].post(9, 7, 1)


def test_a_rank_cannot_post_before_it_is_connected() -> None:
    with pytest.raises(LocalProtocolError, match="not in its directory"):
        World(connects=False).ends[0].post(1, 7, 1)


def test_a_rank_is_connected_once() -> None:
    world = World()
    with pytest.raises(LocalProtocolError, match="rank 0 is connected already"):
        world.ends[0].connect(world.directory, world.ranks[0])


def test_before_a_rank_is_connected_packets_wait_in_its_socket() -> None:
    world = World(connects=False)
    world.ends[0].connect(world.directory, world.ranks[0])
    world.ends[0].post(1, 7, 100)
    world.ends[0].flush()
    world.ends[1].nic.catch_up()
    assert world.ranks[1].arrivals == []
    world.ends[1].connect(world.directory, world.ranks[1])
    world.run()
    assert world.ranks[1].arrivals == [(0, 7, 100)]


def packet(number: int) -> bytes:
    return struct.pack(">BBHII", 4, 0x40, 0xFFFF, number, 0) + bytes(8)


@pytest.mark.parametrize(
    ("number", "source"),
    [
        (FIRST_QPN + 2 * 2 + 1, HOSTS[2]),  # a rank that is not in the directory
        (FIRST_QPN + 1, HOSTS[2]),  # the queue pair of rank 0, from another address
        (3, HOSTS[0]),  # below the first queue pair
        (0xFFFFFF, HOSTS[0]),
    ],
)
def test_packets_of_strangers_are_counted_and_dropped(number: int, source: str) -> None:
    world = World()
    world.inject(packet(number), source=source)
    assert world.contexts[1].drops == {"stranger": 1}
    assert (world.ranks[1].arrivals, world.network.datagrams) == ([], 1)


@pytest.mark.parametrize("length", [1, 11, 15])
def test_datagrams_too_short_for_a_packet_are_counted_and_dropped(length: int) -> None:
    world = World()
    world.inject(bytes(length))
    assert world.contexts[1].drops == {"length": 1}


def test_packets_that_a_queue_pair_refuses_are_counted_by_reason() -> None:
    world = World()
    world.inject(packet(FIRST_QPN + 1))
    assert world.ends[1].drops.total() == 1
    assert world.contexts[1].drops == {}


def test_a_closed_rank_sends_and_receives_nothing() -> None:
    world = World()
    world.send((7, 100))
    world.ends[1].close()
    world.ends[1].close()
    assert world.passes[1].listening == set()
    assert cast(Any, world.contexts[1].senders).closed == {HOSTS[1]}
    world.send((8, 100))
    world.ends[1].post(0, 9, 1)
    world.ends[1].flush()
    world.run()
    assert world.ranks[1].arrivals == [(0, 7, 100)]
    assert world.ranks[0].arrivals == []


def test_a_failure_is_reported_later_and_ends_the_exchange_with_that_peer() -> None:
    world = World()
    world.send((7, 100))
    link = world.ends[0]._links[1]
    link.broke("it is gone")
    assert world.ranks[0].failures == []
    world.run()
    assert world.ranks[0].failures == [(1, "it is gone")]
    before = world.network.datagrams
    world.send((8, 100))
    assert world.network.datagrams == before


def test_a_failure_of_a_rank_that_has_closed_is_not_reported() -> None:
    world = World()
    world.send((7, 100))
    world.ends[0]._links[1].broke("it is gone")
    world.ends[0].close()
    world.run()
    assert world.ranks[0].failures == []


def test_the_window_of_a_queue_pair_depends_on_the_buffer_and_the_number_of_peers() -> None:
    world = World()
    packets = world.options.window_packets(1 << 20, peers=1)
    assert world.ends[0].window_bytes == packets * PATH_MTU


def test_a_lost_packet_is_sent_again_after_a_negative_acknowledgement() -> None:
    world = World()
    world.send((6, 10 * PATH_MTU))  # both ends know each other
    before = world.network.datagrams
    world.network.loses = lambda datagram: world.network.datagrams == before + 3
    world.send((7, 10 * PATH_MTU))
    assert world.ranks[1].arrivals[1:] == [(0, 7, 10 * PATH_MTU)]
    assert world.ranks[0].acknowledgements[1:] == [(1, 7)]
    (sent,) = (row for row in world.ends[0].counters() if row.messages)
    assert sent.naks == 1
    assert sent.retransmits > 0
