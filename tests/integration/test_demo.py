"""`charkha demo` as a user runs it: every command is printed before it runs, verdicts are right, nothing is left."""

import os
import signal
from pathlib import Path

from emulator.annexes.demo.tours import DEMO_LOOPBACK, TOURS
from emulator.exit_codes import INTERRUPTED
from tests.support.command import charkha, started, succeed, wait_for
from tests.support.full import variant

LONG_S = 240.0
"""A tour has some ten commands, each of which may wait for a busy machine."""


def test_the_demo_over_loopback(tmp_path: Path) -> None:
    shown = succeed("demo", "--loopback", "--out", "tour", cwd=tmp_path, timeout_s=LONG_S).stdout
    at = [shown.index(f"\n$ {step.command}\n") for step in DEMO_LOOPBACK.steps]
    assert at == sorted(at)
    good, bad = (at[n] for n, step in enumerate(DEMO_LOOPBACK.steps) if step.what)
    assert good < shown.index("PASS: all 3 checks met") < bad < shown.index("FAIL: packets is ")
    assert "Good firmware: PASS. Bad firmware: FAIL." in shown
    report = tmp_path / "tour" / DEMO_LOOPBACK.shows
    assert report.is_file()
    assert f"The report, for a browser: tour/{DEMO_LOOPBACK.shows}" in shown


def test_an_interrupted_demo_ends_its_command_and_leaves_no_process(tmp_path: Path) -> None:
    with started("demo", "--loopback", "--out", "tour", cwd=tmp_path, prefix=("setsid", "--wait")) as command:
        wait_for(lambda: (tmp_path / "tour" / "good").exists() or None)
        pid = next(iter(command.left()))  # the demo itself is behind setsid
        wait_for(lambda: command.left() or None)
        os.killpg(os.getpgid(pid), signal.SIGINT)
        finished = command.finish()
    assert finished.code == INTERRUPTED
    assert finished.stderr.splitlines()[-1] == "charkha: interrupted"
    assert not (tmp_path / "tour" / "bad").exists()


def test_a_folder_that_is_in_use_is_refused_before_any_command(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("not a folder")
    finished = charkha("demo", "--out", "mine", cwd=tmp_path)
    assert (finished.code, finished.stdout) == (2, "")
    assert "mine" in finished.error


@variant
def test_the_tutorial_without_a_lab(tmp_path: Path) -> None:
    tour = TOURS["chakra"]
    shown = succeed("demo", "chakra", "--out", "tour", cwd=tmp_path, timeout_s=LONG_S).stdout
    assert f"{len(tour.steps)} commands." in shown
    assert (tmp_path / "tour" / tour.shows).is_file()
