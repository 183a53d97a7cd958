"""Generated workloads as files, read back with the generated messages alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator._pb import et_pb2
from emulator.errors import HostError, InputError
from emulator.trace.files.write_workload import encode_node, write_workload
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.collective_loop import CollectiveLoop, collective_workload
from emulator.trace.synthetic.synthetic import WorkNode
from emulator.trace.synthetic.transformer.transformer import Transformer
from emulator.trace.synthetic.transformer.workload import transformer_workload
from tests.support.et_files import read_et

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


def test_files_hold_the_nodes_of_their_ranks(tmp_path: Path) -> None:
    paths = write_workload(TRANSFORMER, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [f"transformer.{rank}.et" for rank in range(8)] + ["comm_group.json"]
    assert sorted(paths) == sorted((tmp_path / "new" / "folder").iterdir())
    for rank, path in enumerate(paths[:-1]):
        metadata, nodes = read_et(path)
        assert nodes == [encode_node(node, rank=rank) for node in TRANSFORMER.nodes(rank)]
        attributes = _attributes(metadata)
        assert attributes["schema"] == ("string_val", "charkha.generate")
        assert attributes["hidden"] == ("uint64_val", 8)


def test_the_group_file_names_groups_by_positive_integers(tmp_path: Path) -> None:
    groups = json.loads(write_workload(TRANSFORMER, tmp_path)[-1].read_text())
    assert groups == {str(number): list(ranks) for number, ranks in TRANSFORMER.groups.items()}
    assert len(groups) == 12
    assert all(int(name) > 0 for name in groups)


def test_the_same_workload_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_workload(TRANSFORMER, tmp_path / "a")
    second = write_workload(TRANSFORMER, tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="not empty"):
        write_workload(TRANSFORMER, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


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
