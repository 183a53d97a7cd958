"""Agents as a step of real Slurm jobs: two nodes on this machine, in a network namespace."""

import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.command import Command, charkha, succeed
from tests.support.full import IS_FULL
from tests.support.launched import LAST_FRAME_S, bench, counting_namespace, last_frame_s, write_topology
from tests.support.namespaces import Namespace, why_not
from tests.support.skips import missing
from tests.support.slurm_cluster import SLURM, slurm, slurm_cluster

pytestmark = pytest.mark.skipif(not IS_FULL, reason="starts Slurm: CHARKHA_FULL=1")
Bed = tuple[Namespace, Mapping[str, str]]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if (reason := why_not() or missing(*SLURM)) is not None:
        pytest.skip(reason)
    with counting_namespace() as alone, slurm_cluster(alone, tmp_path_factory.mktemp("slurm")) as environment:
        yield alone, environment


@pytest.fixture
def folder(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in bed[1].items():
        monkeypatch.setenv(name, value)
    write_topology(tmp_path)
    return tmp_path


def test_a_bench_as_a_job(bed: Bed, folder: Path) -> None:
    finished = succeed("agent", "launch", "slurm", "--", *bench(iterations=2), cwd=folder, prefix=bed[0].prefix)
    assert "Run folder" in finished.stdout
    (manifest,) = folder.glob("runs/*/manifest.json")
    assert {one["agent"] for one in json.loads(manifest.read_text())["hosts"]} == {"agent-0", "agent-1"}
    assert not list(folder.glob(".charkha-launch-*"))


def test_what_slurm_refuses_is_said(bed: Bed, folder: Path) -> None:
    words = ("agent", "launch", "slurm", "--sbatch", "partition=none", "--", *bench(iterations=2))
    finished = charkha(*words, cwd=folder, prefix=bed[0].prefix)
    assert finished.code == 1
    assert "invalid partition" in finished.error.lower()


@pytest.mark.parametrize("how", ["scancel", "kill", "interrupt"])
def test_no_frame_after_the_job(bed: Bed, folder: Path, how: str) -> None:
    alone, environment = bed

    def cancel(command: Command) -> None:
        (out,) = folder.glob("charkha-*.out")
        (job,) = re.findall(r"\d+", out.name)
        slurm(alone, environment, "scancel", job)

    ends: dict[str, Callable[[Command], None]] = {
        "scancel": cancel,
        "kill": lambda command: command.process.kill(),
        "interrupt": lambda command: command.process.send_signal(signal.SIGINT),
    }
    assert last_frame_s(alone, ["agent", "launch", "slurm", "--"], folder, ends[how]) <= LAST_FRAME_S
    assert slurm(alone, environment, "squeue", "--noheader", "--states=running").strip() == ""
