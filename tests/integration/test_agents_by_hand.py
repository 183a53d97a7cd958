"""Agents started by hand over loopback: a Unix socket, a network one with a token, with TLS."""

import json
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

import pytest

from emulator.cli.main import main
from tests.support.command import Finished, charkha, started, succeed, wait_for
from tests.support.loopback import NET, free_port

TOKEN = "a-token-for-the-tests"
HOSTS = [{"name": name, "per_rank": f"{NET}.{third}.0/24"} for third, name in enumerate("ab")]
BENCH = ("all_reduce", "-n", 2, "-b", "4K", "-e", "4K", "--iterations", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "t.yaml").write_text(json.dumps({"hosts": HOSTS, "agents": {"a": "west", "b": "east"}}))
    return tmp_path


@contextmanager
def agents(folder: Path, target: str, *options: object) -> Iterator[None]:
    with ExitStack() as stack:
        for name in ("west", "east"):
            stack.enter_context(started("agent", "start", "--controller", target, "--name", name, *options, cwd=folder))
        yield


def bench(folder: Path, target: str, *options: object) -> Finished:
    return charkha("bench", *BENCH, "--topology", "t.yaml", "--listen", target, *options, cwd=folder)


def free_target() -> str:
    return f"localhost:{free_port()}"


def test_a_unix_socket_needs_no_token(folder: Path) -> None:
    target = f"unix:{folder}/control"
    with agents(folder, target):
        finished = bench(folder, target)
    assert finished.code == 0, finished.stderr


def test_an_agent_serves_metrics_from_run_to_run(folder: Path) -> None:
    target = f"unix:{folder}/control"
    agent = ("agent", "--controller", target, "--name")
    with started(*agent, "west", "--metrics", 0, cwd=folder) as west, started(*agent, "east", cwd=folder):
        url = re.findall(r"metrics at (http://127\.0\.0\.1:\S+)", west.process.stderr.readline())[0]

        def scraped() -> str:
            return urllib.request.urlopen(url, timeout=60).read().decode()

        assert "charkha_agent_runs_total 0.0" in scraped()
        assert bench(folder, target).code == 0
        text = wait_for(lambda: found if "charkha_agent_runs_total 1.0" in (found := scraped()) else None)
        assert 'charkha_agent_info{agent="west"} 1.0' in text
        assert "charkha_agent_playing 0.0" in text
        assert "charkha_agent_run_payload_bytes 0.0" not in text


def test_both_sides_show_certificates(folder: Path) -> None:
    def issue(name: str, role: str, *more: str) -> tuple[str, str]:
        succeed("agent", "certs", "issue", "authority", name, "--role", role, *more, cwd=folder)
        return "--identity", f"authority/{name}.pem"

    succeed("agent", "certs", "init", "authority", cwd=folder)
    own = issue("controller", "controller", "--address", "localhost")
    west, east = issue("west", "agent"), issue("east", "agent")
    target = free_target()
    agent = ("agent", "--controller", target, "--name")
    with started(*agent, "west", *west, cwd=folder), started(*agent, "east", *east, cwd=folder):
        assert bench(folder, target, *own).code == 0
        # Agents do not speak to a controller without a certificate, nor to one that shows an agent's.
        refused = bench(folder, target, "--token-file", "token", "--join-timeout", 1.5)
    assert refused.code == 1
    assert "agents to join: east, west" in refused.stderr


def test_an_agent_is_the_one_that_its_certificate_names(folder: Path) -> None:
    charkha("agent", "certs", "init", "authority", cwd=folder)
    for name, role in (("controller", "controller"), ("east", "agent")):
        charkha("agent", "certs", "issue", "authority", name, "--role", role, "--address", "localhost", cwd=folder)
    target = free_target()
    impostor = ("agent", "--controller", target, "--name", "west", "--identity", "authority/east.pem")
    own = ("--topology", "t.yaml", "--listen", target, "--identity", "authority/controller.pem")
    with started(*impostor, cwd=folder) as west, started("bench", *BENCH, *own, cwd=folder) as controller:
        refused = west.finish()
        assert (refused.code, controller.process.poll()) == (1, None)
    assert "its certificate is that of agent east, not of west" in refused.stderr


def _seen_by_others(not_of: int) -> bytes:
    """Command lines of all processes, and environments of those that a process started."""
    found = b""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += (folder / "cmdline").read_bytes()
            if f"\nPPid:\t{not_of}\n" in (folder / "status").read_text():
                found += (folder / "environ").read_bytes()
    return found


