"""Trace files made of bytes by hand, sharing no code with the reader and the writer under test; records one by one."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import zstandard
from google.protobuf.internal.decoder import _DecodeVarint32  # type: ignore[attr-defined]
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]

from emulator._pb import et_pb2
from emulator.trace.files.frames import read_batches

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


def frame(payload: bytes) -> bytes:
    """A record as protobuf's own writers delimit it."""
    return bytes(_VarintBytes(len(payload))) + payload


class Frame(NamedTuple):
    """A record: its offset in the uncompressed file, the message, and all its bytes."""

    offset: int
    payload: bytes
    raw: bytes


def read_frames(path: Path) -> Iterator[Frame]:
    """All records of a file one by one."""
    for batch in read_batches(path):
        for index, payload in enumerate(batch.payloads):
            yield Frame(batch.offset(index) or 0, payload, batch.raw(index, index + 1))


def trace_bytes(nodes: Iterable[et_pb2.Node], metadata: et_pb2.GlobalMetadata | None = None) -> bytes:
    """A whole uncompressed file."""
    messages = [metadata or et_pb2.GlobalMetadata(version="0.0.4"), *nodes]
    return b"".join(frame(message.SerializeToString()) for message in messages)


def parse_trace(data: bytes) -> tuple[et_pb2.GlobalMetadata, list[et_pb2.Node]]:
    """What protobuf's own decoder finds in an uncompressed file."""
    payloads, position = [], 0
    while position < len(data):
        length, position = _DecodeVarint32(data, position)
        payloads.append(data[position : position + length])
        position += length
    return et_pb2.GlobalMetadata.FromString(payloads[0]), [et_pb2.Node.FromString(payload) for payload in payloads[1:]]


def compute(node_id: int, **fields: object) -> et_pb2.Node:
    """A compute node."""
    return et_pb2.Node(id=node_id, name=f"compute {node_id}", type=et_pb2.COMP_NODE, **fields)  # type: ignore[arg-type]


def file_operation(node_id: int, op: int, size_bytes: int, **fields: object) -> et_pb2.Node:
    """A storage node with a system call on a file; `op` is a number of FsOp."""
    call = et_pb2.FsOp(op=op, pathname="/ckpt/0", fd=3, size_bytes=size_bytes)  # type: ignore[arg-type]
    info = et_pb2.StorageInfo(level=et_pb2.STORAGE_LEVEL_FS, fs=call)
    given = {"name": f"file operation {node_id}", "type": et_pb2.STORAGE_NODE, **fields}
    return et_pb2.Node(id=node_id, storage=info, **given)  # type: ignore[arg-type]


def collective(node_id: int, *attributes: et_pb2.Attribute, **fields: object) -> et_pb2.Node:
    """An all-reduce of 1 MiB with further attributes."""
    own = [attribute("comm_type", int64_val=et_pb2.ALL_REDUCE), attribute("comm_size", int64_val=1 << 20)]
    node = et_pb2.Node(id=node_id, name="all_reduce", type=et_pb2.COMM_COLL_NODE, **fields)  # type: ignore[arg-type]
    node.attr.extend([*own, *attributes])
    return node


def attribute(name: str, **value: object) -> et_pb2.Attribute:
    """An attribute; a list type takes a plain list: `attribute("x", int64_list=[1])`."""
    made = et_pb2.Attribute(name=name)
    for field, content in value.items():
        if field.endswith("_list"):
            getattr(made, field).SetInParent()
            getattr(made, field).values.extend(content)
        else:
            setattr(made, field, content)
    return made


def write(path: Path, nodes: Iterable[et_pb2.Node], metadata: et_pb2.GlobalMetadata | None = None) -> Path:
    """A file of these nodes, uncompressed."""
    path.write_bytes(trace_bytes(nodes, metadata))
    return path
