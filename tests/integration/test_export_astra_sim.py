"""What is exported for ASTRA-sim, taken by ASTRA-sim itself where that has been built and is on PATH."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command import EXAMPLE, here, succeed

SIMULATOR = "AstraSim_Analytical_Congestion_Unaware"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("astra")
    options = ("--iterations", "3", "--compute", "0.1", "--out", scratch / "run")
    succeed("run", EXAMPLE, *options, cwd=scratch)
    exported = here("runs", "export", "run", "--to", "astra-sim", cwd=scratch)
    assert (exported.code, exported.stdout) == (0, "run.astra-sim\n")
    assert exported.stderr.startswith("charkha: within a host, 8 ranks: ")
    return scratch / "run.astra-sim"


def test_the_fit_is_told_with_its_residuals(folder: Path) -> None:
    [dimension] = json.loads((folder / "fit.json").read_text())["dimensions"]
    assert dimension["bandwidth_bytes_per_s"] > 0
    assert all("residual_percent" in one and one["samples"] for one in dimension["observations"])


@pytest.mark.skipif(shutil.which(SIMULATOR) is None, reason=f"{SIMULATOR} is not on PATH")
@pytest.mark.parametrize("system", ["system-replay.json", "system-simulate.json"])
def test_the_simulator_plays_it_to_the_end(folder: Path, system: str) -> None:
    options = {
        "workload": "trace",
        "comm-group": "groups.json",
        "system": system,
        "network": "network.yml",
        "remote-memory": "memory.json",
    }
    arguments = [f"--{name}-configuration={value}" for name, value in options.items()]
    done = subprocess.run([SIMULATOR, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    assert "unreleased" not in done.stdout
    assert len(set(re.findall(r"sys\[(\d)\] finished", done.stdout))) == 8