def test_secrets_are_seen_nowhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    secret = "0123456789abcdef of the lab, long enough for HS256"
    (folder / "secret").write_text(secret)
    (folder / "t.yaml").write_text(json.dumps({"hosts": HOSTS, "agents": {"a": "west"}}))
    for words in (
        ("init", "authority"),
        ("issue", "authority", "c", "--role", "controller", "--address", "localhost"),
        ("issue", "authority", "west", "--role", "agent"),
        ("token", "secret", "west", "--role", "agent"),
    ):
        assert main(["agent", "certs", *words]) == 0
    target, own = free_target(), ("--identity", "authority/west.pem", "--token-file", "west.token")
    with started("agent", "start", "--controller", target, "--name", "west", *own, cwd=folder) as west:
        monkeypatch.setenv("CHARKHA_TOKEN", secret)
        run = (*BENCH[:-1], 5, "--topology", "t.yaml", "--listen", target, "--identity", "authority/c.pem")
        with started("bench", *run, cwd=folder) as controller:
            seen = b""
            wait_for(lambda: b"agents\0--controller\0" in _seen_by_others(controller.process.pid))
            while controller.process.poll() is None:
                seen += _seen_by_others(controller.process.pid)
                with suppress(subprocess.TimeoutExpired):
                    controller.process.wait(0.2)
            finished = controller.finish()
        west.process.terminate()
        agent = west.finish()
    assert finished.code == 0, finished.stderr
    assert b"agents\0--controller\0" in seen  # the local agent was looked at
    seen += (finished.stdout + finished.stderr + agent.stdout + agent.stderr).encode()
    seen += b"".join(path.read_bytes() for path in (folder / "runs").rglob("*") if path.is_file())
    token = (folder / "west.token").read_text().strip()
    keys = ["".join((folder / "authority" / name).read_text().split("\n")[1]) for name in ("c.pem", "west.pem")]
    for one in (secret, token, token.rpartition(".")[2], *keys):
        assert one.encode() not in seen


def test_agents_of_a_local_run_do_not_inherit_the_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARKHA_TOKEN", TOKEN)
    with started("bench", *BENCH[:-1], 100_000, "--agents", 1, cwd=folder) as command:
        (agent,) = command.agents(1)
        environment = wait_for(lambda: (Path("/proc") / str(agent) / "environ").read_bytes() or None)
        assert b"CHARKHA_TEST_MARK" in environment
        assert b"CHARKHA_TOKEN" not in environment


def test_agents_that_join_are_the_hosts(folder: Path) -> None:
    target = f"unix:{folder}/control"
    (folder / "t.yaml").write_text("hosts: {from: agents, count: 2, slots: 1}")
    with agents(folder, target):
        finished = bench(folder, target, "--out", "run")
    assert finished.code == 0, finished.stderr
    assert "2 of 2" in finished.stderr
    topology = json.loads((folder / "run" / "manifest.json").read_text())["topology"]
    assert [host["name"] for host in topology["hosts"]] == ["east", "west"]
    assert topology["host_index"] == [0, 1]


class Crowd:
    """Connections that say nothing, and come back whenever they are ended."""

    def __init__(self, port: int, count: int) -> None:
        self._address, self._count = ("127.0.0.1", port), count
        self._open: list[socket.socket] = []
        self._ended = Event()
        self.ends = 0
        """Connections that the other side ended, or did not take."""

    def __enter__(self) -> Self:
        self._open = [wait_for(self._connected) for _ in range(self._count)]
        self._thread = Thread(target=self._hold)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for one in self._open:
            one.close()

    def _connected(self) -> socket.socket | None:
        try:
            found = socket.create_connection(self._address)
        except OSError:
            return None
        found.setblocking(False)
        return found

    def _hold(self) -> None:
        while not self._ended.wait(0.1):
            self._open = [one for one in self._open if not self._is_over(one)]
            self.ends += self._count - len(self._open)
            self._open += filter(None, (self._connected() for _ in range(self._count - len(self._open))))

    @staticmethod
    def _is_over(one: socket.socket) -> bool:
        try:
            if one.recv(4096):
                return False
        except BlockingIOError:
            return False
        except OSError:
            pass
        one.close()
        return True


def test_connections_that_say_nothing_neither_end_a_run_nor_keep_agents_out(folder: Path) -> None:
    target = free_target()
    few = ("prlimit", "--nofile=256:256")
    words = ("bench", *BENCH, "--topology", "t.yaml", "--listen", target, "--token-file", "token")
    with started(*words, cwd=folder, prefix=few) as controller, Crowd(int(target.rpartition(":")[2]), 400) as crowd:
        wait_for(lambda: crowd.ends > 400 or None)
        with agents(folder, target, "--token-file", "token"):
            finished = controller.finish()
    assert finished.code == 0, finished.stderr
    assert "ulimit" not in finished.stderr
    assert "more than 64 of one peer do not say who they are" in finished.stderr
    assert finished.stderr.count("ended connections") == 1
