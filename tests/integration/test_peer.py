"""`charkha agent peer` as a user runs it: both ends are Charkha, on loopback."""

import asyncio
import gc
import json
import signal
import socket
import struct
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents.annexes.peer.conversation import connect as connect_to
from agents.annexes.peer.exchange import Swap
from emulator.errors import RunError
from tests.support.command import Command, Finished, charkha, started, wait_for
from tests.support.loopback import NET, free_port, receives_datagrams

CLIENT, SERVER = f"{NET}.0.211", f"{NET}.0.212"


@pytest.fixture
def port() -> int:
    return free_port()


@contextmanager
def serving(cwd: Path, port: int, *options: object) -> Iterator[Command]:
    """A server that listens."""
    where = ("--from", "127.0.0.1", "--peer-address", CLIENT, "--address", SERVER, "--port", port)
    with started("agent", "peer", "serve", *where, *options, cwd=cwd) as command:
        wait_for(lambda: listens(port))
        yield command


def listens(port: int) -> bool | None:
    sockets = Path("/proc/net/tcp6").read_text() + Path("/proc/net/tcp").read_text()
    return any(f":{port:04X} " in line and " 0A " in line for line in sockets.splitlines()) or None


def connect(cwd: Path, port: int, *options: object) -> Finished:
    """Run the client to its end."""
    return charkha("agent", "peer", "connect", SERVER, "--address", CLIENT, "--port", port, *options, cwd=cwd)


