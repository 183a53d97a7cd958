"""Generated workloads as files, read back with the generated messages alone."""

import gzip
import json
from pathlib import Path

import pytest

from emulator._pb import et_pb2
from emulator.annexes.workloads.collective_loop import CollectiveLoop, collective_workload
from emulator.annexes.workloads.transformer import Transformer
from emulator.annexes.workloads.transformer_workload import transformer_workload
from emulator.errors import HostError, InputError
from emulator.trace.files.load import load_trace
from emulator.trace.files.write_workload import convert_trace, encode_node, write_workload
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import WorkNode
from tests.support.et_files import read_et
from tests.support.trace_files import collective, compute, trace_bytes

TRANSFORMER = transformer_workload(
    Transformer(layers=2, hidden=8, sequence=4, batch=4, micro_batches=2, vocabulary=16, tensor=2, pipeline=2, data=2)
)


def _loop(ranks: int, kind: CommKind = CommKind.ALL_REDUCE) -> CollectiveLoop:
    return CollectiveLoop(kind=kind, ranks=ranks, size_bytes=64)


def _attributes(message: et_pb2.Node | et_pb2.GlobalMetadata) -> dict[str, tuple[str | None, object]]:
    return {
        attr.name: (attr.WhichOneof("value"), getattr(attr, attr.WhichOneof("value") or "name"))
        for attr in message.attr
    }


def test_a_collective_has_the_types_every_reader_accepts() -> None:
    node = WorkNode(7, "reduce", (2, 5), kind=CommKind.ALL_REDUCE, size_bytes=64, group=3)
    encoded = encode_node(node, rank=1)
    assert (encoded.id, encoded.type, list(encoded.data_deps)) == (7, et_pb2.COMM_COLL_NODE, [2, 5])
    assert _attributes(encoded) == {
        "is_cpu_op": ("bool_val", False),
        "comm_size": ("int64_val", 64),
        "comm_type": ("int64_val", 0),
        "pg_name": ("string_val", "3"),
    }


def test_a_collective_of_all_ranks_names_no_group() -> None:
    encoded = encode_node(WorkNode(1, "barrier", kind=CommKind.BARRIER), rank=0)
    assert "pg_name" not in _attributes(encoded)
    assert _attributes(encoded)["comm_size"] == ("int64_val", 0)


@pytest.mark.parametrize(
    ("kind", "node_type", "src", "dst"),
    [(CommKind.SEND, et_pb2.COMM_SEND_NODE, 1, 4), (CommKind.RECV, et_pb2.COMM_RECV_NODE, 4, 1)],
)
def test_point_to_point_names_both_sides(kind: CommKind, node_type: int, src: int, dst: int) -> None:
    encoded = encode_node(WorkNode(1, "p2p", kind=kind, size_bytes=8, peer=4, tag=2), rank=1)
    assert encoded.type == node_type
    assert _attributes(encoded) == {
        "is_cpu_op": ("bool_val", False),
        "comm_size": ("int64_val", 8),
        "comm_src": ("int32_val", src),
        "comm_dst": ("int32_val", dst),
        "comm_tag": ("int32_val", 2),
    }


def test_compute_takes_time_on_the_device() -> None:
    encoded = encode_node(WorkNode(1, "mlp", duration_micros=250), rank=0)
    assert (encoded.type, encoded.duration_micros) == (et_pb2.COMP_NODE, 250)
    assert _attributes(encoded) == {"is_cpu_op": ("bool_val", False)}


