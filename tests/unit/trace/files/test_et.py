import json
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.json_format import MessageToJson

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files.compression import Encoding
from emulator.trace.files.et import read_rank, read_texts
from emulator.trace.files.rewrite import rewrite_trace
from emulator.trace.meaning.model import NodeType, RankTrace, StorageAction, StorageLevel
from tests.support.shared_traces import require_shared
from tests.support.trace_files import PACK, attribute, collective, compute, file_operation, frame, trace_bytes, write


def test_columns_hold_every_node_in_file_order(tmp_path: Path) -> None:
    nodes = [
        compute(7, start_time_micros=3, duration_micros=5),
        compute(0, ctrl_deps=[7, 2**64 - 1], data_deps=[9]),
        et_pb2.Node(id=2**64 - 1, type=et_pb2.MEM_LOAD_NODE, data_deps=[7]),
        collective(9),
    ]
    trace = read_rank(write(tmp_path / "t.3.et", nodes), 3)
    assert trace.rank == 3
    assert trace.path.endswith("t.3.et")
    assert trace.node_id.tolist() == [7, 0, 2**64 - 1, 9]
    assert trace.node_type.tolist() == [4, 4, 2, 7]
    assert trace.start_micros.tolist() == [3, 0, 0, 0]
    assert trace.duration_micros.tolist() == [5, 0, 0, 0]
    assert trace.dep_offset.tolist() == [0, 0, 3, 4, 4]
    assert trace.ctrl_count.tolist() == [0, 2, 0, 0]
    assert trace.dep_id.tolist() == [7, 2**64 - 1, 9, 7]
    assert [(item.row, item.node_id) for item in trace.communications] == [(3, 9)]
    assert [column.dtype for column in (trace.node_id, trace.node_type, trace.is_cpu, trace.dep_offset)] == [
        np.uint64,
        np.int8,
        np.bool_,
        np.int64,
    ]


def test_columns_continue_across_batches(tmp_path: Path) -> None:
    count = 12_000
    nodes = (compute(index, data_deps=[index - 1] if index else [], duration_micros=index) for index in range(count))
    trace = read_rank(write(tmp_path / "t.0.et", nodes), 0)
    assert trace.node_id.tolist() == list(range(count))
    assert trace.duration_micros.tolist() == list(range(count))
    assert trace.dep_offset.tolist() == [0, *range(count)]
    assert trace.dep_id.tolist() == list(range(count - 1))


def test_a_file_with_metadata_alone_has_no_nodes(tmp_path: Path) -> None:
    trace = read_rank(write(tmp_path / "t.0.et", []), 0)
    assert len(trace) == 0
    assert trace.dep_offset.tolist() == [0]


def test_empty_metadata_is_not_the_end(tmp_path: Path) -> None:
    path = write(tmp_path / "t.0.et", [compute(1), compute(2)], et_pb2.GlobalMetadata())
    assert len(read_rank(path, 0)) == 2


def test_the_schema_is_the_attribute_else_the_version(tmp_path: Path) -> None:
    path = write(tmp_path / "t.0.et", [], et_pb2.GlobalMetadata(version="0.0.4"))
    assert read_rank(path, 0).schema == "0.0.4"
    metadata = et_pb2.GlobalMetadata(version="0.0.4", attr=[attribute("schema", string_val="1.1.1-chakra.0.0.4")])
    assert read_rank(write(path, [], metadata), 0).schema == "1.1.1-chakra.0.0.4"


@pytest.mark.parametrize(
    ("attributes", "is_cpu"),
    [
        ([], False),
        ([attribute("is_cpu_op")], False),
        ([attribute("is_cpu_op", bool_val=True)], True),
        ([attribute("is_cpu_op", bool_val=False)], False),
        ([attribute("is_cpu_op", int32_val=1)], True),
        ([attribute("is_cpu_op", int32_val=0)], False),
        ([attribute("is_cpu_op", sint64_val=1)], True),
        ([attribute("is_cpu_op", fixed32_val=1)], True),
        ([attribute("is_cpu_op", uint64_val=2**63)], True),
        ([et_pb2.Attribute(name="is_cpu_op", doc_string="where it runs", bool_val=True)], True),
        ([attribute("is_cpu_op", bool_val=True), attribute("is_cpu_op", bool_val=False)], True),
        ([attribute("is_cpu_op", bool_val=False), attribute("is_cpu_op", bool_val=True)], False),
        ([attribute("not_is_cpu_op", bool_val=True)], False),
        ([attribute("op_schema", string_val="is_cpu_op")], False),
    ],
)
def test_is_cpu_op_is_read_in_every_type(tmp_path: Path, attributes: list[et_pb2.Attribute], is_cpu: bool) -> None:
    nodes = [compute(0), compute(1, attr=attributes), compute(2, attr=[attribute("rf_id", int64_val=4), *attributes])]
    trace = read_rank(write(tmp_path / "t.0.et", nodes), 0)
    assert trace.is_cpu.tolist() == [False, is_cpu, is_cpu]
    assert trace.is_pytorch_op.tolist() == [False, False, True]


