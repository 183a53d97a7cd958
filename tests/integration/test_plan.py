"""`charkha plan` as a command: on a trace, and on worlds of 100,000 ranks."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.full import IS_FULL

ROOT = Path(__file__).resolve().parents[2]
LARGE = ["--topology", "topologies/leaf-spine-large.yaml", "--transport", "roce"]
GIB = 1 << 30


def plan(*arguments: str, timeout: int = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emulator", "plan", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


def facts(*arguments: str, timeout: int = 60) -> dict[str, Any]:
    done = plan(*arguments, "--json", timeout=timeout)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("what", "ranks", "network_bytes"),
    [
        (["--transformer", "layers=96,hidden=12288,tensor=8,pipeline=8,data=1563,micro_batches=8"], 100_032, None),
        (
            ["--collective", "all_to_all", "-n", "100000", "--group-size", "1024", "-b", "64M"],
            100_000,
            # a rank sends 64 KiB to each of 1,016 ranks on other hosts; the last group of 672 is planned beside them
            97 * 1024 * 1016 * (64 << 10),
        ),
    ],
    ids=["all_reduce", "all_to_all"],
)
def test_a_hundred_thousand_ranks_fit_in_four_gibibytes(what: list[str], ranks: int, network_bytes: int | None) -> None:
    if network_bytes is not None and not IS_FULL:
        pytest.skip("half a minute: CHARKHA_FULL=1")
    algorithms = ["--algorithm", "all_reduce=ring", "--algorithm", "all_to_all=pairwise"]
    found = facts(*what, *algorithms, *LARGE, timeout=500)
    assert found["ranks"] == ranks
    assert network_bytes is None or found["operations"][0]["network_bytes"] == network_bytes
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 < 4 * GIB
