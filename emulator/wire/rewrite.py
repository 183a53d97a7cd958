"""Writing traces: new ones, and copies of a trace in which a few nodes changed and every other byte is the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from emulator.wire._pb import et_pb2
from emulator.wire.attributes import AttrValue, make_attribute
from emulator.wire.compression import Encoding
from emulator.wire.output import encode_frame, frame_output

SCHEMA_VERSION = "0.0.4"


def write_trace(path: Path, nodes: Iterable[et_pb2.Node], *, attributes: Mapping[str, AttrValue]) -> int:
    """Write a trace of one rank, streaming; compressed as its name says (`.gz`, `.zst`).

    Args:
        path: `<prefix>.<rank>.et`, replaced as a whole when all is written.
        nodes: in the order they get in the file.
        attributes: of the global metadata.

    Returns:
        How many nodes were written.

    Raises:
        HostError: the file cannot be written.
    """
    metadata = et_pb2.GlobalMetadata(
        version=SCHEMA_VERSION, attr=[make_attribute(name, value) for name, value in attributes.items()]
    )
    count = 0
    with frame_output(path, encoding=Encoding.of_name(path)) as output:
        output.write(encode_frame(metadata.SerializeToString()))
        for node in nodes:
            output.write(encode_frame(node.SerializeToString()))
            count += 1
    return count
