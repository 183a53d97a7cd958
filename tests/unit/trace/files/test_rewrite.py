import gzip
import json
from pathlib import Path

import pytest

from emulator._pb import et_pb2
from emulator.errors import HostError, TraceError
from emulator.trace.files.et import read_rank
from emulator.trace.files.rewrite import NodeChange, rewrite_trace, write_trace
from tests.support.shared_traces import require_shared
from tests.support.trace_files import (
    PACK,
    UNPACK,
    attribute,
    collective,
    compute,
    file_operation,
    frame,
    parse_trace,
    read_frames,
    trace_bytes,
    write,
)

LATER = b"\xa2\x06\x03new"  # field 100: of no schema known
NODES = [compute(0), collective(7, data_deps=[0], duration_micros=100, start_time_micros=3), compute(9, data_deps=[7])]
CHANGE = NodeChange(
    start_micros=11,
    duration_micros=22,
    attributes={"charkha.duration_ns": 21_700, "charkha.samples_ns": [3, 2], "charkha.algorithm": "ring"},
)


def own(node: et_pb2.Node | et_pb2.GlobalMetadata) -> dict[str, object]:
    return {
        item.name: getattr(item, str(item.WhichOneof("value")))
        for item in node.attr
        if item.name.startswith("charkha.")
    }


def raw_frames(path: Path) -> list[bytes]:
    return [item.raw for item in read_frames(path)]


@pytest.mark.parametrize("suffix", PACK)
def test_nothing_to_change_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    # Lengths and fields that no encoder of ours would write must come through too.
    data = frame(LATER) + b"\x86\x80\x00" + b"\x18\x04\x08\x01\x08\x02" + frame(NODES[1].SerializeToString() + LATER)
    source, target = tmp_path / f"t.0.et{suffix}", tmp_path / "out"
    source.write_bytes(PACK[suffix](data))
    rewrite_trace(source, target, {}, metadata={})
    assert UNPACK[suffix](target.read_bytes()) == data
    if not suffix:
        assert target.read_bytes() == data


def test_storage_nodes_keep_their_bytes_and_a_measured_one_its_details(tmp_path: Path) -> None:
    nodes = [
        et_pb2.Node(id=1, name="checkpoint", type=et_pb2.CHECKPOINT_NODE),
        file_operation(2, et_pb2.FsOp.FS_OP_WRITE, 9, ctrl_deps=[1]),
        file_operation(3, et_pb2.FsOp.FS_OP_FSYNC, 0, ctrl_deps=[2]),
    ]
    source, target = write(tmp_path / "t.0.et", nodes), tmp_path / "out"
    rewrite_trace(source, target, {}, metadata={})
    assert target.read_bytes() == source.read_bytes()
    rewrite_trace(source, target, {2: CHANGE}, metadata={})
    before, after = raw_frames(source), raw_frames(target)
    assert [index for index in range(4) if before[index] != after[index]] == [2]
    changed = parse_trace(target.read_bytes())[1][1]
    assert changed.storage == nodes[1].storage
    assert (changed.type, changed.duration_micros) == (et_pb2.STORAGE_NODE, 22)


def test_only_the_changed_node_gets_other_bytes(tmp_path: Path) -> None:
    source, target = write(tmp_path / "t.0.et", NODES), tmp_path / "m.0.et"
    rewrite_trace(source, target, {7: CHANGE}, metadata={})
    before, after = raw_frames(source), raw_frames(target)
    assert [left == right for left, right in zip(before, after, strict=True)] == [True, True, False, True]
    node = parse_trace(target.read_bytes())[1][1]
    assert (node.start_time_micros, node.duration_micros) == (11, 22)
    assert [(item.name, item.WhichOneof("value")) for item in node.attr] == [
        ("comm_type", "int64_val"),
        ("comm_size", "int64_val"),
        ("charkha.duration_ns", "uint64_val"),
        ("charkha.samples_ns", "uint64_list"),
        ("charkha.algorithm", "string_val"),
    ]
    assert list(node.attr[3].uint64_list.values) == [3, 2]
    del node.attr[2:]
    node.start_time_micros, node.duration_micros = 3, 100
    assert node == NODES[1]


def test_unknown_fields_and_attributes_of_a_changed_node_survive(tmp_path: Path) -> None:
    node = collective(7, attribute("vendor", bytes_val=b"\xff\x00"), attribute("empty"))
    source, target = tmp_path / "t.0.et", tmp_path / "m.0.et"
    source.write_bytes(trace_bytes([]) + frame(node.SerializeToString() + LATER))
    rewrite_trace(source, target, {7: CHANGE}, metadata={})
    assert raw_frames(target)[1].endswith(LATER)
    kept = parse_trace(target.read_bytes())[1][0]
    assert [item for item in kept.attr if not item.name.startswith("charkha.")] == list(node.attr)


def test_earlier_measurements_are_replaced_but_the_first_duration_stays(tmp_path: Path) -> None:
    old = [
        attribute("charkha.cct_ns", uint64_val=1),
        attribute("charkha.traced_duration_micros", uint64_val=100),
        attribute("charkha.in_splits", uint64_list=[1, 2]),
    ]
    source, target = write(tmp_path / "t.0.et", [collective(7, *old)]), tmp_path / "m.0.et"
    change = NodeChange(1, 2, {"charkha.traced_duration_micros": 55, "charkha.run_id": "r"})
    rewrite_trace(source, target, {7: change}, metadata={})
    found = own(parse_trace(target.read_bytes())[1][0])
    assert found.keys() == {"charkha.traced_duration_micros", "charkha.in_splits", "charkha.run_id"}
    assert found["charkha.traced_duration_micros"] == 100


