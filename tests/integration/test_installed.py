"""The installed package, without a source tree: names of shipped files and pages work from any folder."""

import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support.command import ROOT

pytestmark = pytest.mark.slow
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".*_cache", "*.egg-info", "__pycache__", "build", "tests", ".hypothesis", "runs"
)


@pytest.fixture(scope="module")
def charkha(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment that has this project installed, and its dependencies from this one."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(ROOT, folder / "source", ignore=LEFT_OUT)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shared = [path for path in sys.path if path.endswith("site-packages")] or site.getsitepackages()
    (folder / "venv" / "lib" / version / "site-packages" / "shared.pth").write_text("\n".join(shared) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--force-reinstall"]
    subprocess.run([*pip, *options, str(source)], check=True, timeout=110, capture_output=True)
    shutil.rmtree(source)
    return python.with_name("charkha")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["help", "examples"], "two-hosts-switch"),
        (["help", "glossary"], "# Glossary"),
        (["trace", "check", "lab/examples/transformer-8r"], "768 (328 COMP"),
        (["plan", "transformer-8r", "--topology", "topologies/leaf-spine-2x2.yaml"], "leaf-spine-2x2"),
    ],
)
def test_what_comes_with_it_is_found_from_any_folder(
    words: list[str], found: str, charkha: Path, tmp_path: Path
) -> None:
    done = subprocess.run([charkha, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert found in done.stdout
