"""Firmware profiles in turns in a lab, and what a comparison says of them."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from tests.support.command import charkha, succeed
from tests.support.full import measures
from tests.support.labs import forwarding

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow, measures]
TOPOLOGY = """\
name: pair
dut: {kind: switch, nodes: [sw0]}
transport: {name: roce}
hosts:
  - {name: h0, per_rank: 198.18.1.0/24}
  - {name: h1, per_rank: 198.18.2.0/24}
switches: [{name: sw0}]
links:
  - {endpoints: ["h0:eth0", "sw0:p0"], rate: 20Mbit, mtu: 1500}
  - {endpoints: ["h1:eth0", "sw0:p1"], rate: 20Mbit, mtu: 1500}
"""
SWEEP = ("all_reduce", "-n", 2, "-b", "32K", "-e", "128K", "-f", 2, "--iterations", 8, "--congestion", "none")
CLASSES = 4  # three sizes and the iteration: five runs a side decide them


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Five runs in turns of a clean device, of the same again, and of one whose ports are a tenth slower."""
    folder, lab = tmp_path_factory.mktemp("lab"), f"test-{secrets.token_hex(4)}"
    (folder / "pair.yaml").write_text(TOPOLOGY)
    try:
        succeed("lab", "up", "pair.yaml", "--id", lab, "--force", cwd=folder)
        forwarding(lab)
        where = ("--topology", "pair.yaml", "--lab", lab)
        turns = ("--profiles", "fw-a,fw-a,slow-port", "--out", "runs")
        made = succeed("bench", *SWEEP, *where, *turns, cwd=folder)
        assert "15 of 15 runs are complete" in made.stdout
        yield folder / "runs"
    finally:
        charkha("lab", "down", lab, cwd=folder)


def compared(folder: Path, *arguments: object, code: int) -> list[dict[str, Any]]:
    done = charkha("compare", *arguments, "--json", cwd=folder)
    assert done.code == code, done.stderr
    (pair,) = json.loads(done.stdout)["pairs"]
    classes: list[dict[str, Any]] = pair["classes"]
    assert len(classes) == CLASSES
    return classes


def test_a_tenth_slower_is_found_and_the_gate_closes(collected: Path) -> None:
    for one in compared(collected, "fw-a", "slow-port", "--gate", "--junit", "compare.xml", code=4):
        assert one["ratio"] > 1.02  # of 32 KiB a part passes in the bucket's burst
        is_large = one["size_bytes"] != 32 << 10
        if is_large and max(one["baseline"]["variation"], one["other"]["variation"]) <= 0.01:
            assert one["verdict"] == "slower", one
    assert JUnitXml.fromfile(str(collected / "compare.xml")).failures > 0


def test_the_same_firmware_twice_is_neither_faster_nor_slower(collected: Path) -> None:
    for one in compared(collected, "fw-a", "fw-a-2", "--gate", code=0):
        assert one["verdict"] in ("no difference shown", "inconclusive")
        if max(one["baseline"]["variation"], one["other"]["variation"]) <= 0.01:
            assert one["verdict"] == "no difference shown", one


def test_two_runs_a_side_are_too_few(collected: Path) -> None:
    for one in compared(collected, "fw-a/0[12]", "slow-port/0[12]", "--gate", code=0):
        assert (one["verdict"], one["needs_runs"]) == ("inconclusive", 5)