def test_a_name_that_only_contains_rf_id_is_another(tmp_path: Path) -> None:
    nodes = [compute(0, attr=[attribute("perf_id", int64_val=1), attribute("x", string_val="rf_id")])]
    assert not read_rank(write(tmp_path / "t.0.et", nodes), 0).is_pytorch_op.any()


def test_is_cpu_op_of_another_type_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "t.0.et", [compute(5, attr=[attribute("is_cpu_op", string_val="yes")])])
    with pytest.raises(TraceError, match=r"node 5: attribute is_cpu_op is 'yes'"):
        read_rank(path, 0)


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([compute(4), compute(9), compute(4)], "node 4: 1 nodes have an id that another node has"),
        ([et_pb2.Node(id=3, type=11)], "node 3: unknown node type 11"),  # type: ignore[arg-type]
        ([et_pb2.Node(id=3, type=-1)], "node 3: unknown node type -1"),  # type: ignore[arg-type]
        ([compute(3, duration_micros=2**53 + 1)], r"node 3: absurd duration \(in µs\) 9007199254740993"),
        ([compute(3, start_time_micros=2**64 - 1)], r"node 3: absurd start time \(in µs\) 18446744073709551615"),
    ],
)
def test_impossible_nodes_are_named(tmp_path: Path, nodes: list[et_pb2.Node], problem: str) -> None:
    with pytest.raises(TraceError, match=rf"t\.0\.et, {problem}"):
        read_rank(write(tmp_path / "t.0.et", nodes), 0)


def test_the_longest_time_allowed_is_read(tmp_path: Path) -> None:
    trace = read_rank(write(tmp_path / "t.0.et", [compute(3, duration_micros=2**53)]), 0)
    assert trace.duration_micros.tolist() == [2**53]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b"\x08\x01\x12\x02\xff\xfe", "is not a Chakra node"),  # the name is not UTF-8
        (b"\x08\x01\x12\x7fabc", "is not a Chakra node"),  # the name is longer than the record
        (b"\x08", "is not a Chakra node"),
        (b"\x0a\x01a\x18\x04", "field id of a Node has the wrong wire type"),
        (b"\x08\x01\x1a\x01\x04", "field type of a Node has the wrong wire type"),
    ],
)
def test_a_record_that_is_no_node_is_named_by_offset(tmp_path: Path, record: bytes, problem: str) -> None:
    good = trace_bytes([compute(1)])
    path = tmp_path / "t.0.et"
    path.write_bytes(good + frame(record))
    with pytest.raises(TraceError, match=problem) as caught:
        read_rank(path, 0)
    assert caught.value.offset == len(good)


def test_fields_of_a_later_schema_are_let_pass(tmp_path: Path) -> None:
    later = b"\xa2\x06\x03new"  # field 100
    path = tmp_path / "t.0.et"
    path.write_bytes(frame(later) + frame(compute(1).SerializeToString() + later))
    assert read_rank(path, 0).node_id.tolist() == [1]


def test_an_attribute_with_a_wrong_wire_type_is_an_error_where_it_matters(tmp_path: Path) -> None:
    broken = b"\x0a\x09comm_size\x4a\x01\x05"  # int64_val (9) as bytes
    record = collective(6).SerializeToString() + b"\x52" + frame(broken)
    path = tmp_path / "t.0.et"
    path.write_bytes(trace_bytes([]) + frame(record))
    with pytest.raises(TraceError, match="node 6: field int64_val of an Attribute has the wrong wire type"):
        read_rank(path, 0)


def test_the_format_of_before_october_2023_is_refused_by_name() -> None:
    files = sorted(require_shared("traces", "legacy-chakra-old").glob("*.et"))
    assert len(files) == 38
    for path in files:
        with pytest.raises(TraceError, match="uses Chakra's wire format from before October 2023"):
            read_rank(path, 0)


