"""The command that tests the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_sample_of_mutants_is_tried_and_the_tree_stays_as_it_is() -> None:
    before = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, check=True).stdout
    command = [sys.executable, "-m", "lab.mutation", "comparison", "--sample", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 mutant" in done.stdout
    assert subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, check=True).stdout == before


def test_a_room_that_does_not_exist_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab.mutation", "cellar"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "cellar" in done.stderr
