"""Bytes of a capture file, in pieces of a known length."""

from __future__ import annotations

import gzip
from io import BufferedReader, BytesIO

import pytest

from emulator.annexes.bench_kit.audit.stream import ByteStream, Damaged

DATA = bytes(range(256)) * 2000


def stream_of(data: bytes) -> ByteStream:
    return ByteStream(BufferedReader(BytesIO(data)))


@pytest.mark.parametrize("file", [DATA, gzip.compress(DATA, mtime=0)], ids=["plain", "gzip"])
def test_pieces_follow_each_other(file: bytes) -> None:
    stream = stream_of(file)
    sizes = (1, 0, 7, 300_000, len(DATA) - 300_008)
    assert b"".join(map(stream.take, sizes)) == DATA
    assert stream.take_unless_at_end(5) == b""


def test_a_file_of_several_gzip_members_is_one_stream() -> None:
    stream = stream_of(gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:]))
    assert stream.take(len(DATA)) == DATA


def test_a_piece_beyond_the_end_says_how_much_is_missing() -> None:
    with pytest.raises(Damaged, match=r"^2 bytes are missing$"):
        stream_of(b"abc").take_unless_at_end(5)
    with pytest.raises(Damaged, match=r"^1 byte is missing$"):
        stream_of(b"abc").take(4)


def test_a_required_piece_at_the_end_is_missing_whole() -> None:
    with pytest.raises(Damaged, match=r"^5 bytes are missing$"):
        stream_of(b"").take(5)


def test_compressed_data_that_ends_early_is_damaged_only_where_it_ends() -> None:
    stream = stream_of(gzip.compress(DATA)[:-100])
    assert stream.take(1000) == DATA[:1000]
    with pytest.raises(Damaged, match="ended before the end-of-stream"):
        stream.take(len(DATA))