def test_files_hold_the_nodes_of_their_ranks_and_the_groups(tmp_path: Path) -> None:
    paths = write_workload(TRANSFORMER, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [f"transformer.{rank}.et" for rank in range(8)] + ["comm_group.json"]
    assert sorted(paths) == sorted((tmp_path / "new" / "folder").iterdir())
    for rank, path in enumerate(paths[:-1]):
        metadata, nodes = read_et(path)
        assert nodes == [encode_node(node, rank=rank) for node in TRANSFORMER.nodes(rank)]
        attributes = _attributes(metadata)
        assert attributes["schema"] == ("string_val", "charkha.generate")
        assert attributes["hidden"] == ("uint64_val", 8)
    groups = json.loads(paths[-1].read_text())
    assert groups == {str(number): list(ranks) for number, ranks in TRANSFORMER.groups.items()}
    assert len(groups) == 12
    assert all(int(name) > 0 for name in groups)
    again = write_workload(TRANSFORMER, tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_a_folder_with_files_and_a_file_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    for place, error, problem in (
        (tmp_path, InputError, "not empty"),
        (tmp_path / "mine.txt", InputError, "not a folder"),
        (tmp_path / "mine.txt" / "below", HostError, "cannot write"),
    ):
        with pytest.raises(error, match=problem):
            write_workload(TRANSFORMER, place)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["keep"]


def test_force_replaces_an_earlier_trace_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    (tmp_path / "comm_group.json").write_text("{}")
    write_workload(collective_workload(_loop(4)), tmp_path, force=True)
    write_workload(collective_workload(_loop(2)), tmp_path, force=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["all_reduce.0.et", "all_reduce.1.et", "mine.txt"]


def test_the_first_ranks_of_a_trace_that_cannot_be_finished_do_not_stay(tmp_path: Path) -> None:
    (tmp_path / "transformer.7.et").mkdir()
    with pytest.raises(HostError, match=r"cannot write .*transformer\.7\.et"):
        write_workload(TRANSFORMER, tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["transformer.7.et"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not a folder"):
        write_workload(TRANSFORMER, tmp_path / "file")
    with pytest.raises(HostError, match="cannot write"):
        write_workload(TRANSFORMER, tmp_path / "file" / "below")


CONTENT = [trace_bytes([compute(1), collective(2)]), trace_bytes([compute(3)])]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for rank, content in enumerate(CONTENT):
        (folder / f"job.{rank}.et.gz").write_bytes(gzip.compress(content))
    return folder


def test_compressed_ranks_become_plain_files_with_the_bytes_of_their_records(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "plain"
    paths = convert_trace(load_trace(source), target)
    assert paths == [target / "job.0.et", target / "job.1.et"]
    assert [path.read_bytes() for path in paths] == CONTENT


def test_the_group_file_comes_along_under_the_name_that_is_found(source: Path, tmp_path: Path) -> None:
    groups = '{"1": [0,  1]}'
    (source / "job.json").write_text(groups)
    paths = convert_trace(load_trace(source), tmp_path / "plain")
    assert paths[-1].name == "comm_group.json"
    assert paths[-1].read_text() == groups
    assert load_trace(tmp_path / "plain").groups == {"1": (0, 1)}


def test_an_empty_group_file_does_not_come_along(source: Path, tmp_path: Path) -> None:
    (source / "job.json").write_text("{}")
    assert len(convert_trace(load_trace(source), tmp_path / "plain")) == 2


def test_json_becomes_protobuf(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text('{"workload_graph": [{"id": 4, "type": "COMP_NODE", "runtime": 9}]}')
    [converted] = convert_trace(load_trace(path, ranks=1), tmp_path / "plain")
    assert converted.name == "graph.0.et"
    [node] = read_et(converted)[1]
    assert (node.id, node.duration_micros) == (4, 9)


def test_ranks_without_a_prefix_are_named_trace(source: Path, tmp_path: Path) -> None:
    for rank in range(2):
        (source / f"job.{rank}.et.gz").rename(source / f"{rank}.et.gz")
    assert [path.name for path in convert_trace(load_trace(source), tmp_path / "plain")] == ["trace.0.et", "trace.1.et"]


def test_convert_a_folder_with_files_is_left_alone(source: Path) -> None:
    with pytest.raises(InputError, match="not empty"):
        convert_trace(load_trace(source), source)
    assert sorted(path.name for path in source.iterdir()) == ["job.0.et.gz", "job.1.et.gz"]
