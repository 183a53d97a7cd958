"""Whatever bytes a trace file holds, reading it gives a trace that is consistent in itself, or a TraceError.

CHARKHA_FUZZ_EXAMPLES sets how many damaged files are tried; CHARKHA_FUZZ_SEED chooses others.
"""

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.json_format import MessageToJson
from hypothesis import assume, given
from hypothesis import strategies as st

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files.et import read_rank
from emulator.trace.files.rewrite import NodeChange, rewrite_trace
from emulator.trace.meaning.model import NodeType, RankTrace
from tests.support.mutants import damaged_bytes
from tests.support.trace_files import (
    PACK,
    UNPACK,
    attribute,
    collective,
    compute,
    file_operation,
    parse_trace,
    trace_bytes,
)

EXAMPLES = int(os.environ.get("CHARKHA_FUZZ_EXAMPLES", "2000"))
SEED = int(os.environ.get("CHARKHA_FUZZ_SEED", "1"))

GROUPS = '[{"pg_name": "0", "ranks": [], "group_size": 2}, {"pg_name": "1", "ranks": [0]}]'
NODES = [
    compute(0, duration_micros=4),
    et_pb2.Node(id=1, name="## process_group:init ##", type=et_pb2.METADATA_NODE, inputs=et_pb2.IOInfo(values=GROUPS)),
    compute(2, ctrl_deps=[0, 1], attr=[attribute("rf_id", int64_val=3), attribute("is_cpu_op", bool_val=True)]),
    collective(3, attribute("pg_name", string_val="1"), attribute("is_cpu_op", int32_val=0), data_deps=[0, 2]),
    et_pb2.Node(
        id=300,
        type=et_pb2.COMM_SEND_NODE,
        attr=[attribute("comm_dst", int32_val=1), attribute("comm_size", uint64_val=9), attribute("comm_tag")],
    ),
    collective(301, attribute("pg_ranks", string_val="[0, 1]"), attribute("in_split_sizes", int64_list=[1, 2])),
    collective(302, attribute("charkha.samples_ns", uint64_list=[5, 6]), attribute("vendor", bytes_val=b"\x00\xff")),
    et_pb2.Node(id=303, name="checkpoint", type=et_pb2.CHECKPOINT_NODE, duration_micros=9),
    file_operation(304, et_pb2.FsOp.FS_OP_PWRITE, 1 << 20, ctrl_deps=[303]),
    et_pb2.Node(
        id=305,
        type=et_pb2.STORAGE_NODE,
        storage=et_pb2.StorageInfo(block=et_pb2.BlockOp(op=et_pb2.BlockOp.BLOCK_OP_WRITE, device="nvme0n1", lba=8)),
        ctrl_deps=[304],
    ),
]
METADATA = et_pb2.GlobalMetadata(version="0.0.4", attr=[attribute("schema", string_val="1.1.1-chakra.0.0.4")])
PLAIN = trace_bytes(NODES, METADATA)
OBJECTS = "".join(MessageToJson(message, indent=1) for message in [METADATA, *NODES]).encode()
GRAPH = json.dumps(
    {
        "workload_graph": [
            {"Id": index, "NodeType": 7 - index, "data_deps": [1], "runtime": 5, "comm_size": 8, "pg_name": "1"}
            for index in range(4)
        ]
    }
)

SOURCES = [("t.0.et", PLAIN)] * 6 + [
    ("t.0.et.gz", PACK[".gz"](PLAIN)),
    ("t.0.et.zst", PACK[".zst"](PLAIN)),
    ("t.0.json", OBJECTS),
    ("t.0.json", GRAPH.encode()),
]


def damaged(rng: random.Random) -> tuple[str, bytes]:
    name, data = rng.choice(SOURCES)
    return name, damaged_bytes(data, rng) or b"\x00"


def check_consistent(trace: RankTrace) -> None:
    nodes = len(trace)
    columns = (trace.node_type, trace.is_cpu, trace.is_pytorch_op, trace.start_micros, trace.duration_micros)
    assert {len(column) for column in (*columns, trace.ctrl_count)} == {nodes}
    assert len(np.unique(trace.node_id)) == nodes
    assert set(trace.node_type.tolist()) <= set(NodeType)
    assert trace.dep_offset[0] == 0
    assert trace.dep_offset[-1] == len(trace.dep_id)
    assert (np.diff(trace.dep_offset) >= trace.ctrl_count).all()
    assert min([0, *trace.start_micros.tolist(), *trace.duration_micros.tolist()]) == 0
    rows = np.flatnonzero((trace.node_type >= NodeType.COMM_SEND) & (trace.node_type <= NodeType.COMM_COLL)).tolist()
    assert [item.row for item in trace.communications] == rows
    assert [item.node_id for item in trace.communications] == trace.node_id[rows].tolist()
    storage = [item.row for item in trace.storage]
    assert storage == sorted(set(storage))
    assert (trace.node_type[storage] >= NodeType.STORAGE).all()
    assert [item.node_id for item in trace.storage] == trace.node_id[storage].tolist()


def read_or_refuse(path: Path, seed: str) -> tuple[RankTrace | None, str]:
    try:
        return read_rank(path, 0), ""
    except TraceError as error:
        return None, str(error)
    except Exception as error:
        raise AssertionError(f"damaged file {seed}: {error!r} escaped") from error


