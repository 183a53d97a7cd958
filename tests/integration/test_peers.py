"""Comparing with peers: programs that end whatever they do, and the command with whatever peers are installed."""

import json
import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from emulator.transports.registry import TRANSPORTS
from lab.benchmarks.peers.children import MARK, MeasurementFailed, marked, run, running
from lab.benchmarks.peers.environment import Load
from lab.benchmarks.peers.quantities import Quantity, Verdict
from lab.benchmarks.peers.report import TOO_NOISY, Measured, render, to_json
from lab.benchmarks.peers.rounds import compare, measure
from lab.benchmarks.peers.settings import Setting
from lab.benchmarks.peers.subjects import Reading
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


class Scripted:
    """A subject with given readings."""

    def __init__(self, name: str, *values: float) -> None:
        self.name, self._values = name, iter(values)

    def lacking(self) -> None:
        return None

    def measure(self) -> Reading:
        return Reading(next(self._values))


def test_a_peer_whose_rounds_differ_too_much_gets_no_ratio() -> None:
    ours, calm = Scripted("roce", *[2e9] * 5), Scripted("Gloo", 1.0e9, 1.5e9, 1e9, 1e9, 1e9)
    restless = Scripted("Open MPI", 1.0e9, 1.6e9, 1e9, 1e9, 1e9)
    pairs = [("roce", "Gloo"), ("roce", "Open MPI")]
    setting = Setting("all-reduce-large", "a ring", Quantity.BUS_BANDWIDTH, [ours, calm, restless], pairs)
    series = measure(setting, pairs=5, say=lambda _: None)
    found = compare(setting, series, judged=True)
    assert [one.verdict for one in found] == [Verdict.REACHED, Verdict.UNDECIDED]
    measured = [Measured(setting, series, found, Load(0.0, 0.0, None))]
    console = Console(width=160, record=True, file=StringIO())
    console.print(render(measured))
    gloo, open_mpi = (line for line in console.export_text().splitlines() if "Gloo" in line or "Open MPI" in line)
    assert "2.00 [1.33, 2.00]" in gloo
    assert TOO_NOISY in open_mpi
    assert [one["ratio"] is None for one in to_json(measured, facts={})["settings"][0]["comparisons"]] == [False, True]


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
