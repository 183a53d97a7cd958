import gzip
import json
import tarfile
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToJson

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files import compression, json_formats
from emulator.trace.files.attributes import attribute_value
from emulator.trace.files.et import read_rank
from emulator.trace.files.json_formats import BadGraphNode, graph_node
from tests.support.shared_traces import require_shared
from tests.support.trace_files import attribute, collective, compute, write


def attributes(**keys: object) -> dict[str, tuple[str | None, object]]:
    """Name → (type, value) of the attributes that these keys become."""
    node = graph_node({"id": 1, **keys})
    return {one.name: (one.WhichOneof("value"), attribute_value(one)) for one in node.attr}


@pytest.mark.parametrize("key", ["ctrlDeps", "ctrl_deps", "CTRL_DEPS", "ctrldeps"])
def test_keys_are_known_whatever_their_case_and_underscores(key: str) -> None:
    assert list(graph_node({"ID": "7", key: [1, "2", 3.0]}).ctrl_deps) == [1, 2, 3]


@pytest.mark.parametrize("value", ["COMM_COLL_NODE", "comm_coll", "COMM_COLL", 7, "7"])
def test_a_node_type_may_be_a_name_or_a_number(value: object) -> None:
    assert graph_node({"id": 1, "type": value}).type == et_pb2.COMM_COLL_NODE


@pytest.mark.parametrize("value", ["ALL_GATHER", "all_gather", 2, "2"])
def test_a_collective_may_be_a_name_or_a_number(value: object) -> None:
    assert attributes(commType=value) == {"comm_type": ("int64_val", 2)}


def test_a_field_takes_all_of_64_bits() -> None:
    assert graph_node({"id": (1 << 64) - 1}).id == (1 << 64) - 1
    assert graph_node({"id": str((1 << 64) - 1)}).id == (1 << 64) - 1
    assert attributes(comm_size=(1 << 63) - 1)["comm_size"] == ("int64_val", (1 << 63) - 1)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (True, ("bool_val", True)),
        (-5, ("int64_val", -5)),
        (0.5, ("double_val", 0.5)),
        ("a", ("string_val", "a")),
        ([1, -2], ("int64_list", (1, -2))),
        ([], ("int64_list", ())),
        ([True], ("string_val", "[true]")),
        (1 << 63, ("string_val", str(1 << 63))),
        ([1 << 63], ("string_val", f"[{1 << 63}]")),
        ({"a": [1]}, ("string_val", '{"a": [1]}')),
        ("\ud800", ("string_val", "?")),
    ],
)
def test_a_key_without_a_meaning_keeps_its_value_as_an_attribute(value: object, stored: tuple[str, object]) -> None:
    assert attributes(colour=value) == {"colour": stored}


def test_null_is_the_same_as_no_key() -> None:
    assert attributes(colour=None, comm_type=None, pg_name=None) == {}


def test_a_group_name_is_text_even_where_it_is_a_number() -> None:
    assert attributes(pgName=3) == {"pg_name": ("string_val", "3")}


@pytest.mark.parametrize(("value", "is_cpu"), [(True, True), (0, False), ("1", True)])
def test_is_cpu_op_is_a_boolean(value: object, is_cpu: bool) -> None:
    assert attributes(is_cpu_op=value) == {"is_cpu_op": ("bool_val", is_cpu)}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ([], "is not an object"),
        ({"name": "n"}, "has no id"),
        ({"id": -1}, r"id is outside 0 … 2\*\*64 - 1: -1"),
        ({"id": 1 << 64}, r"id is outside 0 … 2\*\*64 - 1"),
        ({"id": 1.5}, "id is not an integer: '1.5'"),
        ({"id": None}, "id is not an integer: 'None'"),
        ({"id": "x" * 99}, f"id is not an integer: '{'x' * 40}'$"),
        ({"id": 1, "name": 3}, "name is not a string"),
        ({"id": 1, "dataDeps": 3}, "dataDeps is not a list"),
        ({"id": 1, "dataDeps": [-3]}, "dataDeps is outside"),
        ({"id": 1, "NodeType": "COMPUTER"}, "NodeType is unknown: 'COMPUTER'"),
        ({"id": 1, "NodeType": 1 << 31}, "NodeType is unknown: 2147483648"),
        ({"id": 1, "commType": "ALL"}, "commType is unknown: 'ALL'"),
        ({"id": 1, "commSize": 1 << 63}, "commSize needs more than 64 bits"),
        ({"id": 1, "is_cpu_op": "yes"}, "is_cpu_op is not an integer: 'yes'"),
    ],
)
def test_an_entry_that_is_not_a_node_names_the_key(entry: object, problem: str) -> None:
    with pytest.raises(BadGraphNode, match=problem):
        graph_node(entry)


