"""`kubectl` as installed here against a stand-in for a cluster; there is no Kubernetes in it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from emulator.launch.kubernetes.cluster import play
from emulator.launch.kubernetes.files import sent_with
from emulator.launch.kubernetes.kubectl import Kubectl
from emulator.launch.kubernetes.manifests import Placement
from tests.support.stand_in_cluster import StandInCluster

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
HOSTS = [{"name": name, "per_rank": f"127.{93 + n}.{os.getpid() % 250}.0/24"} for n, name in enumerate("ab")]
TOPOLOGY = {"hosts": HOSTS, "agents": {"a": "agent-0", "b": "agent-1"}}
BENCH = ["bench", "all_reduce", "-n", "2", "-b", "4K", "-e", "4K", "--iterations", "1", "--topology", "t.yaml"]
PLACEMENT = Placement(name="charkha-1", image="charkha", nodes=2, secret="charkha-1", has_identities=False)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_bench_in_a_stand_in_cluster(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "t.yaml").write_text(json.dumps(TOPOLOGY))
    said: list[str] = []

    async def launch() -> tuple[int, StandInCluster]:
        cluster = StandInCluster(there, control_port=free_port())
        async with cluster.serving() as url:
            command, sent = sent_with([*BENCH, "--listen", "0.0.0.0:4790", "--insecure"], here)
            code = await asyncio.to_thread(
                play,
                Kubectl(("--server", url)),
                PLACEMENT,
                command,
                sent=sent,
                secrets={"token": "a-token-for-the-tests"},
                folder=here,
                join_timeout_s=20,
                report=said.append,
            )
        return code, cluster

    code, cluster = asyncio.run(launch())
    shown = capfd.readouterr()
    assert code == 0, shown.err
    assert cluster.objects == {}
    (manifest,) = here.glob("runs/*/manifest.json")
    assert f"Run folder: {manifest.parent.relative_to(here)}" in shown.out
    assert json.loads(manifest.read_text())["hosts"]
    assert not (here / ".sent").exists()
