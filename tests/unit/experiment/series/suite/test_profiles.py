from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.experiment.series.suite.document import Suite, read_suite
from emulator.experiment.series.suite.profiles import (
    Records,
    play_profiles,
    profiles_page,
    profiles_to_json,
    render_profiles,
)
from emulator.experiment.series.suite.record import read_record
from emulator.experiment.spec.spec import Experiment
from emulator.views.html.page.document import Table
from tests.support.report import block_of, records
from tests.support.terminal import shown
from tests.unit.experiment.series.suite.test_runner import HEAD, Player


class Device(Player):
    """Slow with fw-b: a little in case a, too slow in case b."""

    def jct_of(self, experiment: Experiment) -> int:
        if experiment.device.profile == "fw-a":
            return 500_000
        return 550_000 if experiment.job.sweep and experiment.job.sweep.collective == "all_reduce" else 2_000_000


def suites(folder: Path) -> dict[str, Suite]:
    path = folder / "two.yaml"
    path.write_text(HEAD + "  - {name: a}\n  - {name: b, spec: {job: {sweep: {collective: all_gather}}}}\n")
    return {name: read_suite(path, over={"device": {"profile": name}}) for name in ("fw-a", "fw-b")}


def play(folder: Path, player: Player, *, resume: bool = False) -> Records:
    *_, last = play_profiles(suites(folder), folder / "out", player, resume=resume, on_run=lambda *_: None)
    return last


def test_profiles_take_turns_and_the_page_shows_what_changed(tmp_path: Path) -> None:
    player = Device()
    found = play(tmp_path, player)
    assert [(name, one.device.profile) for name, one in player.played] == [
        ("a", "fw-a"),
        ("a", "fw-b"),
        ("b", "fw-a"),
        ("b", "fw-b"),
    ]
    assert read_record(tmp_path / "out" / "fw-b") == found["fw-b"]
    plain = profiles_to_json(found)
    assert plain["outcome"] == "FAIL"
    assert plain["changes"] == {"a": ["fw-b: jct +10.0%"], "b": ["fw-b: PASS → FAIL"]}
    (section,) = profiles_page(found).sections
    first, second = records(block_of(section, "results", Table))
    assert (first["fw-a"], first["fw-b"]) == ("PASS 500 µs", "PASS 550 µs")
    assert (second["fw-b"], second["change"]) == ("FAIL 2 ms", "fw-b: PASS → FAIL")
    text = shown(render_profiles(found, tmp_path)[0], width=140)
    assert "FAIL: the verdict of b changes with the profile" in text


def test_a_suite_with_profiles_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, Device(_2=KeyboardInterrupt()))
    player = Device()
    assert sum(one.left for one in play(tmp_path, player, resume=True).values()) == 0
    assert [name for name, _ in player.played] == ["b", "b"]
    with pytest.raises(InputError, match="is not an empty folder"):
        play(tmp_path, Device())