METADATA = et_pb2.GlobalMetadata(version="0.0.4", attr=[attribute("schema", string_val="s")])
NODES = [compute(2**63, duration_micros=4), collective(5, attribute("pg_name", string_val="1"), data_deps=[2**63])]


def save(tmp_path: Path, text: str, name: str = "t.0.json") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("keep_names", [True, False])
def test_protobuf_json_reads_as_the_same_trace(tmp_path: Path, keep_names: bool) -> None:
    text = "".join(
        MessageToJson(message, preserving_proto_field_name=keep_names, indent=2) for message in [METADATA, *NODES]
    )
    found = read_rank(save(tmp_path, text), 0)
    expected = read_rank(write(tmp_path / "t.0.et", NODES, METADATA), 0)
    assert found.schema == "s"
    assert found.node_id.tolist() == expected.node_id.tolist()
    assert found.dep_id.tolist() == expected.dep_id.tolist()
    assert found.duration_micros.tolist() == [4, 0]
    assert found.communications == expected.communications


def test_more_nodes_than_one_batch_are_read(tmp_path: Path) -> None:
    count = json_formats.BATCH_NODES + 5
    text = "{}\n" + "\n".join(f'{{"id": "{index}", "type": "COMP_NODE"}}' for index in range(count))
    assert read_rank(save(tmp_path, text), 0).node_id.tolist() == list(range(count))


def graph(*entries: object) -> str:
    return json.dumps({"workload_graph": entries, "ngpus": 8})


def test_workload_graph_is_read_in_its_spellings(tmp_path: Path) -> None:
    old = {"Id": 4, "Name": "n", "NodeType": 4, "ctrlDeps": [3], "data_deps": [1, 2], "runtime": 318, "is_cpu_op": True}
    new = {"id": 5, "name": "n", "type": "COMM_COLL_NODE", "ctrl_deps": [], "dataDeps": [4], "duration_micros": 9}
    comm = {"comm_type": "ALL_GATHER", "comm_size": "4096", "pg_name": 2, "is_cpu_op": 0, "startTime": 7}
    p2p = {"id": 6, "NodeType": 5, "comm_src": 0, "comm_dst": 1, "comm_tag": 12, "comm_size": 8.0, "comm_type": None}
    trace = read_rank(save(tmp_path, graph(old, {**new, **comm}, p2p)), 0)
    assert trace.node_id.tolist() == [4, 5, 6]
    assert trace.dep_id.tolist() == [3, 1, 2, 4]
    assert trace.ctrl_count.tolist() == [1, 0, 0]
    assert trace.duration_micros.tolist() == [318, 9, 0]
    assert trace.start_micros.tolist() == [0, 7, 0]
    assert trace.is_cpu.tolist() == [True, False, False]
    gather, send = trace.communications
    assert (gather.comm_type, gather.comm_size, gather.pg_name) == (et_pb2.ALL_GATHER, 4096, "2")
    assert (send.src, send.dst, send.tag, send.comm_size, send.comm_type) == (0, 1, 12, 8, None)


def test_keys_of_workload_graph_without_a_meaning_become_attributes(tmp_path: Path) -> None:
    entry = {"id": 1, "NodeType": 7, "colour": [True], "group_ranks": [0, 2], "note": "\ud800", "x": {"y": 2.5}}
    trace = read_rank(save(tmp_path, graph(entry)), 0)
    assert trace.communications[0].group_ranks == (0, 2)
    assert trace.attribute_names == {"colour": 1, "note": 1, "x": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        (" \n ", "the file is empty"),
        ("{}\n{", "bad JSON in line 2"),
        ('{\n"workload_graph": [\n{"Id": }]}', "bad JSON in line 3"),
        ("[" * 100_000, "bad JSON after line 1|bad JSON in line 1"),
        ("[]", "line 1: expected an object, not a list"),
        ("{}\n3", "line 2: expected an object, not a int"),
        ("{}\n{}", "line 2: an empty object instead of a node"),
        ('{}\n\n{"id": "x"}', "line 3: no Node: .*id"),
        ('{}{"id": 1, "typo": 1}', "no Node: .*typo"),
        ('{}{"id": 18446744073709551616}', "a number has more than 64 bits"),
        ('{"id": 1, "name": "n"}', "the first object must be the global metadata or have workload_graph; has id, name"),
        ('{"version": 3}', "line 1: no GlobalMetadata"),
        ('{"workload_graph": 3}', "workload_graph is not a list"),
        (graph(3), r"workload_graph\[0\]: is not an object"),
        (graph({"id": 1}, {"name": "n"}), r"workload_graph\[1\]: has no id"),
        (graph({"id": -1}), r"workload_graph\[0\]: id is outside"),
        (graph({"id": 1, "runtime": -5}), "runtime is outside"),
        (graph({"id": 1, "runtime": 0.5}), "runtime is not an integer: '0.5'"),
        (graph({"id": 1, "data_deps": 3}), "data_deps is not a list"),
        (graph({"id": 1, "data_deps": ["a"]}), "data_deps is not an integer: 'a'"),
        (graph({"id": 1, "name": 3}), "name is not a string"),
        (graph({"id": 1, "NodeType": "COMPUTE"}), "NodeType is unknown: 'COMPUTE'"),
        (graph({"id": 1, "NodeType": 2**31}), "NodeType is unknown: 2147483648"),
        (graph({"id": 1, "NodeType": 12}), "node 1: unknown node type 12"),
        (graph({"id": 1, "comm_size": 2**63}), "comm_size needs more than 64 bits"),
        (graph({"id": 1}, {"id": 1}), "node 1: 1 nodes have an id that another node has"),
        ('{"schema": "1.1.0", "pid": 1, "nodes": []}', r"is a PyTorch host trace \(schema 1.1.0\)"),
        ('{"traceEvents": []}', "is a Kineto trace"),
    ],
)
def test_bad_json_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem) as caught:
        read_rank(save(tmp_path, text), 0)
    assert "\n" not in str(caught.value)


