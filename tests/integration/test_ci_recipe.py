"""The workflow in docs/ci does what the page beside it says: its own steps are run here."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.repeated import write_runs

ROOT = Path(__file__).resolve().parents[2]


def _commands(file: str = "charkha.yml", job: str = "loopback") -> dict[str, str]:
    workflow: Any = yaml.safe_load((ROOT / "docs" / "ci" / file).read_text())
    return {step["name"]: step["run"] for step in workflow["jobs"][job]["steps"] if "run" in step}


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = ["bash", "-eo", "pipefail", "-c", command]
    return subprocess.run(
        shell, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_workflow_plays_the_example_and_checks_it(tmp_path: Path) -> None:
    commands = _commands()
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


def _of_github() -> dict[str, str]:
    return _commands("charkha-gate.yml", "gate")


def _of_gitlab() -> dict[str, str]:
    jobs: Any = yaml.safe_load((ROOT / "docs" / "ci" / "charkha-gate.gitlab-ci.yml").read_text())
    play, compare = jobs["charkha-gate"]["script"]
    assert jobs["charkha-baseline"]["script"] == [play.replace("--out new", "--out baseline")]
    return {"Play the firmware": play, "Compare with the baseline": compare}


def _of_jenkins() -> dict[str, str]:
    text = (ROOT / "docs" / "ci" / "Jenkinsfile").read_text()
    stages = re.findall(r"stage\('([^']+)'\).*?sh '([^']+)'", text, re.DOTALL)
    return {name: command.replace("baseline/new", "baseline") for name, command in stages}


RECIPES = pytest.mark.parametrize("recipe", [_of_github, _of_gitlab, _of_jenkins])


@RECIPES
@pytest.mark.parametrize(("slower", "code"), [(1.0, 0), (1.1, 4)])
def test_the_gate_stops_what_is_slower(
    recipe: Callable[[], dict[str, str]], slower: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs that its first step makes are made up here."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    write_runs(tmp_path / "baseline", runs=5, seed=1)
    write_runs(tmp_path / "new", runs=5, seed=2, slower=slower, turn=1)
    done = _run(recipe()["Compare with the baseline"], tmp_path)
    assert done.returncode == code, done.stderr
    summary = (tmp_path / "compare.md").read_text()
    assert summary.startswith("### SLOWER\n" if code else "### NO DIFFERENCE SHOWN\n"), summary
    assert recipe is not _of_github or (tmp_path / "summary").read_text() == summary
    assert ("<failure" in (tmp_path / "compare.xml").read_text()) == (code == 4)
    assert (tmp_path / "compare.html").read_text().startswith("<!doctype html>")


@RECIPES
def test_the_gate_plays_with_options_that_exist(
    recipe: Callable[[], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TRACE": "transformer-8r", "TOPOLOGY": "device.yaml"}.items():
        monkeypatch.setenv(name, value)
    command = recipe()["Play the firmware"].removeprefix("rm -rf new && ")
    done = _run(f"{command} --help-all", ROOT)
    assert done.returncode == 0
    assert all(option in done.stdout for option in command.split() if option.startswith("--"))
