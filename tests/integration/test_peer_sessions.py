"""Both ends of a test with perftest in one process, over real sockets of loopback."""

import asyncio
import socket
from pathlib import Path

import pytest

from agents.annexes.peer.exchange import CYCLE_BYTES
from agents.annexes.peer.session import PeerSession
from emulator.flows.perftest_parameters import PeerTask, PeerTest, TestVerb, make_test
from emulator.flows.perftest_results import PeerResult
from emulator.roce.options import RoceOptions
from tests.support.command import wait_for
from tests.support.loopback import NET, free_port

CLIENT, SERVER = f"{NET}.0.221", f"{NET}.0.222"
LOOPBACK = "127.0.0.1"
BEGIN_S = 20


@pytest.mark.parametrize("size", [1, 3000, 100_000])
@pytest.mark.parametrize("verb", [TestVerb.WRITE, TestVerb.SEND, TestVerb.READ])
def test_every_message_of_a_bandwidth_test_arrives_and_is_counted_at_both_ends(verb: TestVerb, size: int) -> None:
    test = make_test(verb, size_bytes=size, iterations=60, queue_pairs=3, path_mtu=1024)
    client, server = both(test)
    assert client.sent.messages == server.received.messages == 180
    assert client.sent.bytes == server.received.bytes == 180 * size
    assert server.sent.messages == client.received.messages == 0
    assert client.test.path_mtu == 1024
    if verb is not TestVerb.SEND:  # whose tool reports nothing
        assert server.peer.iterations == 180
        assert server.peer.bytes_per_s == pytest.approx(client.sent.bytes_per_s)
    assert client.peer is None


@pytest.mark.parametrize("verb", [TestVerb.WRITE, TestVerb.SEND, TestVerb.READ])
def test_both_ends_send_at_once(verb: TestVerb) -> None:
    for result in both(make_test(verb, size_bytes=8192, iterations=50, queue_pairs=2, is_bidirectional=True)):
        assert result.sent.messages == result.received.messages == 100
        assert result.peer.iterations == 100


@pytest.mark.parametrize("size", [2, CYCLE_BYTES + 1])
@pytest.mark.parametrize("verb", [TestVerb.WRITE_LATENCY, TestVerb.SEND_LATENCY])
def test_a_ping_pong_sends_as_much_as_it_receives(verb: TestVerb, size: int) -> None:
    for result in both(make_test(verb, size_bytes=size, iterations=40, path_mtu=1024)):
        assert result.sent.messages == result.received.messages == 40
        latency = result.latency
        assert latency.count in (39, 40)  # whoever begins waits for one answer more
        assert 0 < latency.least <= latency.median <= latency.p99 <= latency.largest


def test_the_latency_of_reads_is_measured_one_by_one() -> None:
    client, server = both(make_test(TestVerb.READ_LATENCY, iterations=40))
    assert client.latency.count == server.received.messages == 40
    assert server.latency is None


def test_a_test_can_run_for_a_time() -> None:
    client, server = both(make_test(TestVerb.WRITE, size_bytes=4096, duration_s=0.3))
    assert client.sent.messages == server.received.messages > 0
    assert client.sent.duration_ns >= 300_000_000


@pytest.mark.parametrize("verb", [TestVerb.WRITE, TestVerb.SEND, TestVerb.READ, TestVerb.WRITE_LATENCY])
def test_rdma_cm_connects_all_queue_pairs_and_carries_the_exchange(verb: TestVerb) -> None:
    queue_pairs = 1 if verb is TestVerb.WRITE_LATENCY else 3
    test = make_test(verb, size_bytes=3000, iterations=40, queue_pairs=queue_pairs, path_mtu=512)
    client, server = both(test, rdma_cm=True)
    assert client.sent.messages == server.received.messages == 40 * queue_pairs
    assert client.test.path_mtu == server.test.path_mtu == 512


def both(test: PeerTest, *, rdma_cm: bool = False) -> tuple[PeerResult, PeerResult]:
    """The results of client and server."""
    port = free_port()

    def task(address: str, peer: str, *, server: str | None = None) -> PeerTask:
        return PeerTask(
            test=test,
            server=server,
            client=(CLIENT if rdma_cm else LOOPBACK) if server is None else "",
            port=port,
            address=address,
            peer_address=peer,
            options=RoceOptions(),
            rdma_cm=rdma_cm,
        )

    async def play() -> tuple[PeerResult, PeerResult]:
        with PeerSession(task(SERVER, CLIENT)) as server, PeerSession(task(CLIENT, SERVER, server=SERVER)) as client:
            serving = asyncio.ensure_future(server.meet())
            await asyncio.to_thread(wait_for, lambda: _listens(port), BEGIN_S)
            await asyncio.gather(serving, client.meet())
            results = await asyncio.gather(client.play(), server.play())
            return results[0], results[1]

    return asyncio.run(play())


def _listens(port: int) -> bool | None:
    """Whether a server waits, for TCP or for rdma_cm."""
    packed = socket.inet_aton(SERVER)[::-1].hex().upper()
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6", "udp")]
    return any(f":{port:04X} " in table or f"{packed}:12B7" in table for table in tables) or None
