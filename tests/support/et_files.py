"""Reading .et files with the generated messages alone, independent of the project's reader."""

from pathlib import Path

from emulator._pb import et_pb2


def read_et(path: Path) -> tuple[et_pb2.GlobalMetadata, list[et_pb2.Node]]:
    """Metadata and nodes of a plain file."""
    data = path.read_bytes()
    frames, at = [], 0
    while at < len(data):
        size, at = _varint(data, at)
        frames.append(data[at : at + size])
        assert len(frames[-1]) == size, "cut short"
        at += size
    return et_pb2.GlobalMetadata.FromString(frames[0]), [et_pb2.Node.FromString(frame) for frame in frames[1:]]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1
