from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from emulator.errors import InputError, TraceError
from emulator.trace.files import load
from emulator.trace.files.files import find_trace
from emulator.trace.files.load import digest, load_trace
from tests.support.trace_files import compute, write


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "trace"
    folder.mkdir()
    write(folder / "t.0.et", [compute(1), compute(2)])
    write(folder / "t.1.et", [compute(3)])
    return folder


def test_every_rank_is_read_and_reported(trace: Path) -> None:
    progress: list[tuple[int, int]] = []
    loaded = load_trace(trace, on_rank=lambda done, total: progress.append((done, total)))
    assert [one.node_id.tolist() for one in loaded.traces] == [[1, 2], [3]]
    assert [one.rank for one in loaded.traces] == [0, 1]
    assert (loaded.nodes, loaded.path, loaded.groups, loaded.group_file) == (3, trace, {}, None)
    assert progress == [(1, 2), (2, 2)]


def test_the_group_file_beside_the_trace_is_taken(trace: Path) -> None:
    (trace / "comm_group.json").write_text('{"1": [0, 1]}')
    loaded = load_trace(trace)
    assert (loaded.groups, loaded.group_file) == ({"1": (0, 1)}, trace / "comm_group.json")


def test_a_group_file_that_is_named_goes_before_the_one_beside_the_trace(trace: Path, tmp_path: Path) -> None:
    (trace / "comm_group.json").write_text("not read")
    named = tmp_path / "groups.json"
    named.write_text('{"2": [1]}')
    loaded = load_trace(trace, groups=named)
    assert (loaded.groups, loaded.group_file) == ({"2": (1,)}, named)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe{}", "the group file cannot be read: 'utf-8' codec"),
        (None, "the group file cannot be read: No such file or directory"),
    ],
)
def test_a_group_file_that_cannot_be_read_is_named(trace: Path, content: bytes | None, problem: str) -> None:
    path = trace / "groups"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}: {problem}"):
        load_trace(trace, groups=path)


def test_a_folder_is_not_a_group_file(trace: Path) -> None:
    with pytest.raises(InputError, match=f"^{trace}: is not a group file: give a regular file of at most 64 MiB"):
        load_trace(trace, groups=trace)


def test_a_group_file_beyond_the_limit_is_not_read(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace / "groups"
    path.write_text('{"1": [0, 1]}')
    monkeypatch.setattr(load, "MAX_GROUP_FILE_BYTES", path.stat().st_size)
    assert load_trace(trace, groups=path).groups == {"1": (0, 1)}
    path.write_text('{"1": [0, 1]} ')
    with pytest.raises(InputError, match="is not a group file"):
        load_trace(trace, groups=path)


def test_a_group_file_with_other_content_names_the_file(trace: Path) -> None:
    (trace / "comm_group.json").write_text("[]")
    with pytest.raises(TraceError, match=r"comm_group\.json: a group file is one JSON object"):
        load_trace(trace)


def test_a_broken_rank_is_named(trace: Path) -> None:
    path = trace / "t.1.et"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TraceError, match=r"t\.1\.et, offset \d+: the file ends inside the record"):
        load_trace(trace)


def test_the_digest_is_that_of_the_files_in_the_order_of_ranks(trace: Path) -> None:
    content = (trace / "t.0.et").read_bytes() + (trace / "t.1.et").read_bytes()
    assert digest(find_trace(trace)) == hashlib.sha256(content).hexdigest()
