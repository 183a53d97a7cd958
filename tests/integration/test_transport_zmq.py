import asyncio
import resource
import socket
import time
from functools import partial
from pathlib import Path

import pytest
import uvloop
import zmq

from agents.annexes.zmq.transport import ZmqTransport
from emulator.control.conversation import Address
from emulator.errors import HostError, LocalProtocolError
from tests.integration.socket_bed import DEADLINE_S, SocketBed, play
from tests.integration.transport_conformance import CASES, Case, Listener, directory
from tests.support.full import variant
from tests.support.limits import limited, open_descriptors


class ZmqBed(SocketBed[ZmqTransport]):
    """A number of agents with ZeroMQ."""

    def __init__(
        self, agents: int = 2, *, hosts: str = "127.0.5.{}", message_bytes: int = 4096, budget_bytes: int = 64 << 20
    ) -> None:
        super().__init__()
        self.message_bytes = message_bytes
        self._hosts = hosts
        self.transports = [
            ZmqTransport(message_bytes=message_bytes, budget_bytes=budget_bytes, run="conformance")
            for _ in range(agents)
        ]

    def host(self, rank: int) -> str:
        return self._hosts.format(rank + 1)


run = partial(play, ZmqBed)


@pytest.mark.parametrize("agents", [pytest.param(1, marks=variant), 2, pytest.param(3, marks=variant)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Case, agents: int) -> None:
    run(case, agents=agents)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance_on_uvloop(case: Case) -> None:
    run(case, loop_factory=uvloop.new_event_loop)


async def test_ipv6() -> None:
    if not has_ipv6():
        pytest.skip("this host has no IPv6 loopback address")
    async with ZmqBed(hosts="::1").ranks() as (bed, a, b):
        a.send(1, [(1, 10_000)])
        b.send(0, [(2, 0)])
        await bed.until(lambda: len(bed.log) == 4)
        assert (b.arrivals(0), a.arrivals(1)) == ([(1, 10_000)], [(2, 0)])


def has_ipv6() -> bool:
    table = Path("/proc/net/if_inet6")
    return table.exists() and "00000000000000000000000000000001" in table.read_text()


async def test_a_silent_peer_is_reported_until_it_responds() -> None:
    async with ZmqBed() as bed:
        a, b = await bed.listeners(2)
        a.connect(directory([a, b]))
        before = time.monotonic_ns()
        a.send(1, [(1, 5000), (2, 0)])
        after = time.monotonic_ns()
        await bed.until(lambda: bed.transports[0].silence() is not None)
        silence = bed.transports[0].silence()
        assert silence[:2] == (0, 1)
        assert before <= silence.since_ns <= after
        assert a.endpoint.acknowledged_bytes == 0
        b.connect(directory([a, b]))
        await bed.until(lambda: len(a.acknowledgements(1)) == 2)
        assert (bed.transports[0].silence(), a.endpoint.acknowledged_bytes) == (None, 5000)


async def test_an_early_stranger_is_not_acknowledged() -> None:
    async with ZmqBed() as bed:
        a, b, c = await bed.listeners(3)
        c.connect(directory([a, b, c]))
        c.send(0, [(1, 10), (2, 0)])
        await bed.quiesce()
        a.connect(directory([a, b]))
        await bed.quiesce()
        assert bed.log == []


async def test_a_connection_leaves_from_the_ranks_own_address() -> None:
    async with ZmqBed().ranks() as (bed, a, b):
        a.send(1, [(1, 1)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        assert (a.endpoint.address.host, b.endpoint.address.host) in tcp_peers(b.endpoint.address.port)


def tcp_peers(port: int) -> set[tuple[str, str]]:
    """(source, destination) of the connections established to a port, from the kernel's table."""

    def host(field: str) -> str:
        return ".".join(str(byte) for byte in reversed(bytes.fromhex(field.split(":")[0])))

    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {(host(row[1]), host(row[2])) for row in rows if int(row[2].split(":")[1], 16) == port and row[3] == "01"}


async def test_an_address_of_another_host_is_refused_by_name() -> None:
    async with ZmqBed() as bed:
        for host in ("192.0.2.1", "127.0.0.256"):
            with pytest.raises(HostError, match=f"{host} is not an address of this host"):
                await bed.transports[0].open(0, host)


async def test_a_rank_has_one_endpoint() -> None:
    async with ZmqBed() as bed:
        await bed.open(0)
        with pytest.raises(LocalProtocolError, match="rank 0"):
            await bed.open(0)


async def test_messages_of_strangers_are_dropped_and_counted() -> None:
    async with ZmqBed().ranks() as (bed, a, b):
        context = zmq.Context()
        stranger = context.socket(zmq.DEALER)
        stranger.linger = 0
        for name in (b"\1nobody", b"<" + bytes(8) + b"\0\0\0\0\0\0\0\1", b"<short"):
            stranger.setsockopt(zmq.ROUTING_ID, name)
            stranger.connect(f"tcp://{b.endpoint.address.host}:{b.endpoint.address.port}")
            for _ in range(2):
                stranger.send_multipart([b"", b"x" * 100, b"y"])
            await asyncio.sleep(0.02)
        await bed.until(lambda: bed.transports[1].strangers == 6)
        a.send(1, [(1, 10)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        context.destroy(linger=0)
        assert b.arrivals(0) == [(1, 10)]


async def test_another_run_is_a_stranger() -> None:
    async with ZmqBed() as bed:
        a, b = await bed.listeners(2)
        async with ZmqTransport(run="another") as other:
            intruder = Listener(await other.open(0, "127.0.5.9"), [])
            intruder.connect(directory([a, b]))
            b.connect(directory([a, b]))
            intruder.send(1, [(1, 10)])
            await bed.until(lambda: bed.transports[1].strangers == 1)
        assert bed.log == []


async def test_an_agent_that_disappears_is_a_failure() -> None:
    async with ZmqBed().ranks() as (bed, a, b):
        a.send(1, [(1, 10)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        a.send(1, [(2, 5000 * bed.message_bytes)])
        bed.transports[1].close()
        await bed.until(lambda: a.failures(1) == 1)
        assert (b.arrivals(0), a.reasons) == ([(1, 10)], ["the connection was lost"])


async def test_a_lost_connection_is_not_reopened_to_the_next_listener() -> None:
    async with ZmqBed(agents=1) as bed:
        (a,) = await bed.listeners(1)
        peer = RawPeer()
        a.connect({0: a.endpoint.address, 1: peer.address})
        a.send(1, [(7, 10)])
        await peer.heard()
        peer.context.destroy(linger=0)
        await bed.until(lambda: a.failures(1) == 1)
        with socket.socket() as successor:
            successor.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            successor.bind((peer.address.host, peer.address.port))
            successor.listen()
            successor.setblocking(False)
            await asyncio.sleep(0.4)
            with pytest.raises(BlockingIOError):
                successor.accept()


async def test_a_peer_that_does_not_listen_is_a_failure() -> None:
    async with ZmqBed(agents=1) as bed:
        (a,) = await bed.listeners(1)
        a.connect({0: a.endpoint.address, 1: Address("127.0.5.200", 9)})
        a.send(1, [(1, 10)])
        await bed.until(lambda: a.failures(1) == 1)
        assert a.reasons == ["cannot connect"]


async def test_the_limit_of_open_files_is_named_when_it_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (200, 200))
    async with ZmqBed(agents=1).ranks(40) as (bed, *listeners):
        for listener in listeners:
            for peer in range(40):
                listener.send(peer, [(1, 1)])
        await bed.until(lambda: any(listener.reasons for listener in listeners))
        assert any("`ulimit -n`" in reason for listener in listeners for reason in listener.reasons)


async def test_an_agent_that_cannot_accept_connections_reports_why() -> None:
    async with ZmqBed(agents=1) as bed:
        (a,) = await bed.connected(1)
        clients = [socket.socket() for _ in range(10)]
        with limited(resource.RLIMIT_NOFILE, max(c.fileno() for c in clients) + 1):
            for client in clients:
                client.setblocking(False)
                client.connect_ex((a.endpoint.address.host, a.endpoint.address.port))
            await bed.until(lambda: a.failures(0) == 1)
        for client in clients:
            client.close()
        assert "Too many open files; raise `ulimit -n`" in a.reasons[0]


class RawPeer:
    """Rank 1, which uses the message format of the transport and violates its rules."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        port = self.socket.bind_to_random_port("tcp://127.0.5.99")
        self.address = Address("127.0.5.99", port)

    async def heard(self) -> list[bytes]:
        async with asyncio.timeout(DEADLINE_S):
            while not self.socket.poll(0):  # noqa: ASYNC110 a plain socket knows nothing of asyncio
                await asyncio.sleep(0.001)
        return self.socket.recv_multipart()


async def test_exit_closes_all_sockets_and_frees_descriptors() -> None:
    before = open_descriptors()
    async with ZmqBed().ranks() as (bed, a, b):
        a.send(1, [(1, 1000 * bed.message_bytes)])
        b.send(0, [(2, 0)])
        await bed.until(lambda: b.acknowledgements(0) == [2])
    assert open_descriptors() <= before


async def test_an_event_can_close_the_transport() -> None:
    async with ZmqBed() as bed:

        class Closer(Listener):
            def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
                super().arrived(peer, tag, size, now, count)
                bed.transports[1].close()

        a, b = await bed.listeners(2)
        closer = Closer(b.endpoint, bed.log)
        for listener in (a, closer):
            listener.connect(directory([a, b]))
        a.send(1, [(tag, 10) for tag in range(5)])
        await bed.until(lambda: a.failures(1) == 1)
        assert closer.arrivals(0) == [(0, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[1 << 30], [1 << 20] * 1024, [1 << 10] * (1 << 17)], ids=["one", "many", "small"])
async def test_a_gibibyte_needs_little_memory(sizes: list[int]) -> None:
    """Fewer small transfers: the entries that the test keeps of them need memory, too."""
    async with ZmqBed(message_bytes=1 << 20).ranks() as (bed, a, b):
        a.send(1, [(1, 1 << 20)])
        await bed.until(lambda: len(bed.log) == 2)
        before = peak = resident_bytes()

        def is_done() -> bool:
            nonlocal peak
            peak = max(peak, resident_bytes())
            return len(bed.log) == 2 + 2 * len(sizes)

        a.send(1, list(enumerate(sizes)))
        await bed.until(is_done)
        assert len(b.arrivals(0)) == len(a.acknowledgements(1)) == 1 + len(sizes)
        assert peak - before < 100_000_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
