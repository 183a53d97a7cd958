"""charkha-agent, installed from packaging/agent with its own libraries alone, plays for a controller of the whole."""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.command import ROOT, charkha
from tests.support.full import IS_FULL
from tests.support.loopback import NET

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not IS_FULL, reason="installs libraries: CHARKHA_FULL=1")]
ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
TREES = ("agents", "emulator", "packaging/agent")
HOSTS = [{"name": name, "per_rank": f"{NET}.{third}.0/24"} for third, name in enumerate("ab")]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment."""
    folder = tmp_path_factory.mktemp("alone")
    for tree in TREES:
        left_out = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        shutil.copytree(ROOT / tree, folder / tree, symlinks=True, ignore=left_out)
    shutil.copy(ROOT / "LICENSE", folder)
    venv.create(folder / "venv", with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv"), "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, str(folder / "packaging/agent")], check=True, timeout=110, capture_output=True)
    return folder / "venv" / "bin" / "charkha"


def test_it_lacks_the_libraries_of_reports(command: Path, tmp_path: Path) -> None:
    def ended(*words: object) -> tuple[int, str]:
        done = subprocess.run([*map(str, words)], cwd=tmp_path, env=ALONE, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, said = ended(command.with_name("python"), "-c", "import pyarrow")
    assert (code, "No module named 'pyarrow'" in said) == (1, True)
    code, said = ended(command, "report", "run")
    assert (code, "report is not part of charkha-agent" in said) == (3, True)


@pytest.mark.parametrize("options", [(), ("--transport", "zmq"), ("--record-steps", 3)], ids=["roce", "zmq", "steps"])
def test_two_of_them_play_a_run_of_the_whole(options: Sequence[object], command: Path, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(json.dumps({"hosts": HOSTS, "agents": {"a": "west", "b": "east"}}))
    target = f"unix:{tmp_path}/control"
    start = [command, "agent", "--controller", target, "--name"]
    agents = [
        subprocess.Popen([*start, name], cwd=tmp_path, env=ALONE, stderr=subprocess.PIPE) for name in ("west", "east")
    ]
    try:
        run = (
            "run",
            ROOT / "lab/examples/transformer-8r",
            "--iterations",
            1,
            "--topology",
            "t.yaml",
            "--listen",
            target,
        )
        played = charkha(*run, *options, "--json", cwd=tmp_path)
    finally:
        for agent in agents:
            agent.terminate()
        said = [agent.communicate()[1] for agent in agents]
    assert (played.code, json.loads(played.stdout)["status"]) == (0, "complete"), (played.stderr, said)
