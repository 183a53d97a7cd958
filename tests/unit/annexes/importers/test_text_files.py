"""Files are found by content, and read in bounded memory whatever they are."""

import gzip
from pathlib import Path

import pytest

from emulator.annexes.importers import text_files
from emulator.annexes.importers.importing import find_importer
from emulator.annexes.importers.text_files import file_heads, read_lines, read_whole, source_files
from emulator.errors import TraceError
from tests.support.import_sources import WRITERS, recognised, write_sample


def test_hidden_files_are_passed_over_and_folders_entered(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("c", "b/a", ".hidden"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in source_files(tmp_path)] == ["a", "c"]
    assert source_files(tmp_path / "none") == []
    assert list(file_heads(tmp_path / "none")) == []


def test_lines_keep_their_numbers_and_say_whether_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(b"one\r\n\ntwo\nthree"))
    assert list(read_lines(path)) == [(1, b"one", True), (2, b"", True), (3, b"two", True), (4, b"three", False)]


def test_lines_across_blocks_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", 3)
    path = tmp_path / "log"
    path.write_bytes(b"a" * 300_000 + b"\n" + b"b" * 10 + b"\n")
    assert [len(line) for _, line, _ in read_lines(path)] == [300_000, 10]


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 << 20))
    with pytest.raises(TraceError, match="log, line 1: has a line of more than 1 MiB"):
        list(read_lines(path))
    monkeypatch.setattr(text_files, "MAX_FILE_BYTES", 1 << 20)
    with pytest.raises(TraceError, match="log: has more than 1 MiB"):
        read_whole(path)


@pytest.mark.parametrize("sample", list(WRITERS))
def test_each_format_is_recognised_by_its_content(sample: str, tmp_path: Path) -> None:
    name = write_sample(sample, tmp_path / "source")
    (tmp_path / "source" / "README").write_text("What is here.\n\n0 1 2\n")
    assert recognised(tmp_path / "source") == name


@pytest.mark.parametrize("content", [b"", b"\x80", b"1 2 3\n", b"hello\n", b"{}", b"\x00" * 100, b"0 1\nx y\n2 3\n"])
def test_other_files_are_of_no_format(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert find_importer(tmp_path) is None
