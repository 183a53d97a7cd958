"""The workflow in docs/ci does what the page beside it says: its own steps are run here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def _commands() -> dict[str, str]:
    workflow: Any = yaml.safe_load((ROOT / "docs" / "ci" / "charkha.yml").read_text())
    return {step["name"]: step["run"] for step in workflow["jobs"]["loopback"]["steps"] if "run" in step}


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = ["bash", "-eo", "pipefail", "-c", command]
    return subprocess.run(
        shell, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_workflow_plays_the_example_and_checks_it(tmp_path: Path) -> None:
    commands = _commands()
    (tmp_path / "lab").symlink_to(ROOT / "lab")
    for name in ("Check the trace", "Play it", "Check the result"):
        done = _run(commands[name], tmp_path)
        assert done.returncode == 0, (name, done.stdout, done.stderr)
    assert (tmp_path / "loopback" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"status": "aborted"}, "the run is complete"),
        ({"trials": {"included": 2}}, "every iteration counts"),
        ({"totals": {"samples": 1319, "incomplete": 0, "negative": 0}}, "every communication was measured"),
        ({"totals": {"samples": 1320, "incomplete": 1, "negative": 0}}, "every rank reported every collective"),
        ({"totals": {"samples": 1320, "incomplete": 0, "negative": 1}}, "no collective took negative time"),
        ({}, None),
    ],
)
def test_the_check_fails_on_a_result_that_is_broken(change: dict[str, Any], broken: str | None, tmp_path: Path) -> None:
    result = {
        "status": "complete",
        "trials": {"included": 3},
        "totals": {"samples": 1320, "incomplete": 0, "negative": 0},
    }
    (tmp_path / "result.json").write_text(json.dumps(result | change))
    done = _run(_commands()["Check the result"], tmp_path)
    assert done.returncode == (1 if broken else 0), done.stderr
    named = [line.removeprefix("BROKEN ") for line in done.stdout.splitlines() if line.startswith("BROKEN")]
    assert named == ([broken] if broken else [])
