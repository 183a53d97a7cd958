"""The picture of a network with the loads of its links."""

from __future__ import annotations

import pytest

from emulator.cli.main import main
from emulator.views.terminal import plan_picture
from tests.support.command import ROOT

LEAF_SPINE = str(ROOT / "topologies" / "leaf-spine-2x2.yaml")
TWO_HOSTS = str(ROOT / "topologies" / "two-hosts-switch.yaml")


def picture(capsys: pytest.CaptureFixture[str], *arguments: str, topology: str = LEAF_SPINE) -> list[str]:
    assert main(["plan", "--topology", topology, "--collective", "all_to_all", "-b", "8000", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("  ├─")) - 1
    last = max(at for at, line in enumerate(lines) if line.startswith("  └─"))
    return lines[first : last + 1]


def test_the_highest_level_comes_first_and_every_link_is_once_below_its_switch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = picture(capsys, "-n", "8")
    assert [line for line in lines if not line.startswith(" ")] == ["spine0", "spine1", "leaf0", "leaf1"]
    assert [line.split()[1] for line in lines if "─ leaf" in line] == ["d0", "d1", "d0", "d1"]
    assert len([line for line in lines if "─ h" in line]) == 8


def test_bars_are_relative_to_the_busiest_link(capsys: pytest.CaptureFixture[str]) -> None:
    bars = [word for line in picture(capsys, "-n", "8") for word in line.split() if set(word) <= {"█", "░"}]
    assert {len(bar) for bar in bars} == {12}
    assert "█" * 12 in bars


def test_a_load_is_the_payload_of_an_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = (line for line in picture(capsys, "-n", "8") if "─ h0:" in line)
    assert line.count("6.84 KiB") == 2  # 1,000 bytes to each of 7 ranks, and from each of them


def test_of_many_switches_and_links_some_are_shown_and_the_rest_is_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_picture, "WHOLE_LEVEL", 1)
    monkeypatch.setattr(plan_picture, "SOME_SWITCHES", 1)
    monkeypatch.setattr(plan_picture, "WHOLE_SWITCH", 3)
    monkeypatch.setattr(plan_picture, "SOME_LINKS", 2)
    lines = picture(capsys, "-n", "8")
    assert "… 1 more of spine" in lines
    assert "… 1 more of leaf" in lines or lines[-1] == "  └─ … 2 more with less load"
    assert "  └─ … 2 more with less load" in lines


@pytest.mark.parametrize("width", [60, 80])
def test_long_lines_are_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr("emulator.views.terminal.console.WIDTH", width)
    assert max(map(len, picture(capsys, "-n", "8"))) <= width
