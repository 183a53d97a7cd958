"""Storage operations of Chakra's coming schema, as they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToJson

from emulator.errors import TraceError
from emulator.trace.model import RankTrace, StorageAction, StorageLevel
from emulator.wire._pb import et_pb2
from emulator.wire.trace.compression import Encoding
from emulator.wire.trace.et import read_rank
from emulator.wire.trace.rewrite import rewrite_trace
from tests.support.trace_files import PACK, compute, file_operation, frame, trace_bytes, write

OP = et_pb2.FsOp
NODES = [
    et_pb2.Node(id=1, name="batch", type=et_pb2.BATCH_NODE, duration_micros=7),
    file_operation(2, OP.FS_OP_READ, 4096, ctrl_deps=[1], duration_micros=5),
    et_pb2.Node(
        id=3,
        type=et_pb2.STORAGE_NODE,
        storage=et_pb2.StorageInfo(page=et_pb2.PageOp(op=et_pb2.PageOp.PAGE_OP_READAHEAD_ASYNC, nr_pages=1)),
    ),
    et_pb2.Node(id=4, type=et_pb2.STORAGE_NODE, storage=et_pb2.StorageInfo(level=et_pb2.STORAGE_LEVEL_DEVICE)),
    et_pb2.Node(id=5, type=et_pb2.CHECKPOINT_NODE),
    file_operation(6, OP.FS_OP_PWRITE, 1 << 30, ctrl_deps=[5]),
    file_operation(7, OP.FS_OP_FSYNC, 0, ctrl_deps=[6]),
    compute(8, data_deps=[7]),
]
FOUND = [
    (2, StorageLevel.FILE, StorageAction.READ, 4096),
    (3, StorageLevel.PAGE, StorageAction.OTHER, 0),
    (4, StorageLevel.DEVICE, StorageAction.OTHER, 0),
    (6, StorageLevel.FILE, StorageAction.WRITE, 1 << 30),
    (7, StorageLevel.FILE, StorageAction.OTHER, 0),
]


def operations(trace: RankTrace) -> list[tuple[int, StorageLevel, StorageAction, int]]:
    return [(one.node_id, one.level, one.action, one.size_bytes) for one in trace.storage]


def test_operations_are_read_with_what_they_move(tmp_path: Path) -> None:
    trace = read_rank(write(tmp_path / "t.0.et", NODES), 0)
    assert trace.node_type.tolist() == [9, 8, 8, 8, 10, 8, 8, 4]
    assert operations(trace) == FOUND
    assert next((one.row, one.name, one.duration_micros) for one in trace.storage) == (1, "file operation 2", 5)
    assert not trace.communications


def test_they_are_the_same_in_protobuf_json(tmp_path: Path) -> None:
    path = tmp_path / "t.0.json"
    path.write_text("".join(map(MessageToJson, [et_pb2.GlobalMetadata(version="1.0.0"), *NODES])))
    assert operations(read_rank(path, 0)) == FOUND


def test_they_are_read_from_a_workload_graph(tmp_path: Path) -> None:
    path = tmp_path / "t.0.json"
    call = {"level": "STORAGE_LEVEL_FS", "fs": {"op": "FS_OP_WRITE", "size_bytes": "77"}}
    nodes = [{"id": 1, "type": "CHECKPOINT_NODE"}, {"id": 2, "type": 8, "storage": call, "ctrl_deps": [1]}]
    path.write_text(json.dumps({"workload_graph": nodes}))
    assert operations(read_rank(path, 0)) == [(2, StorageLevel.FILE, StorageAction.WRITE, 77)]
    path.write_text(json.dumps({"workload_graph": [{"id": 1, "type": 8, "storage": {"fs": {"op": "EAT"}}}]}))
    with pytest.raises(TraceError, match=r"workload_graph\[0\]: storage is no StorageInfo: .*EAT"):
        read_rank(path, 0)


@pytest.mark.parametrize("suffix", ["et", "et.gz", "et.zst", "json", "json.gz"])
def test_every_form_becomes_the_same_records(tmp_path: Path, suffix: str) -> None:
    metadata = et_pb2.GlobalMetadata(version="1.0.0")
    plain = trace_bytes(NODES, metadata)
    form, _, packed = suffix.partition(".")
    data = "".join(map(MessageToJson, [metadata, *NODES])).encode() if form == "json" else plain
    source, target = tmp_path / f"t.0.{suffix}", tmp_path / "copy.0.et"
    source.write_bytes(PACK[f".{packed}" if packed else ""](data))
    assert operations(read_rank(source, 0)) == FOUND
    rewrite_trace(source, target, {}, metadata={}, encoding=Encoding.PLAIN)
    assert target.read_bytes() == plain


@pytest.mark.parametrize(
    ("storage", "problem"),
    [
        (b"\x08\x07", "node 2: has storage level 7; levels are numbered 0 to 4"),
        (b"\x08\x03\x52\x02\x08\x03", "node 2: has storage level BLOCK, but the details of .* level FILE"),
        (b"\x0a\x01\x01", "node 2: field level of a StorageInfo has the wrong wire type"),
        (b"\x52\x03\x2a\x01\x01", "node 2: field size_bytes of a FsOp has the wrong wire type"),
    ],
)
def test_corrupt_details_are_named(tmp_path: Path, storage: bytes, problem: str) -> None:
    node = b"\x08\x02\x18\x08" + b"\x5a" + bytes([len(storage)]) + storage
    path = tmp_path / "t.0.et"
    path.write_bytes(trace_bytes([compute(1)]) + frame(node))
    with pytest.raises(TraceError, match=problem):
        read_rank(path, 0)


def test_a_storage_node_in_place_of_the_metadata_is_not_taken_for_an_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.0.et"
    path.write_bytes(frame(NODES[1].SerializeToString()))
    with pytest.raises(TraceError, match="its first record is missing"):
        read_rank(path, 0)
