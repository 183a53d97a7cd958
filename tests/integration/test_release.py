"""lab/scripts/release.sh: what it prepares, and what it refuses to build. `build` itself is tried at every release."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from emulator.version import VERSION
from tests.support.command import ROOT

ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
FILES = ("CHANGELOG.md", "pyproject.toml", "emulator/version.py", "lab/scripts/release.sh")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What the script reads of this project, with one fragment, committed and tagged v0.0.1."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "speed.feature.md").write_text("Everything is faster.\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All"], ["tag", "v0.0.1"]):
        subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *words], cwd=tmp_path, check=True)
    return tmp_path


def release(project: Path, *words: str) -> tuple[int, str]:
    command = [str(project / "lab/scripts/release.sh"), *words]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_it_sets_the_version_and_makes_a_section_of_the_fragments(project: Path) -> None:
    assert release(project, "prepare", "7.8.9") == (0, "")
    changes = (project / "CHANGELOG.md").read_text()
    assert changes.index("<!-- next -->") < changes.index("## 7.8.9") < changes.index("Everything is faster.")
    assert changes.index("Everything is faster.") < changes.index("## 0.1.0")
    assert 'VERSION = "7.8.9"\n' in (project / "emulator/version.py").read_text()
    assert not list((project / "changes").glob("*.md"))
    assert release(project, "prepare", "7.8.9") == (1, "release: CHANGELOG.md has a section 7.8.9 already\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["prepare", "1.2"], "1.2: a version is MAJOR.MINOR.PATCH"),
        (["build", "lab"], "is not empty"),
        (["build", "dist"], f"the tag is v0.0.1, the version {VERSION}"),
    ],
)
def test_it_refuses_what_is_no_release(words: list[str], problem: str, project: Path) -> None:
    code, said = release(project, *words)
    assert code == 1
    assert problem in said


def test_the_workflow_of_a_tag_calls_it_as_it_is() -> None:
    workflow = yaml.safe_load((ROOT / "docs/ci/charkha-release.yml").read_text())
    commands = {step["name"]: step["run"].split() for step in workflow["jobs"]["build"]["steps"] if "run" in step}
    script, *words = commands["Build and check"]
    assert os.access(ROOT / script, os.X_OK)
    assert f"{words[0]} FOLDER" in (ROOT / script).read_text()
    assert f"{words[1]}/*" in commands["Release"]
