"""Agents over SSH, with a real sshd in a network namespace."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command import ROOT, Command, arguments_of, charkha, succeed, wait_for
from tests.support.full import IS_FULL
from tests.support.launched import LAST_FRAME_S, bench, counting_namespace, last_frame_s, write_topology
from tests.support.namespaces import Namespace, why_not
from tests.support.skips import missing
from tests.support.ssh_server import ssh_server

pytest.importorskip("asyncssh", reason="pip install asyncssh")
pytestmark = pytest.mark.skipif(not IS_FULL, reason="starts sshd: CHARKHA_FULL=1")
THERE = f"env PYTHONPATH={ROOT} {sys.executable} -P -m emulator"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[tuple[Namespace, Path]]:
    if (reason := why_not() or missing("sshd")) is not None:
        pytest.skip(reason)
    write_topology(tmp_path)
    folder = tmp_path / "ssh"
    folder.mkdir()
    with counting_namespace() as alone, ssh_server(alone, folder) as config:
        yield alone, config


def launch(config: Path) -> list[object]:
    hosts = ("--host", "127.0.0.1", "--host", "127.0.0.1")
    return ["agent", "launch", "ssh", *hosts, "--config", config, "--charkha", THERE, "--"]


def agents(alone: Namespace) -> list[int]:
    """Agents that sshd has started; they do not carry the mark of the command."""
    pids = map(int, alone.run("ip", "netns", "pids", alone.name).split())
    return [pid for pid in pids if b"--controller" in arguments_of(pid)]


def test_a_bench_over_ssh(bed: tuple[Namespace, Path], tmp_path: Path) -> None:
    alone, config = bed
    succeed(*launch(config), *bench(iterations=2), cwd=tmp_path, prefix=alone.prefix)
    (manifest,) = tmp_path.glob("runs/*/manifest.json")
    assert {one["agent"] for one in json.loads(manifest.read_text())["hosts"]} == {"agent-0", "agent-1"}
    assert agents(alone) == []


def test_a_host_that_is_not_known_is_refused(bed: tuple[Namespace, Path], tmp_path: Path) -> None:
    alone, config = bed
    (config.parent / "known_hosts").write_text("")
    finished = charkha(*launch(config), *bench(iterations=2), cwd=tmp_path, prefix=alone.prefix)
    assert finished.code == 3
    assert "its host key is not in known_hosts" in finished.error


def kill(command: Command) -> None:
    command.process.kill()


def interrupt(command: Command) -> None:
    command.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("end", [kill, interrupt])
def test_no_frame_after_the_command(
    bed: tuple[Namespace, Path], tmp_path: Path, end: Callable[[Command], None]
) -> None:
    alone, config = bed
    assert last_frame_s(alone, launch(config), tmp_path, end) <= LAST_FRAME_S
    wait_for(lambda: True if not agents(alone) else None, LAST_FRAME_S)
