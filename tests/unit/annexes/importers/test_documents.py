"""Documents of archives: each is read from where it begins, and there are only so many."""

import io
import tarfile
from pathlib import Path

import pytest

from emulator.annexes.importers.documents import find_documents
from emulator.errors import TraceError


def archive(path: Path, texts: list[bytes]) -> Path:
    with tarfile.open(path, "w:gz") if path.name.endswith(".gz") else tarfile.open(path, "w") as found:
        for number, text in enumerate(texts):
            member = tarfile.TarInfo(f"rank{number}.json")
            member.size = len(text)
            found.addfile(member, io.BytesIO(text))
    return path


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz"])
def test_members_are_read_whatever_the_compression(name: str, tmp_path: Path) -> None:
    texts = [b'{"a": %d}' % number + b" " * 3_000_000 for number in range(3)]
    documents = list(find_documents(archive(tmp_path / name, texts)))
    assert [one.name.rpartition(":")[2] for one in documents] == ["rank0.json", "rank1.json", "rank2.json"]
    for document, text in zip(reversed(documents), reversed(texts), strict=True):
        with document.open() as source:
            read = b""
            while block := source.read_at_least(1):
                read += block
        assert read == text
        assert document.head() == text[: 1 << 16]


def test_an_archive_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    for text in (b'{"a": 1}', b'{"b": 2}'):
        (document,) = find_documents(archive(tmp_path / "x.tar.gz", [text]))
        assert document.head() == text


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.annexes.importers.documents.MOST_MEMBERS", 2)
    assert len(list(find_documents(archive(tmp_path / "two.tar.gz", [b"{}"] * 2)))) == 2
    with pytest.raises(TraceError, match="has more than 2 JSON documents"):
        list(find_documents(archive(tmp_path / "three.tar.gz", [b"{}"] * 3)))
