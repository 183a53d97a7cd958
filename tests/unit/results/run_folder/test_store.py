import errno
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.results.run_folder.manifest import TraceFacts
from emulator.results.run_folder.store import (
    RunFilter,
    choose_runs,
    find_runs,
    is_run_folder,
    list_runs,
    plan_removal,
    remove,
    stored_run,
)
from emulator.results.run_folder.writer import RunWriter
from emulator.views.as_json import runs_to_json
from tests.support.repeated import write_runs
from tests.support.runs import manifest, write_run

MONDAY = datetime(2026, 1, 5, 12, tzinfo=UTC)


def stored(root: Path, name: str, *, days: int = 0, **facts: object) -> Path:
    created = (MONDAY + timedelta(days=days)).isoformat()
    return write_run(root / name, [], created=created, run_id=name, **facts).folder


def unfinished(folder: Path, *, seconds_ago: float) -> Path:
    writer = RunWriter(folder, manifest())
    writer.__enter__()
    writer._close_streams()
    for entry in folder.iterdir():
        moment = datetime.now().timestamp() - seconds_ago
        os.utime(entry, (moment, moment))
    return folder


def names(root: Path, **which: object) -> list[str]:
    return [run.folder.name for run in list_runs(root, RunFilter(**which))]  # type: ignore[arg-type]


def test_runs_are_found_at_any_depth_and_the_newest_comes_first(tmp_path: Path) -> None:
    stored(tmp_path, "one")
    stored(tmp_path / "repeat" / "fw-a", "01", days=2)
    stored(tmp_path / "repeat" / "fw-b", "02", days=1)
    (tmp_path / "notes").mkdir()
    assert names(tmp_path) == ["01", "02", "one"]


def test_nothing_is_looked_for_inside_a_run_or_behind_a_link(tmp_path: Path) -> None:
    folder = stored(tmp_path / "store", "one")
    stored(folder, "inside")
    (tmp_path / "store" / "link").symlink_to(folder)
    assert [path.name for path in find_runs(tmp_path / "store")] == ["one"]


def test_a_file_that_a_closing_run_has_just_renamed_is_no_error(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "run", seconds_ago=0)
    (folder / "samples.parquet.tmp").symlink_to("gone")
    assert stored_run(folder).status == "running"


