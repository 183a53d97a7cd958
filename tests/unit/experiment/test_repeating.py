from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.cli.options.repeat import add_repeat_options, is_repeated
from emulator.errors import HostError, InputError, RunError, RunInterrupted
from emulator.experiment.repeating import Turn, repeat, schedule
from emulator.run_folder.record import Run
from emulator.statistics.classes import count_classes
from emulator.trace.workload import build_workload
from tests.support import traces
from tests.support.runs import ranks, write_run


def parsed(*arguments: str, profile: str | None = None, as_json: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_repeat_options(parser)
    args = parser.parse_args(arguments)
    args.profile, args.json = profile, as_json
    return args


def names(turns: list[Turn]) -> list[str]:
    return [str(turn.folder(Path())) for turn in turns]


class Player:
    """Plays runs that are made up; `problems` are raised instead of the runs of these numbers, from 0."""

    def __init__(self, **problems: Exception) -> None:
        self.played: list[tuple[str, str | None]] = []
        self._problems = {int(name.strip("_")): error for name, error in problems.items()}

    def __call__(self, args: argparse.Namespace, folder: Path) -> Run:
        number = len(self.played)
        self.played.append((str(folder), args.profile))
        if number in self._problems:
            raise self._problems[number]
        return write_run(folder, [], iterations={0: ranks((0, 1_000), (0, 2_000))})


def test_versions_take_turns() -> None:
    turns = schedule(parsed("--repeat", "2", "--profiles", "fw-a,lab/profiles/fw-b.yaml"), classes=1)
    assert names(turns) == ["fw-a/01", "fw-b/01", "fw-a/02", "fw-b/02"]
    assert [turn.profile for turn in turns[:2]] == ["fw-a", "lab/profiles/fw-b.yaml"]


def test_without_profiles_there_is_one_group() -> None:
    assert names(schedule(parsed("--repeat", "3"), classes=1)) == ["01", "02", "03"]


def test_the_same_version_twice_makes_two_groups() -> None:
    assert names(schedule(parsed("--repeat", "1", "--profiles", "fw-a,fw-a,x/fw-a.yaml"), classes=1)) == [
        "fw-a/01",
        "fw-a-2/01",
        "fw-a-3/01",
    ]


@pytest.mark.parametrize(("classes", "runs"), [(1, 4), (6, 5), (23, 6), (24, 7)])
def test_the_number_of_runs_is_what_the_classes_need(classes: int, runs: int) -> None:
    assert len(schedule(parsed("--repeat", "auto"), classes=classes)) == runs
    assert len(schedule(parsed("--profiles", "a,b"), classes=classes)) == 2 * runs


def test_classes_are_counted_before_anything_is_played() -> None:
    """Two sizes of all-reduce, a pair, the iteration; a collective of size 0 takes no time."""
    nodes = [traces.coll(number, "all_reduce", size) for number, size in enumerate((8, 8, 16, 0), start=1)]
    pair = traces.send(5, 1, size=4), traces.recv(5, 0, size=4)
    workload = build_workload([traces.rank_trace(rank, [*nodes, pair[rank]]) for rank in range(2)])
    assert count_classes(workload) == 4


@pytest.mark.parametrize("arguments", [["--repeat", "0"], ["--repeat", "x"], ["--profiles", "a,,b"]])
def test_what_makes_no_sense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(*arguments)
    assert "needed" in capsys.readouterr().err


def test_one_profile_and_several_are_not_both() -> None:
    with pytest.raises(InputError, match="not both"):
        schedule(parsed("--profiles", "a,b", profile="a"), classes=1)
    assert not is_repeated(parsed(profile="a"))
    assert is_repeated(parsed("--profiles", "a"))


def test_every_run_gets_its_folder_and_its_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play = Player()
    args = parsed("--repeat", "2", "--profiles", "a,b")
    assert repeat(args, play, root=tmp_path / "out", classes=1) == 0
    root = tmp_path / "out"
    assert play.played == [
        (f"{root}/a/01", "a"),
        (f"{root}/b/01", "b"),
        (f"{root}/a/02", "a"),
        (f"{root}/b/02", "b"),
    ]
    assert args.profile is None  # the options are left as they were
    out, err = capsys.readouterr()
    assert "4 of 4 runs are complete" in out
    assert f"charkha compare {root}/a {root}/b" in out.replace("\n", "")
    assert f"run 4 of 4: {root}/b/02" in err


def test_a_run_that_fails_is_left_out_and_the_next_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play = Player(_1=RunError("agent a0 is lost"))
    assert repeat(parsed("--repeat", "3", as_json=True), play, root=tmp_path / "out", classes=1) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["planned"], found["complete"]) == (3, 2)
    assert [(one["jct_ns"], one["problem"]) for one in found["runs"]] == [
        (2_000, None),
        (None, "agent a0 is lost"),
        (2_000, None),
    ]


def test_two_failures_in_a_row_are_the_end(tmp_path: Path) -> None:
    play = Player(_1=RunError("one"), _2=RunError("two"))
    with pytest.raises(RunError, match="2 runs in a row failed, the last one: two"):
        repeat(parsed("--repeat", "9"), play, root=tmp_path / "out", classes=1)
    assert len(play.played) == 3


@pytest.mark.parametrize("error", [RunInterrupted, lambda: HostError("no lab"), KeyboardInterrupt])
def test_what_is_complete_stays_when_it_ends_early(
    error: Callable[[], Exception], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play = Player(_2=error())
    with pytest.raises((RunInterrupted, HostError, KeyboardInterrupt)):
        repeat(parsed("--repeat", "9"), play, root=tmp_path / "out", classes=1)
    assert "2 of 9 runs are complete" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["01", "02"]


def test_bad_input_is_told_before_any_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="no such profile"):
        repeat(parsed("--repeat", "2"), Player(_0=InputError("no such profile")), root=tmp_path / "out", classes=1)
    assert capsys.readouterr().out == ""


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(InputError, match="not an empty folder"):
        repeat(parsed("--repeat", "2"), Player(), root=tmp_path, classes=1)
