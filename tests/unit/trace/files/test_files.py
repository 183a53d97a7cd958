import os
from pathlib import Path

import pytest

from emulator.errors import TraceError
from emulator.trace.files.files import find_trace


def make(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def names(paths: object) -> list[str]:
    return [path.name for path in paths]  # type: ignore[attr-defined]


def test_a_folder_gives_its_ranks_in_numeric_order(tmp_path: Path) -> None:
    make(tmp_path, *(f"t.{rank}.et" for rank in range(12)), "COMMAND.txt")
    found = find_trace(tmp_path)
    assert found.prefix == "t"
    assert names(found.paths) == [f"t.{rank}.et" for rank in range(12)]


def test_a_prefix_chooses_between_traces(tmp_path: Path) -> None:
    make(tmp_path, "a.0.et", "a.1.et", "b.0.et.gz", "b.1.et.zst")
    assert names(find_trace(tmp_path / "a").paths) == ["a.0.et", "a.1.et"]
    assert names(find_trace(tmp_path / "b.").paths) == ["b.0.et.gz", "b.1.et.zst"]


def test_a_prefix_may_contain_dots_and_numbers(tmp_path: Path) -> None:
    make(tmp_path, "v1.2.0.et", "v1.2.1.et")
    assert find_trace(tmp_path).prefix == "v1.2"


@pytest.mark.parametrize(
    ("present", "ranks", "problem"),
    [
        ("a.0 a.1 b.0 b.1", None, r"holds 2 traces \(a, b\): name one, as .*/a"),
        ("t.0 t.1 t.3 t.4", None, r"rank 2 is missing \(found: 0-1, 3-4\)"),
        ("t.0 t.1", 4, r"rank 2-3 is missing"),
        ("t.0 t.1", 1, r"has 2 ranks, --ranks asks for 1"),
        ("t.0 t.999999999", None, r"rank 1-.* is missing"),
    ],
)
def test_a_set_that_is_not_one_rank_each_is_refused(
    tmp_path: Path, present: str, ranks: int | None, problem: str
) -> None:
    make(tmp_path, *(f"{name}.et" for name in present.split()))
    with pytest.raises(TraceError, match=problem):
        find_trace(tmp_path, ranks=ranks)


def test_a_rank_in_two_encodings_is_an_error(tmp_path: Path) -> None:
    make(tmp_path, "t.0.et", "t.0.et.gz", "t.1.et")
    with pytest.raises(TraceError, match=r"rank 0: has 2 files: t\.0\.et and t\.0\.et\.gz"):
        find_trace(tmp_path)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("", "contains no trace"),
        ("absent", "no such file or folder"),
        ("absent/t", "no such file or folder"),
        ("x" * 5000, "File name too long"),
    ],
    ids=["folder", "absent", "absent/t", "long"],
)
def test_a_place_without_a_trace_says_so(tmp_path: Path, place: str, problem: str) -> None:
    make(tmp_path, "readme.md", "comm_group.json")
    with pytest.raises(TraceError, match=problem):
        find_trace(tmp_path / place)


def test_one_file_is_a_world_only_when_asked(tmp_path: Path) -> None:
    make(tmp_path, "t.0.et", "t.1.et")
    with pytest.raises(TraceError, match=r"is one file: name the folder or the prefix \(.*/t\) .* --ranks 1"):
        find_trace(tmp_path / "t.0.et")
    assert names(find_trace(tmp_path / "t.1.et", ranks=1).paths) == ["t.1.et"]
    with pytest.raises(TraceError, match="is one file"):
        find_trace(tmp_path / "t.0.et", ranks=2)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("run.yaml", "is YAML, not a trace: a run spec is given with -f"),
        ("README.md", "is no trace in a format that Charkha reads"),
        ("t.et.gz", "is one file: name the folder"),
    ],
)
def test_a_file_that_is_no_trace_is_not_called_one(tmp_path: Path, name: str, problem: str) -> None:
    make(tmp_path, name)
    with pytest.raises(TraceError, match=problem):
        find_trace(tmp_path / name)


def test_a_lone_rank_0_is_a_world_only_when_asked(tmp_path: Path) -> None:
    make(tmp_path, "t.0.et")
    with pytest.raises(TraceError, match=r"only rank 0 is there: pass --ranks 1"):
        find_trace(tmp_path)
    assert len(find_trace(tmp_path, ranks=1)) == 1


def test_json_is_a_trace_only_where_there_is_no_et(tmp_path: Path) -> None:
    make(tmp_path, "t.0.json", "t.1.json.gz")
    assert names(find_trace(tmp_path).paths) == ["t.0.json", "t.1.json.gz"]
    make(tmp_path, "t.0.et", "t.1.et", "other.0.json", "comm_group.json", "._t.0.et")
    assert names(find_trace(tmp_path).paths) == ["t.0.et", "t.1.et"]


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (["comm_group.json", "workload.json"], "comm_group.json"),
        (["t.json", "comm_group.json"], "t.json"),
        (["workload.json"], "workload.json"),
        ([], None),
    ],
)
def test_the_group_file_beside_the_trace_is_reported(tmp_path: Path, present: list[str], chosen: str | None) -> None:
    make(tmp_path, "t.0.et", "t.1.et", *present)
    found = find_trace(tmp_path).group_file
    assert (found.name if found else None) == chosen


def test_symlinks_are_followed(tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    for rank in range(2):
        make(tmp_path, f"real.{rank}.et")
        (folder / f"t.{rank}.et").symlink_to(tmp_path / f"real.{rank}.et")
    assert len(find_trace(folder)) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_says_why(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    try:
        with pytest.raises(TraceError, match="Permission denied"):
            find_trace(tmp_path)
    finally:
        tmp_path.chmod(0o700)
