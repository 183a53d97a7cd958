"""Records of a trace file as messages; a corrupt record is named with its place."""

from pathlib import Path

import pytest

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files.records import check_attributes, open_batches, parse_metadata, read_nodes
from tests.support.trace_files import compute, frame, trace_bytes

METADATA = frame(et_pb2.GlobalMetadata(version="0.0.4").SerializeToString())


def saved(folder: Path, data: bytes) -> Path:
    path = folder / "t.0.et"
    path.write_bytes(data)
    return path


def test_nodes_come_in_file_order_without_the_metadata(tmp_path: Path) -> None:
    path = saved(tmp_path, trace_bytes([compute(7), compute(3), compute(5)]))
    assert [node.id for node in read_nodes(path)] == [7, 3, 5]


def test_an_attribute_of_another_wire_type_is_found_only_by_its_own_check(tmp_path: Path) -> None:
    node = compute(4)
    node.attr.add().MergeFromString(bytes([1 << 3 | 0, 5]))
    path = saved(tmp_path, trace_bytes([node]))
    [read] = read_nodes(path)
    with pytest.raises(TraceError, match="field name of an Attribute has the wrong wire type"):
        check_attributes(read, path)


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (compute(1).SerializeToString(), "its first record is missing"),
        (b"\xff\xff", "its first record is not global metadata"),
        (compute(1).SerializeToString() + bytes([11 << 3 | 2, 0]), "wire format from before October 2023"),
    ],
)
def test_a_first_record_that_is_not_metadata_is_named(tmp_path: Path, first: bytes, problem: str) -> None:
    path = saved(tmp_path, frame(first))
    with pytest.raises(TraceError, match=problem):
        parse_metadata(next(open_batches(path)), path)


def test_a_file_may_be_metadata_alone(tmp_path: Path) -> None:
    assert list(read_nodes(saved(tmp_path, METADATA))) == []


def test_nodes_of_several_batches_follow_one_another(tmp_path: Path) -> None:
    long_name = "x" * (1 << 20)
    path = saved(tmp_path, trace_bytes([et_pb2.Node(id=number, name=long_name) for number in range(20)]))
    assert len(list(open_batches(path))) > 1
    assert [node.id for node in read_nodes(path)] == list(range(20))


@pytest.mark.parametrize("field", [b"\x22", b"\x52"], ids=["dependencies", "attributes"])
def test_many_elements_of_a_record_are_refused_before_it_is_parsed(field: bytes, tmp_path: Path) -> None:
    of_list = field + b"\xe8\x07" + b"\x01" * 1000 if field == b"\x22" else (field + b"\0") * 1000
    node = compute(2).SerializeToString() + of_list
    with pytest.raises(TraceError, match="a record has more than 1,000 dependencies, attributes and values"):
        list(read_nodes(saved(tmp_path, METADATA + frame(node)), most_elements=1000))
    of_text = et_pb2.Node(id=2, name="x" * 5000).SerializeToString()
    assert [found.id for found in read_nodes(saved(tmp_path, METADATA + frame(of_text)), most_elements=1000)] == [2]


def test_many_attributes_are_refused_where_they_are_read(tmp_path: Path) -> None:
    node = et_pb2.Node(id=4, attr=[et_pb2.Attribute()] * 5000)
    with pytest.raises(TraceError, match="has more than 4,096 attributes"):
        check_attributes(node, tmp_path)
    metadata = et_pb2.GlobalMetadata(attr=[et_pb2.Attribute()] * 5000).SerializeToString()
    with pytest.raises(TraceError, match="its metadata has more than 4,096 attributes"):
        list(read_nodes(saved(tmp_path, frame(metadata))))
