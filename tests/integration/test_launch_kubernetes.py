"""`charkha agent launch kubernetes` with the kubectl of this machine and a stand-in for a cluster."""

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.command import Command, Finished, started, wait_for
from tests.support.full import IS_FULL
from tests.support.loopback import NET, free_port
from tests.support.skips import need
from tests.support.stand_in_cluster import StandInCluster

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
HOSTS = [{"name": name, "per_rank": f"{NET}.{n}.0/24"} for n, name in enumerate("ab")]
TOPOLOGY = {"hosts": HOSTS, "agents": {"a": "agent-0", "b": "agent-1"}}
full = pytest.mark.skipif(not IS_FULL, reason="the same, ended otherwise: CHARKHA_FULL=1")
LAUNCH = (
    "agent",
    "launch",
    "kubernetes",
    "-n",
    2,
    "--image",
    "charkha",
    "--interface",
    "lo",
    "--host-network",
    "--insecure",
)
BENCH = ("bench", "all_reduce", "-n", 2, "-b", "4K", "-e", "4K", "--topology", "t.yaml", "--iterations")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config.yaml"))
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "t.yaml").write_text(json.dumps(TOPOLOGY))
    return folder


def launched(here: Path, *command: object, then: Callable[[Command], None]) -> tuple[Finished, StandInCluster]:
    """What a launch said, and the cluster after it; `then` is called as soon as the command runs."""
    need("ip")
    there = here.parent / "there"
    there.mkdir()

    def work() -> Finished:
        with started(*LAUNCH, "--", *command, cwd=here) as running:
            then(running)
            return running.finish()

    async def launch() -> tuple[Finished, StandInCluster]:
        cluster = StandInCluster(there, control_port=free_port())
        async with cluster.serving() as url:
            (here.parent / "config.yaml").write_text(yaml.safe_dump(kubectl_config(url)))
            return await asyncio.to_thread(work), cluster

    return asyncio.run(launch())


def kubectl_config(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "stand-in", "cluster": {"server": url}}],
        "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": "nobody"}}],
        "users": [{"name": "nobody", "user": {}}],
        "current-context": "stand-in",
    }


def test_a_bench_in_a_stand_in_cluster_comes_back_whole(here: Path) -> None:
    finished, cluster = launched(here, *BENCH, 1, then=lambda _: None)
    assert finished.code == 0, finished.stderr
    assert cluster.objects == {}
    (manifest,) = here.glob("runs/*/manifest.json")
    assert f"Run folder: {manifest.parent.relative_to(here)}" in finished.stdout
    assert {one["agent"] for one in json.loads(manifest.read_text())["hosts"]} == {"agent-0", "agent-1"}
    assert not (here / ".sent").exists()


def measuring(here: Path) -> None:
    """Wait until samples are written in a pod."""
    there = here.parent / "there"
    wait_for(lambda: True if [*there.glob("*/runs/*/samples*")] else None)


@full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_launch_in_a_stand_in_cluster_leaves_nothing(here: Path, number: signal.Signals) -> None:
    def interrupt(command: Command) -> None:
        measuring(here)
        command.process.send_signal(number)

    finished, cluster = launched(here, *BENCH, 1_000_000, then=interrupt)
    assert finished.code == 130, finished.stderr
    assert cluster.objects == {}
    assert "interrupted by the user" in finished.stderr
    assert [*here.glob("runs/*/manifest.json")]


@full
def test_the_controller_in_a_stand_in_cluster_ends_with_a_launch_that_is_killed(here: Path) -> None:
    def kill(command: Command) -> None:
        measuring(here)
        command.process.kill()
        begin = time.monotonic()
        wait_for(lambda: None if command.left() else True)
        assert [*(here.parent / "there").glob("*/runs/*/manifest.json")]
        print(f"controller and kubectl ended {time.monotonic() - begin:.2f} s after the kill")

    finished, cluster = launched(here, *BENCH, 1_000_000, then=kill)
    assert finished.code == -signal.SIGKILL
    assert len(cluster.named("pods")) == 3  # they end at their deadline
