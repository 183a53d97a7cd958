import gzip
import io
import os
import random
from pathlib import Path

import pytest
import zstandard

from emulator.errors import TraceError
from emulator.trace.files.compression import BLOCK_BYTES, Encoding, compressing_writer, open_source
from tests.support.trace_files import PACK, UNPACK

NOISE = random.Random(1).randbytes(3 * BLOCK_BYTES + 17)


def unfolded(path: Path, **limits: int) -> bytes:
    with open_source(path, **limits) as source:
        return source.read_at_least(1 << 30)


def written(folder: Path, data: bytes, name: str = "t.0.et") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", ["t.0.et", "t.0.et.gz", "t.0.et.zst"])
def test_the_first_bytes_decide_and_not_the_name(tmp_path: Path, suffix: str, name: str) -> None:
    assert unfolded(written(tmp_path, PACK[suffix](NOISE), name)) == NOISE


@pytest.mark.parametrize("suffix", PACK)
def test_reading_in_portions_returns_at_least_the_count_until_the_end(tmp_path: Path, suffix: str) -> None:
    with open_source(written(tmp_path, PACK[suffix](NOISE))) as source:
        first = source.read_at_least(BLOCK_BYTES + 1)
        assert BLOCK_BYTES + 1 <= len(first) < len(NOISE)
        assert first + source.read_at_least(1 << 30) == NOISE
        assert source.read_at_least(1) == b""


def test_only_a_plain_file_has_a_size_beforehand(tmp_path: Path) -> None:
    sizes = []
    for suffix, pack in PACK.items():
        with open_source(written(tmp_path, pack(NOISE), f"t{suffix}")) as source:
            sizes.append((source.encoding.value, source.size))
    assert sizes == [("", len(NOISE)), (".gz", None), (".zst", None)]


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    assert unfolded(written(tmp_path, b"")) == b""


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("sizes", [(10, 20), (BLOCK_BYTES, 0, 1), (700, BLOCK_BYTES + 1)])
def test_frames_one_after_another_are_one_file(tmp_path: Path, suffix: str, sizes: tuple[int, ...]) -> None:
    parts = [NOISE[:size] for size in sizes]
    assert unfolded(written(tmp_path, b"".join(map(PACK[suffix], parts)))) == b"".join(parts)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_cut_file_is_an_error_wherever_it_is_cut(tmp_path: Path, suffix: str) -> None:
    short, packed = PACK[suffix](NOISE[:60]), PACK[suffix](NOISE)
    cuts = [short[:count] for count in range(4, len(short))]
    for cut in (*cuts, packed[:5], packed[: len(packed) // 3], packed[:-1]):
        path = written(tmp_path, cut)
        with pytest.raises(TraceError, match="the compressed data is cut off") as error:
            unfolded(path)
        assert error.value.path == path
        assert error.value.offset in range(len(NOISE) + 1)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_cut_second_frame_is_an_error_too(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, PACK[suffix](NOISE[:100]) + PACK[suffix](NOISE)[:6])
    with pytest.raises(TraceError, match="the compressed data is cut off"):
        unfolded(path)


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(gzip.compress(NOISE)[:-8] + bytes(8), id="gzip with a wrong checksum"),
        pytest.param(gzip.compress(NOISE) + b"rubbish", id="gzip with something after it"),
        pytest.param(gzip.compress(NOISE)[:10] + b"\xff" * 100, id="gzip with damaged blocks"),
        pytest.param(
            zstandard.ZstdCompressor(write_checksum=True).compress(NOISE)[:-4] + bytes(4),
            id="zstandard with a wrong checksum",
        ),
        pytest.param(zstandard.ZstdCompressor().compress(NOISE) + b"rubbish", id="zstandard with something after it"),
        pytest.param(b"\x28\xb5\x2f\xfd" + b"\xff" * 100, id="zstandard with a damaged header"),
    ],
)
def test_damaged_data_is_an_error_and_never_a_shorter_trace(tmp_path: Path, packed: bytes) -> None:
    path = written(tmp_path, packed)
    with pytest.raises(TraceError, match="the compressed data is corrupt") as error:
        unfolded(path)
    assert error.value.path == path


def test_a_zstandard_window_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = written(tmp_path, packer.compress(NOISE) + packer.flush())
    with pytest.raises(TraceError, match=r"corrupt .*memory"):
        unfolded(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_what_unfolds_beyond_the_limit_is_refused(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, PACK[suffix](bytes(16 << 20)))
    with pytest.raises(TraceError, match="expands to more than 400 times its size"):
        unfolded(path, allowance=1 << 20)


def test_small_files_may_unfold_to_the_allowance_whatever_their_ratio(tmp_path: Path) -> None:
    assert unfolded(written(tmp_path, gzip.compress(bytes(1 << 20)))) == bytes(1 << 20)


def test_what_is_no_file_is_refused_a_pipe_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, problem in (
        ("pipe", "pipe: is not a regular file"),
        (".", "is not a regular file"),
        ("absent", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(TraceError, match=problem), open_source(tmp_path / name):
            pass


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("t.0.et", Encoding.PLAIN),
        ("t.0.et.gz", Encoding.GZIP),
        ("t.0.et.zst", Encoding.ZSTD),
        ("t.gz.0.et", Encoding.PLAIN),
    ],
)
def test_a_file_is_written_as_its_name_ends(name: str, encoding: Encoding) -> None:
    assert Encoding.of_name(Path(name)) is encoding


@pytest.mark.parametrize("encoding", [Encoding.GZIP, Encoding.ZSTD])
def test_written_bytes_unfold_to_themselves_and_are_the_same_each_time(encoding: Encoding) -> None:
    results = []
    for _ in range(2):
        raw = io.BytesIO()
        stream = compressing_writer(raw, encoding)
        stream.write(NOISE)
        stream.close()
        assert not raw.closed
        results.append(raw.getvalue())
    assert results[0] == results[1]
    assert UNPACK[encoding.value](results[0]) == NOISE
