"""Frames in - frames out of a device on real runs: every lost frame is in one of its counters."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.device.lab.status import SOCKET_DROPS
from emulator.results.run_folder.reader import read_run
from emulator.results.statistics.summary import summarise
from tests.support.command import COMMAND, ROOT
from tests.support.machine import Machine, machine
from tests.support.namespaces import need_switch

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
_SHRINK = """
import socket
from emulator.device.lab.status import packet_sockets
for one in packet_sockets(["charkha-two-hosts-switch-sw0"]).values():
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
"""
TWO_HOSTS = ROOT / "topologies" / "two-hosts-switch.yaml"


@pytest.fixture(params=["bridge", "ovs", "router"])
def lab(lab_host: None, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A lab of two hosts at 1 Gbit/s, whose topology is lab.yaml."""
    need_switch(request.param)
    with machine(tmp_path) as host:
        (host.folder / "lab.yaml").write_text(TWO_HOSTS.read_text().replace("kind: bridge", f"kind: {request.param}"))
        host.run(*COMMAND, "lab", "up", "lab.yaml", "--force")
        yield host
        host.succeed("lab", "down", "--all")


@pytest.mark.parametrize("lab", ["ovs"], indirect=True)
def test_frames_that_open_vswitch_drops_at_its_sockets_are_counted_there(lab: Machine) -> None:
    lab.run(sys.executable, "-c", _SHRINK)
    options = ("-b", "1M", "-e", "1M", "--iterations", 2, "--topology", "lab.yaml", "--out", "run")
    played = lab.charkha("bench", "all_reduce", "-n", 2, *options)
    assert played.code == 0, played.stderr
    (frames,) = summarise(read_run(lab.folder / "run")).totals.device_frames
    assert frames.lost == sum(frames.dropped.values())
    assert frames.dropped[SOCKET_DROPS] > 0
    assert f"{frames.dropped[SOCKET_DROPS]:,} in packet sockets" in played.stdout


@pytest.mark.parametrize("profile", [None, "fw-b"])
def test_every_frame_that_a_device_lost_was_counted(lab: Machine, profile: str | None) -> None:
    options = ("-b", "4M", "-e", "4M", "--iterations", 3, "--topology", "lab.yaml", "--out", "run")
    extra = ("--profile", profile) if profile else ()
    played = lab.charkha("bench", "all_reduce", "-n", 2, *options, *extra)
    assert played.code == 0, played.stderr
    (frames,) = summarise(read_run(lab.folder / "run")).totals.device_frames
    assert frames.frames_in > 20_000
    assert (frames.lost, frames.unexplained) == (sum(frames.dropped.values()), 0)
    assert ("profile_drops" in frames.dropped) == bool(profile)