def test_a_root_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: cannot be read \(No such file"):
        list_runs(tmp_path / "nowhere", RunFilter())


@pytest.mark.parametrize(
    ("which", "found"),
    [
        ({"trace": "resnet"}, ["old"]),
        ({"trace": "traces/gpt*"}, ["new"]),
        ({"trace": "abcdefab"}, ["old"]),
        ({"trace": "abc"}, []),
        ({"dut": "acme"}, ["old"]),
        ({"dut": "x9*"}, ["new"]),
        ({"firmware": "2.*"}, ["new"]),
        ({"firmware": "lossy"}, ["old"]),
        ({"since": MONDAY + timedelta(days=1)}, ["new"]),
        ({"until": MONDAY + timedelta(days=1)}, ["old"]),
        ({"status": "complete", "trace": "*"}, ["new", "old"]),
        ({"status": "aborted"}, []),
    ],
)
def test_filters(which: dict[str, object], found: list[str], tmp_path: Path) -> None:
    facts = {"ranks": 2, "nodes": 4, "communication_nodes": 2}
    stored(
        tmp_path,
        "old",
        trace=TraceFacts(path="resnet", digest="abcdefab" * 8, **facts),
        dut={"vendor": "Acme", "model": "S1", "firmware": "1.0", "profile": {"name": "lossy"}},
    )
    stored(
        tmp_path,
        "new",
        days=3,
        trace=TraceFacts(path="traces/gpt-8r", digest="12" * 32, **facts),
        dut={"vendor": "Other", "model": "X900", "firmware": "2.1"},
    )
    assert names(tmp_path, **which) == found


def test_a_damaged_folder_is_listed_as_unreadable_and_asked_for_by_that(tmp_path: Path) -> None:
    stored(tmp_path, "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "manifest.json").write_text("{")
    assert names(tmp_path) == ["good", "bad"]
    assert names(tmp_path, status="unreadable") == ["bad"]
    assert names(tmp_path, trace="*") == ["good"]
    assert "is not the manifest" in (stored_run(tmp_path / "bad").problem or "")


@pytest.mark.parametrize(
    "change", [{"created": 5}, {"trace": {}}, {"trials": None}, {"dut": "x"}, {"format_version": 99}]
)
def test_a_manifest_that_is_none_is_unreadable(change: dict[str, object], tmp_path: Path) -> None:
    path = stored(tmp_path, "one") / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert names(tmp_path, status="unreadable") == ["one"]


def test_what_is_wrong_in_a_field_that_no_list_shows_keeps_a_folder(tmp_path: Path) -> None:
    path = stored(tmp_path, "one") / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": "x"}))
    (found,) = plan_removal(list_runs(tmp_path, RunFilter()))
    assert found.kept_because == "it is not a valid run"


def test_a_folder_that_the_system_does_not_open_is_no_run_folder(tmp_path: Path) -> None:
    assert not is_run_folder(tmp_path / ("a" * 300))


def test_a_run_is_running_while_its_command_lives_and_interrupted_once_that_is_gone(tmp_path: Path) -> None:
    assert stored_run(unfinished(tmp_path / "held", seconds_ago=3_600)).status == "running"
    if (child := os.fork()) == 0:
        RunWriter(tmp_path / "killed", manifest()).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    (found,) = list_runs(tmp_path, RunFilter(status="interrupted"))
    assert (found.folder.name, found.problem) == ("killed", "the run ended without closing its folder")
    assert plan_removal([found])[0].kept_because is None


def test_where_there_are_no_locks_a_run_is_running_while_something_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert stored_run(unfinished(tmp_path / "now", seconds_ago=5)).status == "running"
    assert stored_run(unfinished(tmp_path / "then", seconds_ago=3_600)).status == "interrupted"


def test_how_many_iterations_of_an_unclosed_run_count_is_not_told_as_none(tmp_path: Path) -> None:
    closed, crashed = runs_to_json(
        [stored_run(stored(tmp_path, "one")), stored_run(unfinished(tmp_path / "two", seconds_ago=5))]
    )
    assert (closed["trials"]["included"], crashed["trials"]) == (2, None)


def test_a_run_folder_is_removed_whole(tmp_path: Path) -> None:
    folder = stored(tmp_path, "one")
    (folder / "trace").mkdir()
    (folder / "trace" / "one.0.et").write_bytes(b"123")
    (folder / "report.html").write_text("x")
    (folder / ".charkha-123.tmp").write_text("of a report that was not whole when its process was killed")
    (found,) = plan_removal([stored_run(folder)])
    assert found.kept_because is None
    assert found.size_bytes > 1_000
    remove(found)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stranger", ["notes.txt", "trace2/x", "samples.csv"])
def test_a_folder_with_something_else_in_it_is_kept(stranger: str, tmp_path: Path) -> None:
    folder = stored(tmp_path, "one")
    (folder / stranger).parent.mkdir(exist_ok=True)
    (folder / stranger).write_text("mine")
    (found,) = plan_removal([stored_run(folder)])
    assert stranger.split("/")[0] in (found.kept_because or "")
    with pytest.raises(InputError, match="is kept"):
        remove(found)
    assert (folder / stranger).read_text() == "mine"


def test_what_a_link_in_a_run_points_to_is_not_removed(tmp_path: Path) -> None:
    folder = stored(tmp_path / "store", "one")
    (tmp_path / "precious").mkdir()
    (folder / "trace").symlink_to(tmp_path / "precious")
    (found,) = plan_removal([stored_run(folder)])
    assert "trace" in (found.kept_because or "")


def test_what_is_no_run_or_is_still_running_is_kept(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "a web app"}')
    found = plan_removal([stored_run(tmp_path), stored_run(unfinished(tmp_path / "now", seconds_ago=5))])
    assert [one.kept_because for one in found] == ["it is not a valid run", "the run has not ended"]


def test_a_run_that_someone_wrote_to_since_it_was_planned_is_kept(tmp_path: Path) -> None:
    folder = stored(tmp_path, "one")
    (found,) = plan_removal([stored_run(folder)])
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        remove(found)
    assert (folder / "manifest.json").exists()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two runs of firmware 1.0, then one of 1.1."""
    write_runs(tmp_path / "a", runs=2, seed=1, dut={"firmware": "1.0"})
    write_runs(tmp_path / "b", runs=1, seed=2, turn=300, dut={"firmware": "1.1"})
    return tmp_path


@pytest.mark.parametrize(
    ("firmware", "keep", "chosen"),
    [("1.0", 0, ["a/02", "a/01"]), ("1.0", 1, ["a/01"]), ("1.0", 5, []), (None, 2, ["a/01"]), ("2.0", 0, [])],
)
def test_a_filter_chooses_below_the_root_and_the_newest_are_kept(
    root: Path, firmware: str | None, keep: int, chosen: list[str]
) -> None:
    runs = choose_runs([], RunFilter(firmware=firmware), root=root, keep=keep)
    assert [str(run.folder.relative_to(root)) for run in runs] == chosen


def test_named_folders_are_chosen_once_newest_first(root: Path) -> None:
    folders = [root / "a" / "01", root / "b" / "01", root / "a" / ".." / "a" / "01", root / "a" / "01"]
    runs = choose_runs(folders, RunFilter(), root=root)
    assert [run.folder.resolve() for run in runs] == [root / "b" / "01", root / "a" / "01"]


def test_folders_and_a_filter_are_refused(root: Path) -> None:
    with pytest.raises(InputError, match="not both"):
        choose_runs([root / "a" / "01"], RunFilter(status="complete"), root=root)


def test_everything_at_once_is_refused(root: Path) -> None:
    with pytest.raises(InputError, match="prune never removes"):
        choose_runs([], RunFilter(), root=root)
