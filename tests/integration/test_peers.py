"""Comparing with peers: programs that end whatever they do, and the command with whatever peers are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.transports.registry import TRANSPORTS
from lab.benchmarks.peers.children import MARK, MeasurementFailed, marked, run, running
from tests.support.command import ROOT, wait_for
from tests.support.full import measures

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("both run", flush=True)
time.sleep(600)
"""


def test_a_program_that_hangs_is_ended_with_all_that_it_started() -> None:
    mark = "of-this-test"
    with pytest.raises(MeasurementFailed, match="did not end within 1 s"):
        run([sys.executable, "-c", STUBBORN], timeout_s=1, variables={MARK: mark})
    wait_for(lambda: not marked(mark) or None)


def test_a_program_is_ended_when_its_block_is_left() -> None:
    mark = "of-that-test"
    with running([sys.executable, "-c", STUBBORN], variables={MARK: mark}) as child:
        assert child.is_running()
    wait_for(lambda: not marked(mark) or None)


def test_a_program_that_fails_is_named_with_its_last_words() -> None:
    with pytest.raises(MeasurementFailed, match=r"ended with 3: the last word"):
        run(["sh", "-c", "echo no; echo the last word >&2; exit 3"], timeout_s=60)
    with pytest.raises(MeasurementFailed, match="no-such-program cannot be started"):
        run(["no-such-program"], timeout_s=60)
    assert run(["echo", "words"], timeout_s=60) == "words\n"


def _namespace() -> list[str]:
    """A network of one's own, where that is allowed: other tests hold RoCEv2's one port."""
    prefix = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    is_allowed = shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if is_allowed and is_allowed.returncode == 0 else []


@pytest.mark.slow
@measures
@pytest.mark.timeout(600)
def test_the_command_compares_with_whatever_peers_are_there(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "lab.benchmarks.peers", "--quick", "--pairs", "1", "--json", str(figures)]
    command = [*_namespace(), *command]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    stored = json.loads(figures.read_text())
    assert stored["host"]["cpus"] >= 1
    keys = {setting["key"] for setting in stored["settings"]}
    assert {"all-reduce-large", "all-reduce-small", "all-reduce-many"} <= keys
    for setting in stored["settings"]:
        assert setting["title"] in done.stdout
        for name, subject in setting["subjects"].items():
            is_ours = name.split(",")[0] in (*TRANSPORTS, "bare blast", "ZeroMQ PUSH/PULL")
            (reading,) = subject["readings"]
            if reading is None:
                excuse = "is in use" if is_ours else "install.sh"  # RoCEv2's port, where there is no namespace
                assert excuse in subject["problems"][0]
            else:
                assert reading["value"] > 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--pairs", "0"], "at least one"),
        (["--json", "nowhere/figures.json"], "there is no folder nowhere"),
        (["--only", "flow-9"], "there is no setting flow-9"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_measured(arguments: list[str], problem: str) -> None:
    command = [sys.executable, "-m", "lab.benchmarks.peers", "--quick", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
