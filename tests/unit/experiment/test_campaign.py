from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from emulator.annexes.series.run_set import campaign_sets
from emulator.errors import HostError, InputError, RunError, RunInterrupted
from emulator.experiment.series import CampaignProgress, Turn, play_campaign, schedule
from emulator.experiment.spec.document import with_absolute_paths
from emulator.experiment.spec.spec import AUTO, Campaign, Device, Experiment, Job, Trace
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.session import StoredSession, session_of
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.samples.classes import count_classes
from emulator.trace.meaning.workload import build_workload
from tests.support import traces
from tests.support.runs import manifest, ranks, write_run

BASE = Experiment(jobs=(Job(trace=Trace(path="t")),))


def turns(repeat: int | Literal["auto"], *profiles: str, classes: int = 1) -> list[Turn]:
    return schedule(replace(BASE, campaign=Campaign(repeat=repeat, profiles=profiles)), classes=classes)


def names(found: Sequence[Turn]) -> list[str]:
    return [str(turn.folder(Path())) for turn in found]


class Player:
    """Plays runs that are made up; `problems` are raised instead of the runs of these numbers, from 0."""

    def __init__(self, **problems: BaseException) -> None:
        self.played: list[tuple[str, str | None]] = []
        self._problems = {int(name.strip("_")): error for name, error in problems.items()}

    def __call__(self, experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        number = len(self.played)
        self.played.append((str(folder), experiment.device.profile))
        if number in self._problems:
            raise self._problems[number]
        return session_of(write_run(folder, [], iterations={0: ranks((0, 1_000), (0, 2_000))}))


def campaign(tmp_path: Path, repeat: int | Literal["auto"], *profiles: str) -> CampaignProgress:
    return CampaignProgress(tmp_path / "out", turns(repeat, *profiles))


def test_versions_take_turns() -> None:
    found = turns(2, "fw-a", "lab/profiles/fw-b.yaml")
    assert names(found) == ["fw-a/01", "fw-b/01", "fw-a/02", "fw-b/02"]
    assert [turn.experiment.device.profile for turn in found[:2]] == ["fw-a", "lab/profiles/fw-b.yaml"]


def test_without_profiles_there_is_one_group() -> None:
    assert names(turns(3)) == ["01", "02", "03"]


def test_the_same_version_twice_makes_two_groups() -> None:
    assert names(turns(1, "fw-a", "fw-a", "x/fw-a.yaml")) == ["fw-a/01", "fw-a-2/01", "fw-a-3/01"]


@pytest.mark.parametrize(("classes", "runs"), [(1, 4), (6, 5), (23, 6), (24, 7)])
def test_the_number_of_runs_is_what_the_classes_need(classes: int, runs: int) -> None:
    assert len(turns(AUTO, classes=classes)) == runs
    assert len(turns(AUTO, "a", "b", classes=classes)) == 2 * runs


def test_classes_are_counted_before_anything_is_played() -> None:
    """Two sizes of all-reduce, a pair, the iteration; a collective of size 0 takes no time."""
    nodes = [traces.coll(number, "all_reduce", size) for number, size in enumerate((8, 8, 16, 0), start=1)]
    pair = traces.send(5, 1, size=4), traces.recv(5, 0, size=4)
    workload = build_workload([traces.rank_trace(rank, [*nodes, pair[rank]]) for rank in range(2)])
    assert count_classes(workload) == 4


def test_one_profile_and_several_are_not_both() -> None:
    with pytest.raises(ValueError, match="not both"):
        Experiment(jobs=BASE.jobs, device=Device(profile="a"), campaign=Campaign(profiles=("a", "b")))


def test_every_run_gets_its_folder_and_its_profile(tmp_path: Path) -> None:
    play, progress, told = Player(), campaign(tmp_path, 2, "a", "b"), []
    play_campaign(play, progress, on_turn=lambda number, turn: told.append((number, str(turn))))
    root = progress.root
    assert play.played == [(f"{root}/a/01", "a"), (f"{root}/b/01", "b"), (f"{root}/a/02", "a"), (f"{root}/b/02", "b")]
    assert told == [(1, "a 01"), (2, "b 01"), (3, "a 02"), (4, "b 02")]
    assert progress.complete == 4
    assert progress.groups == [root / "a", root / "b"]


def test_a_run_that_fails_is_left_out_and_the_next_goes_on(tmp_path: Path) -> None:
    progress = campaign(tmp_path, 3)
    play_campaign(Player(_1=RunError("agent a0 is lost")), progress)
    plain = progress.to_plain()
    assert (plain["planned"], plain["complete"]) == (3, 2)
    assert [(one["jct_ns"], one["problem"]) for one in plain["runs"]] == [
        (2_000, None),
        (None, "agent a0 is lost"),
        (2_000, None),
    ]


def test_two_failures_in_a_row_are_the_end(tmp_path: Path) -> None:
    play = Player(_1=RunError("one"), _2=RunError("two"))
    with pytest.raises(RunError, match="2 runs in a row failed; the last one: two"):
        play_campaign(play, campaign(tmp_path, 9))
    assert len(play.played) == 3


@pytest.mark.parametrize("error", [RunInterrupted, lambda: HostError("no lab"), KeyboardInterrupt])
def test_what_is_complete_stays_when_it_ends_early(error: Callable[[], BaseException], tmp_path: Path) -> None:
    progress = campaign(tmp_path, 9)
    with pytest.raises((RunInterrupted, HostError, KeyboardInterrupt)):
        play_campaign(Player(_2=error()), progress)
    assert progress.complete == 2
    assert sorted(path.name for path in progress.root.glob("0*")) == ["01", "02"]


def test_bad_input_leaves_nothing_to_show(tmp_path: Path) -> None:
    progress = campaign(tmp_path, 2)
    with pytest.raises(InputError, match="no such profile"):
        play_campaign(Player(_0=InputError("no such profile")), progress)
    assert progress.outcomes == []


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out" / "old").mkdir(parents=True)
    with pytest.raises(InputError, match="not an empty folder"):
        play_campaign(Player(), campaign(tmp_path, 2))


def test_a_resumed_campaign_plays_only_what_is_missing(tmp_path: Path) -> None:
    first = Player(_3=RunInterrupted())
    with pytest.raises(RunInterrupted):
        play_campaign(first, campaign(tmp_path, 3, "a", "b"))
    second, progress = Player(), campaign(tmp_path, 3, "a", "b")
    play_campaign(second, progress, resume=True)
    root = progress.root
    assert [folder for folder, _ in second.played] == [f"{root}/b/02", f"{root}/a/03", f"{root}/b/03"]
    assert progress.complete == 6


def test_a_resumed_campaign_keeps_what_an_aborted_run_measured(tmp_path: Path) -> None:
    root = tmp_path / "out"
    with pytest.raises(RunInterrupted), RunWriter(root / "01", manifest(run_id="first")):
        raise RunInterrupted
    play, progress = Player(), campaign(tmp_path, 1)
    play_campaign(play, progress, resume=True)
    assert play.played == [(f"{root}/01", None)]
    assert read_run(root / "01.aborted-1").manifest.run_id == "first"


def test_a_resumed_campaign_refuses_a_run_of_another_run_spec(tmp_path: Path) -> None:
    other = replace(BASE, jobs=(Job(trace=Trace(path="t"), iterations=9),))
    write_run(tmp_path / "out" / "01", [], spec=with_absolute_paths(other).to_plain())
    with pytest.raises(InputError, match="01: has a run of a different run spec"):
        play_campaign(Player(), campaign(tmp_path, 1), resume=True)


def test_the_time_of_an_iteration_has_the_spread_of_its_runs(tmp_path: Path) -> None:
    """Runs of 1.0, 1.1, 1.2 and 1.3 ms, whose iterations are all alike: only the runs tell how far off it may be."""

    def play(_: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        each_ns = 1_000_000 + 100_000 * (int(folder.name) - 1)
        return session_of(write_run(folder, [], iterations={n: ranks((0, 1_000), (0, each_ns)) for n in range(10)}))

    few, progress = campaign(tmp_path / "few", 2), campaign(tmp_path, 4)
    play_campaign(play, few)
    play_campaign(play, progress)
    (shown,) = campaign_sets(few).lines()
    assert shown == "JCT over the runs: 1.05 ms U not stated: 2 runs, and 4 are the fewest"
    (plain,) = campaign_sets(progress).to_json()["jct"]
    assert plain["value"] == pytest.approx(1.15e6, rel=5e-3)
    repeat = plain["components"][0]
    assert (repeat["name"], repeat["kind"], repeat["standard"] > 20_000) == ("repeat", "A", True)
    assert plain["why"].startswith("error of time stamps not known")
