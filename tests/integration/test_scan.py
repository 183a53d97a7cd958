"""What a stranger gets from every port that a controller and an agent listen at: nothing but a health check."""

import asyncio
import os
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from emulator.annexes.launch.authority import issue, make_authority
from emulator.control import conversation as control
from emulator.control.authentication import NONCE_BYTES
from emulator.control.certificates.roles import Role
from emulator.control.wire.codec import encode_agent
from emulator.control.wire.tls import TlsFiles
from emulator.controller.roster.control_server import serve_control
from emulator.controller.roster.control_service import AgentChannel
from emulator.controller.roster.listen_address import ListenAddress
from tests.support.command import started
from tests.support.skips import need

SECRET = "a secret of the lab, long enough for HS256"
HELLO = control.Hello(control.OLDEST_VERSION, control.NEWEST_VERSION, "west", 1, "h", "0", 0, bytes(NONCE_BYTES))
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STRANGE = [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256)) * 40, HTTP2_PREFACE + b"\xff" * 99]
SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 4, 6, 7, 8
TLS_ALERT = b"\x15"
HEALTH = "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"


def listening(pid: int) -> set[tuple[str, int]]:
    """TCP addresses that a process listens at, as `ss` sees them."""
    need("ss")
    text = subprocess.run(("ss", "-Hltnp"), capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines() if f"pid={pid}," in line]
    return {(row[3].rpartition(":")[0], int(row[3].rpartition(":")[2])) for row in rows}


def answers(port: int, said: bytes) -> bytes:
    """Everything that comes back until the other side hangs up, or has said nothing for a while."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=0.3) as stranger:
        stranger.sendall(said)
        try:
            while more := stranger.recv(4096):
                found += more
        except (TimeoutError, ConnectionError):
            pass
    return found


def frames(found: bytes) -> set[int]:
    """The kinds of HTTP/2 frames (RFC 9113)."""
    kinds = set()
    while found:
        length, kind = int.from_bytes(found[:3]), found[3]
        kinds.add(kind)
        found = found[9 + length :]
    return kinds


class Nobody:
    """A controller whom nobody may come near."""

    def admit(self, channel: AgentChannel) -> str | None:
        raise AssertionError("a stranger was let in")

    heard = lost = admit  # type: ignore[assignment]


def scanned(folder: Path, tls: TlsFiles | None, scan: Callable[[int], None]) -> None:
    """Scan every TCP port that this process listens at while it serves control, from a thread of its own."""

    async def run() -> None:
        before = listening(os.getpid())
        address = ListenAddress("localhost:0", None if tls else SECRET, tls)
        async with serve_control(Nobody(), f"unix:{folder}/c", token=SECRET, run_id="r", listening=address):
            opened = listening(os.getpid()) - before
            assert {host for host, _ in opened} <= {"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"}, opened
            (port,) = {port for _, port in opened}
            await asyncio.to_thread(scan, port)

    asyncio.run(run())


def test_a_port_with_certificates_speaks_to_nobody_else(tmp_path: Path) -> None:
    for name in ("lab", "other"):
        make_authority(tmp_path / name, name=name)
    own = issue(tmp_path / "lab", "c", role=Role.CONTROLLER, addresses=["localhost"], valid=timedelta(1)).path
    other = issue(tmp_path / "other", "west", role=Role.AGENT, valid=timedelta(1)).path

    def scan(port: int) -> None:
        for said in STRANGE:
            assert answers(port, said)[:1] in (b"", TLS_ALERT)
        for identity in (None, other):
            context = ssl.create_default_context(cafile=tmp_path / "lab" / "authority.pem")
            context.set_alpn_protocols(["h2"])
            if identity is not None:
                context.load_cert_chain(identity)
            plain = socket.create_connection(("localhost", port), timeout=60)
            tls = context.wrap_socket(plain, server_hostname="localhost")
            with tls, suppress(ssl.SSLError, ConnectionError):
                assert not tls.recv(4096)  # TLS 1.3: the server's answer to the client's certificate
        assert grpc_answer(port, HEALTH, b"") == grpc.StatusCode.UNAVAILABLE

    scanned(tmp_path, TlsFiles(identity=own), scan)


def test_a_port_with_a_token_answers_only_a_health_check(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def scan(port: int) -> None:
        for said in STRANGE:
            found = answers(port, said)
            assert b"HTTP/1" not in found or found.startswith(b"HTTP/1.1 400")
            assert b"HTTP/1" in found or frames(found) <= {SETTINGS, PING, GOAWAY, WINDOW_UPDATE}
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            health = health_pb2_grpc.HealthStub(channel)
            assert health.Check(health_pb2.HealthCheckRequest(), timeout=60).status == 1
        assert grpc_answer(port, REFLECTION, b"") == grpc.StatusCode.UNIMPLEMENTED
        assert grpc_answer(port, "/charkha.control.Control/Other", b"") == grpc.StatusCode.UNIMPLEMENTED
        for first in (b"", b"\xff" * 99, encode_agent(control.Ready()), encode_agent(replace(HELLO, nonce=b""))):
            assert grpc_answer(port, control.METHOD, first) == grpc.StatusCode.INVALID_ARGUMENT
        guess = encode_agent(HELLO), encode_agent(control.Proof(bytes(32)))
        for said in (guess, (guess[0], guess[0]), (guess[0], b"\xff"), guess[:1]):
            assert grpc_answer(port, control.METHOD, *said) == grpc.StatusCode.UNAUTHENTICATED

    scanned(tmp_path, None, scan)
    reasons = sorted(record.message.rpartition(": ")[2] for record in caplog.records)
    assert reasons == ["the first message must be a Hello", "the token is not the controller's"]


def grpc_answer(port: int, method: str, *messages: bytes) -> grpc.StatusCode:
    """How a call of a stranger ends."""
    with grpc.insecure_channel(f"localhost:{port}") as channel, pytest.raises(grpc.RpcError) as ended:
        list(channel.stream_stream(method)(iter(messages), timeout=60))  # type: ignore[call-arg]
    return ended.value.code()


def test_an_agent_that_waits_listens_at_nothing(tmp_path: Path) -> None:
    with started("agent", "start", "--controller", f"unix:{tmp_path}/none", "--name", "west", cwd=tmp_path) as agent:
        assert "waiting for a run" in agent.process.stderr.readline()
        assert listening(agent.process.pid) == set()
