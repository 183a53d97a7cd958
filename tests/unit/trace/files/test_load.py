import hashlib
from functools import partial
from pathlib import Path

import pytest

from emulator.errors import InputError, TraceError
from emulator.host.files import read_bounded
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
        (b"\xff\xfe{}", "is not UTF-8 text"),
        (None, "the group file cannot be read: No such file or directory"),
        ("folder", "the group file cannot be read: Is a directory"),
    ],
)
def test_a_group_file_that_cannot_be_read_is_named(trace: Path, content: bytes | str | None, problem: str) -> None:
    path = trace / "groups"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    with pytest.raises(InputError, match=f"^{path}: {problem}"):
        load_trace(trace, groups=path)


def test_a_group_file_beyond_the_limit_is_not_read(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace / "groups"
    path.write_text('{"1": [0, 1]}')
    monkeypatch.setattr(load, "read_bounded", partial(read_bounded, most_bytes=path.stat().st_size))
    assert load_trace(trace, groups=path).groups == {"1": (0, 1)}
    path.write_text('{"1": [0, 1]} ')
    with pytest.raises(InputError, match="the group file cannot be read: it has more than 13 B"):
        load_trace(trace, groups=path)


def test_a_file_with_other_content_is_named(trace: Path) -> None:
    (trace / "comm_group.json").write_text("[]")
    with pytest.raises(TraceError, match=r"comm_group\.json: a group file is one JSON object"):
        load_trace(trace)
    path = trace / "t.1.et"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TraceError, match=r"t\.1\.et, offset \d+: the file ends inside the record"):
        load_trace(trace)


def test_the_digest_is_that_of_the_files_in_the_order_of_ranks(trace: Path) -> None:
    content = (trace / "t.0.et").read_bytes() + (trace / "t.1.et").read_bytes()
    assert digest(find_trace(trace)) == hashlib.sha256(content).hexdigest()