def test_a_cut_anywhere_but_between_records_is_an_error(tmp_path: Path) -> None:
    nodes = [compute(index, data_deps=range(index)) for index in range(20)]
    data = trace_bytes(nodes)
    boundaries = {len(trace_bytes(nodes[:count])) for count in range(21)}
    path = tmp_path / "t.0.et"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        if length in boundaries:
            read_rank(path, 0)
        else:
            with pytest.raises(TraceError):
                read_rank(path, 0)


def process_groups(node_id: int, text: str) -> et_pb2.Node:
    return et_pb2.Node(
        id=node_id, name="## process_group:init ##", type=et_pb2.METADATA_NODE, inputs=et_pb2.IOInfo(values=text)
    )


JSON_TEXT = '[{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 8}, {"pg_name": 7, "ranks": [0, 2]}]'


@pytest.mark.parametrize("text", [JSON_TEXT, repr([JSON_TEXT]), f'["{JSON_TEXT.replace(chr(34), chr(92) + chr(34))}"]'])
def test_process_groups_of_pytorch_are_read_in_every_quoting(tmp_path: Path, text: str) -> None:
    trace = read_rank(write(tmp_path / "t.0.et", [process_groups(1, text), process_groups(2, text)]), 0)
    assert trace.groups == {"0": (), "7": (0, 2)}
    assert trace.attribute_names == {}


@pytest.mark.parametrize(
    "text",
    ["", "<None>", "[1, 2]", '{"pg_name": "0"}', '[{"ranks": [0]}]', '[{"pg_name": "0", "ranks": ["a"]}]', "[" * 5000],
)
def test_unreadable_process_groups_are_counted(tmp_path: Path, text: str) -> None:
    trace = read_rank(write(tmp_path / "t.0.et", [process_groups(1, text)]), 0)
    assert trace.groups == {}
    assert trace.attribute_names == {"process_group:init unreadable": 1}


def test_a_group_defined_twice_and_differently_is_an_error(tmp_path: Path) -> None:
    nodes = [process_groups(1, JSON_TEXT), process_groups(2, JSON_TEXT.replace("[0, 2]", "[0, 3]"))]
    with pytest.raises(TraceError, match="node 2: defines process group '7' a second time"):
        read_rank(write(tmp_path / "t.0.et", nodes), 0)


# Nodes and communication nodes of all ranks, as SOURCES.md beside the traces gives them.
SETS = [
    ("real-dlrm-8r", "chakra_trace", 15_624, 64),
    ("real-allreduce-2r-pg", "chakra_trace", 3_268, 4),
    ("self-pytorch-3d-8r", "trace", 3_592, 224),
    ("stage-llama-8r-dp2tp2pp2", "workload", 2_816, 784),
    ("stage-llama-64r-dp4tp4pp4", "workload", 11_776, 3_648),
    ("stage-moe-16r-dp2tp2ep4", "workload", 3_040, 800),
    ("text-converted-8r", "DLRM_HybridParallel", 256, 72),
    ("text-converted-8r", "MLP_HybridParallel_Data_Model", 280, 136),
    ("text-converted-8r", "Resnet50_DataParallel", 1_720, 432),
    ("mlcommons-chakra-tests", "chakra", 3_664, 21),
]


@pytest.mark.parametrize(("folder", "prefix", "nodes", "communications"), SETS)
def test_published_traces_have_the_counts_their_source_gives(
    folder: str, prefix: str, nodes: int, communications: int
) -> None:
    files = require_shared("traces", folder).glob(f"{prefix}.*.et")
    traces = [read_rank(path, 0) for path in files]
    assert sum(map(len, traces)) == nodes
    assert sum(len(trace.communications) for trace in traces) == communications
    for trace in traces:
        assert set(trace.node_type.tolist()) <= set(NodeType)
        assert set(trace.attribute_names) <= set()


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


def test_names_in_file_order_and_attributes_that_no_player_reads(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.0.et",
        [
            compute(9, attr=[attribute("tid", int64_val=3)]),
            collective(2, attribute("tid", int64_val=4), attribute("host")),
        ],
    )
    texts = read_texts(path)
    assert texts.names == ["compute 9", "all_reduce"]
    assert texts.idle == {"tid": 2, "host": 1}