def test_text_that_is_no_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.0.json").write_bytes(b'{}{"name": "\xff"}')
    with pytest.raises(TraceError, match="offset 12: is not UTF-8 text"):
        read_rank(tmp_path / "t.0.json", 0)


def test_an_object_longer_than_allowed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_formats, "MAX_OBJECT_CHARACTERS", 1 << 20)
    (tmp_path / "t.0.json.gz").write_bytes(gzip.compress(b'{}{"name": "' + b"a" * (1 << 22) + b'"}'))
    with pytest.raises(TraceError, match="offset 2: has an object of more than 1 MiB"):
        read_rank(tmp_path / "t.0.json.gz", 0)


def test_a_long_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of two-byte characters, so that blocks end within one; an error far behind still has its line."""
    monkeypatch.setattr(compression, "BLOCK_BYTES", 101)
    lines = [f'{{"id": "{number}", "name": "\u00e9\u00e9",\n "type": "COMP_NODE"}}' for number in range(500)]
    path = save(tmp_path, "{}\n" + "\n".join(lines))
    assert read_rank(path, 0).node_id.tolist() == list(range(500))
    with pytest.raises(TraceError, match="bad JSON in line 1003: "):
        read_rank(save(tmp_path, "{}\n" + "\n".join(lines) + '\n{"id": "7",\n "name": }'), 0)


def test_a_long_workload_graph_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [{"id": number, "name": "n", "NodeType": 4, "data_deps": [], "runtime": number} for number in range(3000)]
    path = save(tmp_path, graph(*entries))
    whole = read_rank(path, 0)
    monkeypatch.setattr(json_formats, "HELD_BYTES", 1000)
    parts = read_rank(path, 0)
    assert parts.node_id.tolist() == whole.node_id.tolist() == list(range(3000))
    assert parts.duration_micros.tolist() == whole.duration_micros.tolist()
    with pytest.raises(TraceError, match=r"workload_graph\[3000\]: has no id"):
        read_rank(save(tmp_path, graph(*entries, {"name": "n"})), 0)
    with pytest.raises(TraceError, match=r"t.0.json: workload_graph: the file ends within it \(byte "):
        read_rank(save(tmp_path, graph(*entries)[:-30]), 0)


def test_the_published_workload_graphs_agree_with_their_protobuf(tmp_path: Path) -> None:
    folder = require_shared("traces", "mlcommons-chakra-tests")
    trace = read_rank(folder / "chakra.0.et", 0)
    with tarfile.open(folder / "json_trace.tar.gz") as archive:
        member = archive.extractfile("jsonData/chakra.0.json")
        (tmp_path / "chakra.0.json").write_bytes(member.read())
    for path in (folder / "chakra.0.json.gz", tmp_path / "chakra.0.json"):
        found = read_rank(path, 0)
        assert found.node_id.tolist() == trace.node_id.tolist()
        assert found.node_type.tolist() == trace.node_type.tolist()
        assert found.is_cpu.tolist() == trace.is_cpu.tolist()
        assert found.duration_micros.tolist() == trace.duration_micros.tolist()
    assert len(read_rank(folder / "small_chakra.0.json", 0)) == 7


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("param-et_replay/linear_et.json.gz", "PyTorch host trace"),
        ("self-pytorch-3d-8r/raw/host.0.json.gz", "PyTorch host trace"),
        ("self-pytorch-3d-8r/raw/device.0.json.gz", "Kineto trace"),
        ("hta-kineto/nccl_data.json.gz", "Kineto trace"),
    ],
)
def test_published_traces_of_other_formats_are_refused_by_name(name: str, form: str) -> None:
    with pytest.raises(TraceError, match=f"is a {form}"):
        read_rank(require_shared("traces", name), 0)