def try_damaged_files(folder: Path, examples: int) -> int:
    """How many of the damaged files were still traces."""
    accepted = 0
    target = folder / "copy.0.et"
    for example in range(examples):
        seed = f"{SEED}/{example}"
        name, data = damaged(random.Random(seed))
        path = folder / name
        path.write_bytes(data)
        trace, message = read_or_refuse(path, seed)
        assert "\n" not in message, seed
        if trace is None:
            continue
        accepted += 1
        check_consistent(trace)
        rewrite_trace(path, target, {}, metadata={})
        if name == "t.0.et":
            assert target.read_bytes() == data, seed
    return accepted


@pytest.mark.timeout(max(240, EXAMPLES // 100))
def test_a_damaged_file_is_an_error_or_a_consistent_trace(tmp_path: Path) -> None:
    accepted = try_damaged_files(tmp_path, EXAMPLES)
    assert EXAMPLES // 50 < accepted < EXAMPLES // 2


def test_bytes_that_were_never_a_trace_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.0.et"
    for example in range(500):
        rng = random.Random(f"{SEED}/{example}")
        path.write_bytes(rng.randbytes(rng.randrange(16, 2000)))
        with pytest.raises(TraceError):
            read_rank(path, 0)


IDS = st.integers(0, 2**64 - 1)
MICROS = st.integers(0, 2**53)
ATTRIBUTES = st.one_of(
    st.builds(lambda value: attribute("is_cpu_op", bool_val=value), st.booleans()),
    st.builds(lambda value: attribute("is_cpu_op", int32_val=value), st.integers(0, 1)),
    st.builds(lambda value: attribute("rf_id", int64_val=value), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda value: attribute("op_schema", string_val=value), st.text()),
    st.builds(lambda name: attribute(name, double_val=0.5), st.text().filter(lambda name: name != "is_cpu_op")),
    st.builds(lambda name: attribute(name), st.sampled_from(["outputs", "is_cpu_op"])),
)
STORAGE = st.one_of(
    st.none(),
    st.builds(
        et_pb2.StorageInfo,
        level=st.sampled_from([0, 1]),
        fs=st.builds(et_pb2.FsOp, op=st.integers(0, 12), pathname=st.text(), size_bytes=IDS, offset=IDS),
    ),
    st.builds(et_pb2.StorageInfo, page=st.builds(et_pb2.PageOp, inode=IDS, nr_pages=st.integers(0, 9))),
    st.builds(et_pb2.StorageInfo, level=st.sampled_from([0, 3]), block=st.builds(et_pb2.BlockOp, lba=IDS)),
    st.builds(et_pb2.StorageInfo, level=st.just(4)),
)
ANY_NODES = st.lists(
    st.builds(
        et_pb2.Node,
        id=IDS,
        name=st.text(),
        type=st.sampled_from(range(11)),
        ctrl_deps=st.lists(IDS, max_size=3),
        data_deps=st.lists(IDS, max_size=3),
        start_time_micros=MICROS,
        duration_micros=MICROS,
        attr=st.lists(ATTRIBUTES, max_size=4),
        storage=STORAGE,
    ).filter(lambda node: node.ByteSize() > 0),
    max_size=12,
    unique_by=lambda node: node.id,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@given(nodes=ANY_NODES, suffix=st.sampled_from(sorted(PACK)))
def test_every_node_is_read_as_it_was_written(folder: Path, nodes: list[et_pb2.Node], suffix: str) -> None:
    path = folder / f"t.0.et{suffix}"
    path.write_bytes(PACK[suffix](trace_bytes(nodes, METADATA)))
    trace = read_rank(path, 0)
    check_consistent(trace)
    assert trace.node_id.tolist() == [node.id for node in nodes]
    assert trace.node_type.tolist() == [node.type for node in nodes]
    assert trace.start_micros.tolist() == [node.start_time_micros for node in nodes]
    assert trace.duration_micros.tolist() == [node.duration_micros for node in nodes]
    assert trace.ctrl_count.tolist() == [len(node.ctrl_deps) for node in nodes]
    bounds = trace.dep_offset.tolist()
    for row, node in enumerate(nodes):
        assert trace.dep_id[bounds[row] : bounds[row + 1]].tolist() == [*node.ctrl_deps, *node.data_deps]
        assert trace.is_pytorch_op[row] == any(item.name == "rf_id" for item in node.attr)
        flags = [item.bool_val or item.int32_val for item in node.attr if item.name == "is_cpu_op"]
        assert trace.is_cpu[row] == bool(flags and flags[0])


@given(nodes=ANY_NODES, chosen=st.sets(st.integers(0, 11)), suffix=st.sampled_from(sorted(PACK)))
def test_only_chosen_nodes_change(folder: Path, nodes: list[et_pb2.Node], chosen: set[int], suffix: str) -> None:
    # Attributes of an earlier run are replaced: tests/unit/trace/files/test_rewrite.py.
    assume(not any(one.name.startswith("charkha.") for node in nodes for one in node.attr))
    source, target = folder / f"s.0.et{suffix}", folder / f"m.0.et{suffix}"
    source.write_bytes(PACK[suffix](trace_bytes(nodes, METADATA)))
    change = NodeChange(5, 6, {"charkha.cct_ns": 7})
    changes = {nodes[index].id: change for index in chosen if index < len(nodes)}
    rewrite_trace(source, target, changes, metadata={})
    metadata, found = parse_trace(UNPACK[suffix](target.read_bytes()))
    assert metadata == METADATA
    for before, after in zip(nodes, found, strict=True):
        if before.id in changes:
            assert (after.start_time_micros, after.duration_micros) == (5, 6)
            assert after.attr.pop() == attribute("charkha.cct_ns", uint64_val=7)
            after.start_time_micros, after.duration_micros = before.start_time_micros, before.duration_micros
        assert before == after
