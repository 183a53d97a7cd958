"""The tours that bring up a lab: verdicts, and that nothing outlives them. README's picture is what the demo prints."""

import re
from pathlib import Path

import pytest

from emulator.annexes.demo.tours import TOURS
from lab.scripts.record_tours import PICTURE, masked
from tests.support.command import wait_for
from tests.support.full import variant
from tests.support.machine import Machine


@variant
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["validation", "ci"])
def test_a_tutorial(host: Machine, name: str) -> None:
    tour = TOURS[name]
    shown = host.succeed("demo", name, "--out", "tour", timeout_s=800).stdout
    assert f"{len(tour.steps)} commands." in shown
    assert host.namespaces() == []


@pytest.mark.timeout(600)
def test_the_demo_is_what_the_picture_shows(host: Machine) -> None:
    shown = host.succeed("demo", "--out", "tour", timeout_s=580).stdout
    assert "Good firmware: PASS. Bad firmware: FAIL." in shown
    printed = {masked(line) for line in shown.splitlines()}
    pictured = re.sub(r"&#160;", " ", PICTURE.read_text(encoding="utf-8"))
    for verdict in ("PASS", "FAIL"):
        (line,) = re.findall(rf">({verdict}: [^<;]*)", pictured)  # what follows depends on the machine's calibration
        assert any(one.startswith(masked(line.strip())) for one in printed)
    assert host.namespaces() == []


def test_a_killed_demo_takes_its_lab_along(host: Machine) -> None:
    with host.started("demo", "--out", "tour") as command:
        wait_for(lambda: (host.folder / "tour" / "good").exists() or None)
        inside = wait_for(lambda: [pid for pid in command.left() if _runs(pid, b"cat")] or None)
        host.kill(command)
        wait_for(lambda: None if any(_runs(pid, b"cat") for pid in inside) else True)
        wait_for(lambda: None if command.left() else True)
    assert host.namespaces() == []


def _runs(pid: int, name: bytes) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == name
    except OSError:
        return False