def test_metadata_gets_attributes_and_keeps_the_rest(tmp_path: Path) -> None:
    metadata = et_pb2.GlobalMetadata(
        version="1", attr=[attribute("charkha.compute", string_val="skip"), attribute("pid", uint64_val=4)]
    )
    source, target = write(tmp_path / "t.0.et", NODES, metadata), tmp_path / "m.0.et"
    rewrite_trace(source, target, {}, metadata={"charkha.time_base": "run", "charkha.scale_bytes": "0.5"})
    found = parse_trace(target.read_bytes())[0]
    assert found.version == "1"
    assert [item.name for item in found.attr] == ["pid", "charkha.time_base", "charkha.scale_bytes"]
    assert raw_frames(source)[1:] == raw_frames(target)[1:]


@pytest.mark.parametrize("suffix", PACK)
def test_a_measured_trace_reads_and_is_measured_again(tmp_path: Path, suffix: str) -> None:
    source, first, second = (tmp_path / f"{name}.0.et{suffix}" for name in "abc")
    source.write_bytes(PACK[suffix](trace_bytes(NODES)))
    rewrite_trace(source, first, {7: CHANGE}, metadata={"charkha.time_base": "run"})
    rewrite_trace(first, second, {7: CHANGE}, metadata={"charkha.time_base": "run"})
    assert first.read_bytes() == second.read_bytes()
    trace = read_rank(second, 0)
    assert trace.communications[0].duration_micros == 22
    assert trace.attribute_names == {}


def test_gzip_output_does_not_depend_on_the_clock_or_the_name(tmp_path: Path) -> None:
    source = tmp_path / "t.0.et.gz"
    source.write_bytes(gzip.compress(trace_bytes(NODES), mtime=99))
    rewrite_trace(source, tmp_path / "m.0.et.gz", {}, metadata={})
    assert (tmp_path / "m.0.et.gz").read_bytes()[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def test_json_is_written_as_plain_et(tmp_path: Path) -> None:
    source, target = tmp_path / "t.0.json.gz", tmp_path / "m.0.et"
    entry = {"id": 7, "NodeType": 7, "comm_type": 0, "comm_size": 8}
    source.write_bytes(gzip.compress(json.dumps({"workload_graph": [entry, {"id": 8}]}).encode()))
    rewrite_trace(source, target, {7: CHANGE}, metadata={"charkha.compute": "skip"})
    metadata, nodes = parse_trace(target.read_bytes())
    assert own(metadata) == {"charkha.compute": "skip"}
    assert [(node.id, node.duration_micros) for node in nodes] == [(7, 22), (8, 0)]


@pytest.mark.parametrize(
    ("cut", "target", "error", "problem"),
    [
        (None, "m.0.et", TraceError, "node 8: no longer has this node"),
        (-1, "m.0.et", TraceError, "ends inside the record"),
        (None, "absent/m.0.et", HostError, "cannot write"),
    ],
)
def test_a_trace_that_cannot_be_rewritten_leaves_nothing(
    tmp_path: Path, cut: int | None, target: str, error: type[Exception], problem: str
) -> None:
    source = tmp_path / "t.0.et"
    source.write_bytes(trace_bytes(NODES)[:cut])
    with pytest.raises(error, match=problem):
        rewrite_trace(source, tmp_path / target, {7: CHANGE, 8: CHANGE}, metadata={})
    assert list(tmp_path.iterdir()) == [source]


def test_a_trace_can_be_rewritten_in_place(tmp_path: Path) -> None:
    path = write(tmp_path / "t.0.et", NODES)
    rewrite_trace(path, path, {7: CHANGE}, metadata={})
    assert read_rank(path, 0).communications[0].duration_micros == 22


def test_published_traces_come_through_byte_for_byte(tmp_path: Path) -> None:
    files = [path for path in require_shared("traces").rglob("*.et") if "legacy" not in str(path)]
    assert len(files) > 200
    for source in files:
        rewrite_trace(source, tmp_path / "copy.0.et", {}, metadata={})
        assert (tmp_path / "copy.0.et").read_bytes() == source.read_bytes(), source


WRITE_TRACE_NODES = [
    et_pb2.Node(id=index, name=f"layer {index}" * 30, type=et_pb2.COMP_NODE, duration_micros=index)
    for index in range(5)
]


@pytest.mark.parametrize("suffix", UNPACK)
def test_a_written_trace_has_metadata_then_nodes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.0.et{suffix}"
    count = write_trace(path, iter(WRITE_TRACE_NODES), attributes={"schema": "1.1.1-chakra.0.0.4", "layers": 4})
    metadata, nodes = parse_trace(UNPACK[suffix](path.read_bytes()))
    assert count == 5
    assert nodes == WRITE_TRACE_NODES
    assert metadata.version
    assert [(a.name, a.string_val, a.uint64_val) for a in metadata.attr] == [
        ("schema", "1.1.1-chakra.0.0.4", 0),
        ("layers", "", 4),
    ]


@pytest.mark.parametrize("suffix", UNPACK)
def test_the_same_trace_is_written_as_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a.0.et{suffix}", tmp_path / f"b.0.et{suffix}"
    for path in (first, second):
        write_trace(path, WRITE_TRACE_NODES, attributes={})
    assert first.read_bytes() == second.read_bytes()


def test_a_generator_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def failing():  # type: ignore[no-untyped-def]
        yield WRITE_TRACE_NODES[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_trace(tmp_path / "t.0.et", failing(), attributes={})
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"cannot write .*absent/t\.0\.et: No such file"):
        write_trace(tmp_path / "absent" / "t.0.et", WRITE_TRACE_NODES, attributes={})
