"""Commands that make a lab: what is missing or refused becomes one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.device.lab.commands import _refused, require_root, require_tools
from emulator.device.lab.recipe import CommandBatch
from emulator.errors import HostError

TOPOLOGIES = Path(__file__).parents[4] / "topologies"


def test_users_without_root_get_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HostError, match="root: run the command with sudo"):
        require_root()


def test_missing_tools_are_named_with_their_package() -> None:
    with pytest.raises(HostError, match="no-such-tool is missing on this host: apt-get install no-such-tool"):
        require_tools(["sh", "no-such-tool"])


def test_a_refusal_shows_the_line_of_the_batch() -> None:
    batch = CommandBatch(("ip", "-n", "x", "-batch", "-"), ["link set dev a up", "link set dev b up"])
    said = _refused(batch, 'Cannot find device "b"\nCommand failed -:2\n')
    assert said == '`ip -n x link set dev b up` failed (Cannot find device "b")'


@pytest.mark.parametrize(
    ("stderr", "shown"),
    [
        ("Command failed -:9\n", "`ip -n x -batch -` failed (no reason given)"),
        ("", "`ip -n x -batch -` failed (no reason given)"),
        ("RTNETLINK answers: File exists\nCommand failed -:1\n", "`ip -n x a` failed (RTNETLINK answers: File exists)"),
    ],
)
def test_a_refusal_without_a_known_line_shows_the_command(stderr: str, shown: str) -> None:
    assert _refused(CommandBatch(("ip", "-n", "x", "-batch", "-"), ["a", "b"]), stderr) == shown


def test_packages_are_listed_once_with_all_missing_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda tool: None)
    with pytest.raises(HostError, match=r"^ethtool, ip, tc is missing .*: apt-get install ethtool iproute2$"):
        require_tools(["tc", "ip", "ethtool", "tc"])
