"""Agents as actors of a real Ray with several nodes on this machine, in a network namespace with loopback alone."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.command import arguments_of, charkha, started, wait_for
from tests.support.full import IS_FULL
from tests.support.launched import HOSTS, LAST_FRAME_S, TOPOLOGY, counting_namespace
from tests.support.namespaces import Namespace, why_not
from tests.support.pytorch_traces import data_parallel_rank, write
from tests.support.ray_cluster import NODES, ray_cluster

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="pip install ray"),
    pytest.mark.skipif(not IS_FULL, reason="starts Ray: CHARKHA_FULL=1"),
]


@pytest.fixture(scope="module")
def bed() -> Iterator[tuple[Namespace, str]]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with counting_namespace() as alone, ray_cluster(alone.prefix) as address:
        yield alone, address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.yaml").write_text(json.dumps(TOPOLOGY))
    return tmp_path


def launch(address: str, *, iterations: int, topology: str = "t.yaml", wait_s: int = 20) -> list[object]:
    bench = ("all_reduce", "-n", 2, "-b", "64K", "-e", "64K", "--topology", topology, "--iterations", iterations)
    return ["launch", "ray", "--address", address, "--join-timeout", wait_s, "--", "bench", *bench]


def agents(alone: Namespace) -> list[int]:
    """Agents that Ray's actors have started; they do not carry the mark of the command."""
    pids = map(int, alone.run("ip", "netns", "pids", alone.name).split())
    return [pid for pid in pids if b"--controller" in arguments_of(pid)]


def test_a_bench_on_a_node_each(bed: tuple[Namespace, str], folder: Path) -> None:
    alone, address = bed
    finished = charkha(*launch(address, iterations=2), cwd=folder, prefix=alone.prefix)
    assert finished.code == 0, finished.stderr
    (manifest,) = folder.glob("runs/*/manifest.json")
    assert {one["agent"] for one in json.loads(manifest.read_text())["hosts"]} == {"agent-0", "agent-1"}
    assert agents(alone) == []


def test_ranks_are_imported_on_the_nodes(bed: tuple[Namespace, str], tmp_path: Path) -> None:
    alone, address = bed
    for rank in range(3):
        write(data_parallel_rank(rank, 3), tmp_path / "job" / f"{rank}.json")
    assert charkha("convert", "job", "here", cwd=tmp_path).code == 0
    spread = charkha("convert", "--ray", address, "job", "there", cwd=tmp_path, prefix=alone.prefix)
    assert spread.code == 0, spread.stderr
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    for command in (("check", "--json"), ("plan", "--json", "--topology", "two-hosts")):
        read_here = charkha(command[0], "job", *command[1:], cwd=tmp_path)
        read_there = charkha(*command, "job", "--ray", address, cwd=tmp_path, prefix=alone.prefix)
        assert read_there.code == 0, read_there.stderr
        assert read_there.stdout == read_here.stdout
    refused = charkha("check", "here", "--ray", address, cwd=tmp_path)
    assert (refused.code, "imported traces" in refused.stderr) == (2, True)
    wrong = data_parallel_rank(1, 3)
    wrong.collective("allreduce", -7, 900, (930, 10))
    write(wrong, tmp_path / "job" / "1.json")
    refused = charkha("convert", "--ray", address, "job", "none", cwd=tmp_path, prefix=alone.prefix)
    assert refused.code == 2
    assert "1.json" in refused.stderr.splitlines()[-1]


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def test_too_few_nodes_are_named(bed: tuple[Namespace, str], folder: Path) -> None:
    alone, address = bed
    more = {"hosts": [*HOSTS, {"name": "c", "per_rank": "127.97.0.0/24"}], "agents": {"a": "x", "b": "y", "c": "z"}}
    (folder / "more.yaml").write_text(json.dumps(more))
    finished = charkha(*launch(address, iterations=2, topology="more.yaml", wait_s=2), cwd=folder, prefix=alone.prefix)
    assert finished.code == 1
    assert f"3 agents need as many nodes with 1 free cores; the cluster has {NODES} nodes" in finished.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_frame_two_seconds_after_the_driver_was_ended(
    bed: tuple[Namespace, str], folder: Path, number: signal.Signals
) -> None:
    alone, address = bed

    def frames() -> int:
        return alone.counters("seen")["frames"]

    before, begin = frames(), time.monotonic()
    with started(*launch(address, iterations=1_000_000), cwd=folder, prefix=alone.prefix) as command:
        wait_for(lambda: True if frames() > before + 1000 else None, 100)
        print(f"first traffic {time.monotonic() - begin:.1f} s after the start")
        command.process.send_signal(number)
        ended = last = time.monotonic()
        count = frames()
        while time.monotonic() < ended + 2 * LAST_FRAME_S:
            if (now := frames()) != count:
                count, last = now, time.monotonic()
        print(f"last frame {last - ended:.2f} s after {number.name}")
        assert last - ended <= LAST_FRAME_S
        wait_for(lambda: None if command.left() or agents(alone) else True)
        if number == signal.SIGTERM:
            assert command.finish().code == 130
