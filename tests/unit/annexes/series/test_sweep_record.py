from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.annexes.series.sweep_record import SweepRecord, record_of
from emulator.annexes.series.sweep_table import headline, note, render_sweep_record
from emulator.errors import RunError
from emulator.experiment.series import CampaignProgress, play_campaign
from emulator.experiment.spec.document import with_absolute_paths
from emulator.experiment.spec.spec import Campaign, Experiment
from emulator.results.run_folder.session import StoredSession, session_of
from tests.support.runs import collective, ranks, write_run
from tests.support.terminal import shown
from tests.unit.annexes.series.test_sweep_grid import BASE, sweep

ITERATIONS = 8


def jct_ns(experiment: Experiment, iteration: int) -> int:
    """1 ms with one queue pair, half of it with two, and a little more in every iteration."""
    return 1_000_000 // int(experiment.network.transport.options["qps"]) + 1_000 * iteration


class Player:
    """Makes up runs; `failing` are names of points whose runs fail."""

    def __init__(self, *failing: str) -> None:
        self._failing = failing
        self.played: list[str] = []

    def __call__(self, experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        self.played.append(folder.parent.name)
        if folder.parent.name in self._failing:
            raise RunError("agent a0 is lost")
        times = [jct_ns(experiment, number) for number in range(ITERATIONS)]
        rows, spans, now = [], {}, 0
        for number, time in enumerate(times):
            rows += collective([now] * 2, [now + time] * 2, iteration=number, size_bytes=1_000)
            spans[number] = ranks(*[(now, now + time)] * 2)
            now += time
        run_id, spec = f"{folder.parent.name}-{folder.name}", with_absolute_paths(experiment).to_plain()
        return session_of(write_run(folder, rows, iterations=spans, run_id=run_id, spec=spec))


def played(root: Path, *axes: str, player: Player | None = None, repeat: int = 1, resume: bool = False) -> SweepRecord:
    found = sweep(*axes, base=replace(BASE, campaign=Campaign(repeat=repeat)))
    progress = CampaignProgress(root, found.turns)
    play_campaign(player or Player(), progress, allowed_failures=99, resume=resume)
    return record_of(found, progress.outcomes, name="bench", written="2026-01-02T03:04:05+00:00")


def test_a_point_of_one_run_has_the_interval_of_its_iterations(tmp_path: Path) -> None:
    one, two = played(tmp_path / "out", "qps=1,2").points
    assert (one.runs, one.unit, one.problem) == (1, "iterations", "")
    assert one.jct_ns is not None
    assert two.jct_ns is not None
    assert (one.jct_ns.value, two.jct_ns.value) == (1_003_000, 503_000)
    assert one.jct_ns.low is not None
    assert one.jct_ns.high is not None
    assert 1_000_000 <= one.jct_ns.low < one.jct_ns.value < one.jct_ns.high <= 1_007_000


def test_bus_bandwidth_has_the_interval_of_the_time_upside_down(tmp_path: Path) -> None:
    (one,) = played(tmp_path / "out", "qps=1").points
    busbw = one.busbw_bytes_per_s
    assert (one.collective, busbw is not None) == ("all_reduce, 2 ranks, 1000 B, ring", True)
    assert busbw is not None
    assert one.jct_ns is not None
    assert busbw.value == pytest.approx(1_000 * 1e9 / 1_003_000)
    assert busbw.low == pytest.approx(1_000 * 1e9 / (one.jct_ns.high or 0))
    assert busbw.high == pytest.approx(1_000 * 1e9 / (one.jct_ns.low or 0))


def test_a_point_of_several_runs_has_the_interval_of_its_runs(tmp_path: Path) -> None:
    record = played(tmp_path / "out", "qps=1,2", repeat=3)
    one = record.points[0]
    assert (one.runs, one.unit, record.left) == (3, "runs", 0)
    assert one.jct_ns is not None
    assert (one.jct_ns.low, one.jct_ns.high) == (pytest.approx(1_003_000), pytest.approx(1_003_000))


def test_a_point_that_fails_is_told_and_the_others_are_played(tmp_path: Path) -> None:
    player = Player("qps=2", "qps=3")
    record = played(tmp_path / "out", "qps=1,2,3,4", player=player)
    assert player.played == ["qps=1", "qps=2", "qps=3", "qps=4"]
    assert [one.runs for one in record.points] == [1, 0, 0, 1]
    assert (note(record.points[1]), record.left) == ("failed: agent a0 is lost", 2)
    assert headline(record) == "bench over qps (4 values); 2 of 4 points lack a complete run"


def test_the_file_holds_what_the_command_prints(tmp_path: Path) -> None:
    record = played(tmp_path / "out", "qps=1,2")
    record.write(tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert stored == json.loads(json.dumps(record.to_plain()))
    assert SweepRecord.read(tmp_path / "out") == record
    assert stored["axes"] == [{"name": "qps", "setting": "network.transport.options.qps", "values": ["1", "2"]}]
    assert stored["points"][1]["values"] == {"qps": "2"}


def test_the_table_has_a_row_per_point_and_says_where_everything_is(tmp_path: Path) -> None:
    lines = render_sweep_record(played(tmp_path / "out", "qps=1,2"), tmp_path / "out")
    text = "\n".join(shown(line, width=140) for line in lines)
    assert "bench over qps (2 values)" in text
    assert "503 µs" in text
    assert "Play what is missing" not in text


def test_values_and_repeats_can_be_added(tmp_path: Path) -> None:
    played(tmp_path / "out", "qps=1,2")
    player = Player()
    record = played(tmp_path / "out", "qps=1,2,3", player=player, repeat=2, resume=True)
    assert player.played == ["qps=3", "qps=1", "qps=2", "qps=3"]
    assert [one.runs for one in record.points] == [2, 2, 2]
