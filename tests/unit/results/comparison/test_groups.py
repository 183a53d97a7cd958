from pathlib import Path

import pytest

from emulator.errors import InputError, ResultError
from emulator.results.comparison.groups import find_group, groups_to_compare, read_groups
from emulator.results.run_folder.manifest import Trials
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.samples.classes import ClassKey
from tests.support.runs import collective, manifest, write_run
from tests.support.sessions import PlayedJob, write_jobs

ROWS = collective([0, 0], [300, 300])
CALIBRATION = {"rates": [[500, 20e9], [50_000, 40e9]], "step_ns": 100}


def made(folder: Path, **facts: object) -> Path:
    return write_run(folder, ROWS, **facts).folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs each in a and b, made in the order b/1, a/2, b/2, a/1."""
    monkeypatch.chdir(tmp_path)
    for minute, name in enumerate(("b/1", "a/2", "b/2", "a/1")):
        made(tmp_path / name, created=f"2026-01-02T00:0{minute}:00+00:00", run_id=name)
    return tmp_path


def names(folders: list[Path]) -> list[str]:
    return sorted(str(folder) for folder in folders)


@pytest.mark.parametrize(
    ("argument", "found"),
    [
        ("a", ["a/1", "a/2"]),
        ("a/", ["a/1", "a/2"]),
        ("a/1", ["a/1"]),
        ("*/1", ["a/1", "b/1"]),
        ("[ab]", ["a/1", "a/2", "b/1", "b/2"]),
        ("**/2", ["a/2", "b/2"]),
        (".", ["a/1", "a/2", "b/1", "b/2"]),
    ],
)
def test_a_group_is_a_folder_or_a_pattern(root: Path, argument: str, found: list[str]) -> None:
    assert names(find_group(argument)) == found
    assert names(find_group(f"{root}/{argument}")) == [f"{root}/{one}" for one in found]


def test_a_run_that_two_matches_reach_counts_once(root: Path) -> None:
    (root / "link").symlink_to(root / "a")
    assert len(find_group("[al]*")) == 2


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("empty", "empty: it contains no run folder; `charkha runs list DIR`"),
        ("nowhere", "nowhere: neither a run folder nor a pattern that matches one"),
        ("nowhere/*", "neither a run folder nor a pattern"),
    ],
)
def test_a_group_without_runs_is_an_error(root: Path, argument: str, problem: str) -> None:
    (root / "empty").mkdir()
    with pytest.raises(InputError) as error:
        find_group(argument)
    assert problem in str(error.value)


def test_runs_are_ordered_by_the_time_they_were_made(root: Path) -> None:
    (group,) = read_groups(["a"])
    assert [run.manifest.run_id for run in group.runs] == ["a/2", "a/1"]
    assert (group.name, group.attempted, group.excluded) == ("a", 2, [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("a", "b"), ["a", "b"]),
        (("a/1", "b/1"), ["a/1", "b/1"]),
        (("a/1", "b/2"), ["1", "2"]),
        (("a/*", "b/*"), ["a", "b"]),
        (("./a", "b/"), ["a", "b"]),
    ],
)
def test_a_group_is_named_by_the_shortest_end_that_is_unique(
    root: Path, arguments: tuple[str, str], expected: list[str]
) -> None:
    assert [group.name for group in read_groups(arguments)] == expected


@pytest.mark.parametrize("arguments", [("a", "a"), ("a", "a/1"), ("a", "*/2")])
def test_a_run_in_two_groups_is_refused(root: Path, arguments: tuple[str, str]) -> None:
    with pytest.raises(InputError, match=rf"is in two groups, a and {arguments[1].replace('*', '.')}; give groups"):
        read_groups(arguments)


def test_runs_that_are_aborted_or_measured_nothing_are_excluded_with_the_reason(root: Path) -> None:
    with pytest.raises(RuntimeError), RunWriter(root / "a" / "3", manifest()):
        raise RuntimeError("the switch went away")
    made(root / "a" / "4", trials=Trials(attempted=1, warmup=1, included=0))
    (group,) = read_groups(["a"])
    assert len(group.runs) == 2
    assert group.attempted == 4
    assert {one.folder.name: one.reason for one in group.excluded} == {
        "3": "aborted: the switch went away",
        "4": "no iteration counts",
    }


def test_a_group_without_a_complete_run_is_an_error_with_the_reasons(root: Path) -> None:
    made(root / "c" / "1", trials=Trials(attempted=1, warmup=1, included=0))
    with pytest.raises(ResultError, match=r"c: no run of this group can be compared \(\S+/1: no iteration counts\)"):
        read_groups(["a", "c"])


def test_classes_that_the_tester_limits_are_known_if_it_was_calibrated(root: Path) -> None:
    made(root / "c" / "1", calibration=CALIBRATION)
    (calibrated,), (other,) = (group.runs for group in read_groups(["c", "a/1"]))
    assert calibrated.tester_percent[ClassKey("all_reduce", 2, 1000, "ring")] >= 90
    assert other.tester_percent == {}


def test_one_group_is_not_enough(root: Path) -> None:
    with pytest.raises(
        InputError, match="a: a comparison needs two groups: give another one, or split one by firmware"
    ):
        groups_to_compare(["a"], by_firmware=False)
    with pytest.raises(InputError, match="give another one, all its runs have the same firmware"):
        groups_to_compare(["a"], by_firmware=True)


def test_a_single_group_can_be_split_by_firmware_in_order_of_first_measurement(root: Path) -> None:
    for number, firmware in enumerate(("2.0", "1.0", "2.0")):
        dut = {"firmware": firmware}
        made(root / "c" / str(number), created=f"2026-01-02T00:0{number}:00+00:00", run_id=str(number), dut=dut)
    made(root / "c" / "9", trials=Trials(attempted=1, warmup=1, included=0), dut={"firmware": "3.0"})
    groups = groups_to_compare(["c"], by_firmware=True)
    assert [(group.name, len(group.runs)) for group in groups] == [("2.0", 2), ("1.0", 1)]
    assert [group.attempted for group in groups] == [3, 1], "excluded runs stay with the first group"


def test_several_groups_are_not_split_by_firmware(root: Path) -> None:
    assert [group.name for group in groups_to_compare(["a", "b"], by_firmware=True)] == ["a", "b"]


def test_the_jobs_of_a_session_are_no_group(tmp_path: Path) -> None:
    write_jobs(tmp_path / "runs" / "session", {name: PlayedJob(0, [1_000_000] * 3) for name in "ab"})
    for argument in (tmp_path / "runs" / "session", tmp_path / "runs"):
        with pytest.raises(InputError, match=r"session: contains the jobs of a session, .*job=a, .*job=b"):
            find_group(str(argument))
    assert [one.name for one in find_group(str(tmp_path / "runs/*/job=a"))] == ["job=a"]