def both(cwd: Path, port: int, *options: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The results of client and server."""
    with serving(cwd, port, *options, "--json") as server:
        client = connect(cwd, port, *options, "--json")
        served = server.finish()
    assert (client.code, served.code) == (0, 0), (client.stderr, served.stderr)
    return json.loads(client.stdout), json.loads(served.stdout)


def test_what_both_ends_counted_agrees(tmp_path: Path, port: int) -> None:
    options = ("--verb", "write", "--size", 3000, "--iters", 60, "--qps", 3, "--path-mtu", 1024)
    client, server = both(tmp_path, port, *options)
    assert client["sent"]["messages"] == server["received"]["messages"] == 180
    assert client["sent"]["payload_bytes"] == server["received"]["payload_bytes"] == 180 * 3000
    assert server["sent"]["messages"] == client["received"]["messages"] == 0
    assert client["test"]["path_mtu_bytes"] == 1024
    assert server["peer_report"]["messages"] == 180
    assert server["peer_report"]["bytes_per_s"] == pytest.approx(client["sent"]["bytes_per_s"])
    assert client["peer_report"] is None


def test_rdma_cm_is_asked_for_at_both_ends(tmp_path: Path, port: int) -> None:
    options = ("--size", 3000, "--iters", 40, "--qps", 3, "--path-mtu", 512, "--rdma-cm", "--json")
    where = ("--from", CLIENT, "--address", SERVER, "--port", port)
    with started("agent", "peer", "serve", *where, *options, cwd=tmp_path) as server:
        wait_for(lambda: receives_datagrams(SERVER))
        finished = connect(tmp_path, port, *options)
        served = server.finish()
    assert (finished.code, served.code) == (0, 0), (finished.stderr, served.stderr)
    client, result = json.loads(finished.stdout), json.loads(served.stdout)
    assert client["sent"]["messages"] == result["received"]["messages"] == 120
    assert "--rdma_cm" in finished.stderr


def test_a_server_without_rdma_cm_is_named(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port):
        finished = connect(tmp_path, port, "--rdma-cm")
    assert finished.code == 1
    assert f"no perftest with rdma_cm listens at {SERVER}, port {port}" in finished.stderr


def test_people_see_a_table(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port, "--iters", 10) as server:
        client = connect(tmp_path, port, "--iters", 10)
        served = server.finish()
    assert f"ib_write_bw with {SERVER}" in client.stdout
    assert "sent by this end" in client.stdout
    assert "655,360" in client.stdout
    assert "received by this end" in served.stdout
    assert "sent by the peer" in served.stdout
    assert f"{SERVER} must be running: ib_write_bw --size=65536 --mtu=4096 --iters=10" in client.stderr


def test_a_server_that_is_not_there_is_named(tmp_path: Path, port: int) -> None:
    finished = connect(tmp_path, port)
    assert finished.code == 1
    assert f"no perftest listens at {SERVER}, port {port}" in finished.stderr.splitlines()[-1]


def test_a_name_that_is_none_is_reported(tmp_path: Path) -> None:
    for options in ((), ("--rdma-cm",)):
        finished = charkha("agent", "peer", "connect", "a..b", "--verb", "write", *options, cwd=tmp_path)
        assert (finished.code, finished.stdout) == (2, "")
        assert finished.stderr.splitlines()[-1] == "charkha: a..b: no such host"


def test_nothing_is_sent_to_an_address_that_nobody_named(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port) as server:
        finished = connect(tmp_path, port, "--peer-address", f"{NET}.0.213")
        assert finished.code == 2
        assert f"the peer's queue pair is at {SERVER}, not at {NET}.0.213" in finished.stderr.splitlines()[-1]
        assert server.finish().code == 1


def test_hosts_that_were_not_named_are_not_served(tmp_path: Path, port: int) -> None:
    with started(
        "agent", "peer", "serve", "--from", "192.0.2.7", "--address", SERVER, "--port", port, cwd=tmp_path
    ) as server:
        wait_for(lambda: listens(port))
        finished = connect(tmp_path, port)
        assert finished.code == 1
        assert "before it sent its version" in finished.stderr.splitlines()[-1]
        server.process.send_signal(signal.SIGINT)
        assert server.finish().code == 130


@pytest.mark.parametrize("victim", ["client", "server"])
def test_when_an_end_dies_the_other_one_stops_and_says_so(tmp_path: Path, port: int, victim: str) -> None:
    options = ("--verb", "write", "--duration", 600)
    where = ("agent", "peer", "connect", SERVER, "--address", CLIENT, "--port", port)
    with serving(tmp_path, port, *options) as server, started(*where, *options, cwd=tmp_path) as client:
        wait_for(lambda: receives_datagrams(CLIENT) and receives_datagrams(SERVER))
        dead, survivor = (client, server) if victim == "client" else (server, client)
        dead.process.kill()
        finished = survivor.finish()
    assert finished.code == 1


@pytest.mark.parametrize(
    ("ours", "theirs", "problem"),
    [
        (("--size", 3000), ("--size", 5000), "messages of CLIENT have 3,000 bytes, --size is 5000 here"),
        (("--verb", "send"), ("--verb", "write"), "CLIENT does not run ib_write_bw, but a test with SENDs"),
        (("--verb", "read"), ("--verb", "write"), "CLIENT does not run ib_write_bw, but a test with READs"),
        (("--verb", "write"), ("--verb", "read"), "CLIENT does not run ib_read_bw, but a test with WRITEs"),
    ],
)
def test_a_server_names_what_the_client_does_differently(
    tmp_path: Path, port: int, ours: tuple[object, ...], theirs: tuple[object, ...], problem: str
) -> None:
    with serving(tmp_path, port, "--iters", 20, *theirs) as server:
        connect(tmp_path, port, "--iters", 20, *ours)
        served = server.finish()
    assert served.code == 1
    assert problem.replace("CLIENT", CLIENT) in served.stderr.splitlines()[-1]


def test_a_client_names_the_command_when_the_server_refuses_its_size(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, port, "--size", 64):
        finished = connect(tmp_path, port, "--size", 100_000)
    assert finished.code == 1
    assert "does it run ib_write_bw --size=100000 " in finished.stderr.splitlines()[-1]


def test_a_connection_that_is_reset_is_told_once(port: int) -> None:
    """asyncio prints an error that a future still holds when it is collected."""

    def reset() -> None:
        connection, _ = listener.accept()
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    async def play() -> list[object]:
        conversation = await connect_to(SERVER, port, local=CLIENT)
        with pytest.raises(RunError, match="the connection ended before it sent its version"):
            await conversation.play(one_block())
        conversation.stream.close()
        futures = [one for one in gc.get_objects() if isinstance(one, asyncio.Future) and one.done()]
        return [one for one in futures if one._log_traceback]

    def one_block() -> Generator[Swap, bytes, None]:
        yield Swap("its version", b"5.9 ", 4)

    with socket.create_server((SERVER, port)) as listener:
        peer = threading.Thread(target=reset)
        peer.start()
        assert asyncio.run(play()) == []
        peer.join()
